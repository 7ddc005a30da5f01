"""Asking the teachers, round by round: the line between private and public, and what crossing it cost."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from hashlib import sha256
from itertools import takewhile
from operator import add
from pathlib import Path

import numpy as np

from nzc._types import AnyArray, Floats, Ints
from nzc.aggregators import Aggregator
from nzc.aggregators.aggregator import ABSTAIN
from nzc.errors import InputError
from nzc.privacy import Epsilon
from nzc.privacy.conversion import ORDERS
from nzc.privacy.cost import Cost, growth
from nzc.privacy.filter import Filter
from nzc.privacy.sanitised import Plan
from nzc.queries import Rounds
from nzc.randomness import SEEDED, system
from nzc.store import Ledger, Release
from nzc.teachers import Ballots


@dataclass(frozen=True)
class Terms:
    """On what terms teachers are asked; fixed before a vote is seen.

    budget        ε at δ that no answer may pass, whatever the votes; None: no limit
    plan          makes the plan of the sanitised ε (privacy.sanitised)
    audit_trials  how often the sampler is run for a lower bound; None: not at all
    name          of the aggregator, for messages and the ledger
    rng           whose noise labels and the sanitised ε get: the seed's, or the operating system's (nzc/randomness.py).
                  What is public is drawn from the seed either way: rows, the student's first weights, the audit
    """

    aggregator: Aggregator
    rounds: Rounds
    seed: int
    delta: float
    budget: float | None
    plan: Callable[..., Plan]
    audit_trials: int | None
    name: str
    rng: str = SEEDED


@dataclass(frozen=True)
class Asked:
    """One round: rows of the pool in the order of asking, what was released of them (ABSTAIN: nothing), at what cost.

    spent   what it took from the budget, in the filter's unit
    key     by which the ledger knows this release: a hash of the question, of what was released and, where the noise
            is the system's, of the draw
    """

    mechanism: Aggregator
    rows: Ints
    labels: Ints
    cost: Cost
    spent: float
    key: str

    @property
    def answered(self) -> int:
        """How many labels were released."""
        return int((self.labels != ABSTAIN).sum())


class Inquiry:
    """A run's questions to its teachers: `sizes` rounds of so many rows each, out of a pool of `rows`.

    ledger   the file in which every release is recorded
    data     whose privacy it spends: `Teachers.learnt_from`
    """

    def __init__(self, terms: Terms, sizes: list[int], rows: int, ledger: Path, data: str) -> None:
        self.terms, self.sizes, self.released = terms, sizes, np.full(rows, ABSTAIN)
        self.ledger, self.data = ledger, data
        self.asked: list[Asked] = []
        self.drawn: list[str] = []  # the questions that this run has drawn noise of the system for
        aggregator = terms.aggregator
        self.mechanisms = [aggregator.first or aggregator, *[aggregator] * (len(sizes) - 1)]
        self.filters = [self._filter(mechanism) for mechanism in self.mechanisms]
        if len({limit and limit.limit for limit in self.filters}) > 1:
            allowed = f"can be kept by {terms.name} only where all rounds have the same noise, or all noise is Gaussian"
            raise InputError("budget.epsilon", terms.budget, allowed)
        rounds = [(size, mechanism.bounds) for size, mechanism in zip(sizes, self.mechanisms, strict=True)]
        planned = [(size, bound) for size, bounds in rounds for bound in bounds]
        self.plan = terms.plan(planned, terms.delta) if all(bounds for _, bounds in rounds) else None

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
        votes, question = ballots.votes[rows], self._key(mechanism, number, ballots, rows, before)
        labels, nonce = self._draw([2, number], question, lambda rng: mechanism.label(votes, rng, before))
        spent = 0.0
        if limit is not None:
            passed = labels != ABSTAIN
            admitted = limit.admit(passed, sum(each.spent for each in self.asked))
            rows, labels, before = rows[admitted], labels[admitted], None if before is None else before[admitted]
            spent = limit.spends(len(rows), int(passed[admitted].sum()))
        cost = mechanism.cost(ballots.votes[rows], labels, before)
        key = self._key(mechanism, number, ballots, rows, before, labels.astype("<i8").tobytes(), nonce)
        self.asked.append(Asked(mechanism, rows, labels, cost, spent, key))
        self.released[rows] = labels
        return self.asked[-1]

    def _draw(
        self, stream: list[int], question: str, draw: Callable[[np.random.Generator], Ints | Floats]
    ) -> tuple[AnyArray, bytes]:
        """What `draw` made of the noise, and the nonce of the draw.

        The seed's noise comes from its `stream`, and has no nonce. The system's is drawn once per question until
        `close`: a run that was killed and is started again goes on with what it drew before. To ask again in hope of
        other labels would be a second release.
        """
        if self.terms.rng == SEEDED:
            return draw(np.random.default_rng([self.terms.seed, *stream])), b""
        drawn = draw(system())
        kept = Ledger(self.ledger).draw(self.data, question, secrets.token_bytes(16) + drawn.tobytes())
        self.drawn.append(question)
        return np.frombuffer(kept[16:], drawn.dtype).reshape(drawn.shape).copy(), kept[:16]

    def _key(
        self, mechanism: Aggregator, number: int, ballots: Ballots, rows: Ints, known: Floats | None, *drawn: bytes
    ) -> str:
        """A hash of what is asked in round `number`, how, and of whom; and of what was drawn, if given."""
        key = sha256(repr((mechanism, self.terms.seed, number + 1)).encode())
        for array in (ballots.votes[rows], rows, known):
            key.update(b"" if array is None else np.ascontiguousarray(array).data)
        for part in drawn:
            key.update(part)
        return key.hexdigest()

    def record(self) -> None:
        """Tell the ledger of the last round before anyone else hears of it."""
        asked = self.asked[-1]
        if asked.cost.exact is None or not len(asked.rows):
            return
        facts = {"aggregator": repr(asked.mechanism), "asked": len(asked.rows), "answered": asked.answered}
        Ledger(self.ledger).record(Release(
            self.data, asked.key, ORDERS, asked.cost.rdp(ORDERS), asked.labels.astype("<i8").tobytes(),
            self.terms.name, facts, leak=asked.cost.leak,
        ))  # fmt: skip

    def epsilon(self, ballots: Ballots) -> Epsilon:
        """Every ε of all rounds together."""
        terms = self.terms
        cost = reduce(add, (asked.cost for asked in self.asked))
        return replace(
            cost.epsilon(terms.delta),
            sanitised=self._sanitised(cost),
            audited=None if terms.audit_trials is None else self._audited(ballots, terms.audit_trials),
            ledger_total=None if cost.exact is None else Ledger(self.ledger).total(self.data, terms.delta),
        )

    def _audited(self, ballots: Ballots, trials: int) -> float | None:
        """Of the dearest mechanism alone."""
        terms = self.terms
        dearest = max(self.asked, key=lambda asked: asked.cost.independent(terms.delta)).mechanism
        queries = sum(len(asked.rows) for asked in self.asked if asked.mechanism == dearest)
        if (limit := self.filters[self.mechanisms.index(dearest)]) is not None:
            # The fewer are answered, the more are asked: of a run that answers all, the budget admits but so many.
            before = sum(asked.spent for asked in takewhile(lambda asked: asked.mechanism != dearest, self.asked))
            queries = int(limit.admit(np.ones(queries, dtype=bool), before).sum())
        rng = np.random.default_rng([terms.seed, 3])
        return dearest.audit(ballots.count, ballots.votes.shape[1], queries, trials, terms.delta, rng)

    def _sanitised(self, cost: Cost) -> float | None:
        plan, delta = self.plan, self.terms.delta
        if plan is None:
            return None
        question = sha256(repr((plan, delta, [asked.key for asked in self.asked])).encode()).hexdigest()
        drawn, _ = self._draw([3], question, lambda rng: np.array([cost.sanitised(delta, rng, plan)]))
        return float(drawn[0])

    def close(self) -> None:
        """To be called once all that was drawn is kept. Whoever asks again draws anew, which is another release."""
        if self.drawn:
            Ledger(self.ledger).close(self.data, self.drawn)

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
