"""Asking the teachers, round by round: the line between private and public, and what crossing it cost."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial, reduce
from hashlib import sha256
from operator import add
from pathlib import Path

import numpy as np

from nzc._types import Floats, Ints
from nzc.aggregators import Aggregator
from nzc.aggregators.aggregator import ABSTAIN
from nzc.errors import InputError
from nzc.privacy import Epsilon
from nzc.privacy.conversion import ORDERS
from nzc.privacy.cost import Cost, growth, planned
from nzc.privacy.filter import Filter
from nzc.privacy.release import Plan
from nzc.queries import Rounds
from nzc.store import Ledger, Release
from nzc.teachers import Ballots


@dataclass(frozen=True)
class Terms:
    """On what terms teachers are asked; fixed before a vote is seen.

    budget        ε at δ that no answer may pass, whatever the votes; None: no limit
    plan          makes the plan of the sanitised ε (privacy.release)
    audit_trials  how often the sampler is run for a lower bound; None: not at all
    name          of the aggregator, for messages and the ledger
    """

    aggregator: Aggregator
    rounds: Rounds
    seed: int
    delta: float
    budget: float | None
    plan: Callable[..., Plan]
    audit_trials: int | None
    name: str


@dataclass(frozen=True)
class Asked:
    """One round: rows of the pool in the order of asking, what was released of them (ABSTAIN: nothing), at what cost.

    known   the student's probabilities at these rows, [rows, classes]; None before there is a student
    spent   what it took from the budget, in the filter's unit
    """

    mechanism: Aggregator
    rows: Ints
    labels: Ints
    known: Floats | None
    cost: Cost
    spent: float

    @property
    def answered(self) -> int:
        """How many labels were released."""
        return int((self.labels != ABSTAIN).sum())


class Inquiry:
    """A run's questions to its teachers: `sizes` rounds of so many rows each, out of a pool of `rows`."""

    def __init__(self, terms: Terms, sizes: list[int], rows: int) -> None:
        self.terms, self.sizes, self.released = terms, sizes, np.full(rows, ABSTAIN)
        self.asked: list[Asked] = []
        aggregator = terms.aggregator
        self.mechanisms = [aggregator.first or aggregator, *[aggregator] * (len(sizes) - 1)]
        self.filters = [self._filter(mechanism) for mechanism in self.mechanisms]
        if len({limit and limit.limit for limit in self.filters}) > 1:
            allowed = f"can be kept by {terms.name} only where all rounds have the same noise, or all Gaussian noise"
            raise InputError("budget.epsilon", terms.budget, allowed)
        parts = [(size, mechanism.bounds) for size, mechanism in zip(sizes, self.mechanisms, strict=True)]
        self.plan = planned(parts, terms.plan, terms.delta)

    def _filter(self, mechanism: Aggregator) -> Filter | None:
        """What says which queries may be asked; None without a budget."""
        budget, delta, queries = self.terms.budget, self.terms.delta, sum(self.sizes)
        if budget is None:
            return None
        limit = mechanism.filter(budget, delta, queries)
        if not limit.admit(np.ones(1, dtype=bool)).all():
            allowed = f"is too little for a single label of {self.terms.name} at delta={delta:g}"
            raise InputError("budget.epsilon", budget, allowed)
        return limit

    def ask(self, ballots: Ballots, known: Floats | None) -> Asked:
        """The next round. `known`: the student's probabilities, [pool, classes]; None while there is no student."""
        number, terms = len(self.asked), self.terms
        stage = 0 if known is None else number
        mechanism, limit = self.mechanisms[stage], self.filters[stage]
        left = np.setdiff1d(np.arange(len(self.released)), self.rows)
        rows = terms.rounds.choose(left, self.sizes[number], known, np.random.default_rng([terms.seed, 4, number]))
        before = None if known is None else known[rows]
        # The line: on its right are votes, on its left what may be published at the cost counted below.
        labels = mechanism.label(ballots.votes[rows], np.random.default_rng([terms.seed, 2, number]), before)
        spent = 0.0
        if limit is not None:
            passed = labels != ABSTAIN
            admitted = limit.admit(passed, sum(each.spent for each in self.asked))
            rows, labels, before = rows[admitted], labels[admitted], None if before is None else before[admitted]
            spent = limit.spends(len(rows), int(passed[admitted].sum()))
        cost = mechanism.cost(ballots.votes[rows], labels, before)
        self.asked.append(Asked(mechanism, rows, labels, before, cost, spent))
        self.released[rows] = labels
        return self.asked[-1]

    def record(self, ledger: Path, data: str, ballots: Ballots) -> None:
        """Tell the ledger, a file, of the last round before anyone else hears of it. `data`: `Teachers.learnt_from`."""
        asked, terms = self.asked[-1], self.terms
        if asked.cost.exact is None or not len(asked.rows):
            return
        spent = sha256(repr((asked.mechanism, terms.seed, len(self.asked))).encode())
        for array in (ballots.votes[asked.rows], asked.rows, asked.known):
            spent.update(b"" if array is None else np.ascontiguousarray(array).data)
        facts = {"aggregator": repr(asked.mechanism), "asked": len(asked.rows), "answered": asked.answered}
        Ledger(ledger).record(Release(
            data, spent.hexdigest(), ORDERS, asked.cost.rdp(ORDERS), asked.labels.astype("<i8").tobytes(),
            terms.name, facts, leak=asked.cost.leak,
        ))  # fmt: skip

    def epsilon(self, ledger: Path, data: str, ballots: Ballots) -> Epsilon:
        """Every ε of all rounds together."""
        terms, noise = self.terms, partial(np.random.default_rng, [self.terms.seed, 3])
        cost = reduce(add, (asked.cost for asked in self.asked))
        audited = None
        if terms.audit_trials is not None:
            audited = terms.aggregator.audit(
                ballots.count, ballots.votes.shape[1], cost.queries, terms.audit_trials, terms.delta, noise()
            )
        return replace(
            cost.epsilon(terms.delta),
            sanitised=cost.sanitised(terms.delta, noise(), self.plan),
            audited=audited,
            ledger_total=None if cost.exact is None else Ledger(ledger).total(data, terms.delta),
        )

    def growth(self, points: int) -> tuple[Ints, dict[str, Floats]]:
        """privacy.cost.growth of all rounds."""
        return growth([(asked.cost, asked.labels != ABSTAIN) for asked in self.asked], self.terms.delta, points)

    @property
    def rows(self) -> Ints:
        """All rows asked so far, in the order of asking."""
        return np.concatenate([np.zeros(0, np.int64), *[asked.rows for asked in self.asked]])

    def taught(self, known: Floats | None) -> Ints:
        """What the student learns from, [pool]: what was released, and where the aggregator says so, what it knew."""
        labels = self.released.copy()
        if known is not None:
            rows = self.rows
            labels[rows] = self.terms.aggregator.reinforce(labels[rows], known[rows])
        return labels
