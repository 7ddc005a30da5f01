"""The privacy boundary: a session asks the teachers round by round, releases labels, and counts what they cost.

    votes (private)  →  LabelingSession.ask  →  labels (public)  →  LabelingSession.record  →  ledger (private)

`ask` is the only place in a run where votes become labels; the mechanism draws them.

Without a new privacy proof you may change which public rows are asked, if the choice uses public rows and the student
only, and how a student learns from labels. You may not change what looks at votes (noise, screen, budget, plan), the
order ask, record, learn, or that an unfinished run draws its noise once.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import takewhile
from operator import add

import numpy as np

from nzc.accounting import Cost, Epsilon
from nzc.accounting.cost import cost_curve
from nzc.accounting.data_independent import FREE, gaussian_cost
from nzc.accounting.epsilon import DATA_INDEPENDENT, SANITISED
from nzc.accounting.privacy_filter import PrivacyFilter, count_filter
from nzc.accounting.rdp import ORDERS
from nzc.accounting.sanitised import Plan
from nzc.labeling.ledger_entry import total_epsilon
from nzc.labeling.policy import LabelingPolicy
from nzc.labeling.run_record import RunRecord, question
from nzc.mechanisms import ABSTAIN, NoisyArgmax
from nzc.storage.fingerprint import describe
from nzc.teachers import VoteHistograms
from nzc.types import AnyArray, Bools, Floats, Ints
from nzc.validation import InputError

#: Two ε found over Rényi orders may be so far apart, relatively, where their costs are equal (`rdp.to_epsilon`).
_PRECISION = 1e-3


@dataclass(frozen=True, repr=False)
class QueryRound:
    """One round of queries.

    rows    [queries] asked rows of the pool, in the order of asking
    labels  [queries] released labels, ABSTAIN where none was released
    cost    of all queries of the round where a screen decides where asking stops: it could have gone on
    drawn   [queries of the cost] whether each of them had an answer
    spent   what the round took from the budget, in the filter's unit
    key     the ledger's key: a hash of queries, their rows, labels and, with operating-system noise, the draw
    """

    mechanism: NoisyArgmax
    rows: Ints
    labels: Ints
    cost: Cost
    drawn: Bools
    spent: float
    key: str

    @property
    def answered(self) -> int:
        """How many labels were released."""
        return int((self.labels != ABSTAIN).sum())

    @property
    def worst_case(self) -> Cost:
        """What these labels cost at most, whatever the votes."""
        return self.mechanism.promise(len(self.rows), self.answered)


class LabelingSession:
    """All rounds of one run: sizes[i] queries in round i, out of a pool of `rows` public rows.

    ledger  where draws and costs are recorded
    public  [rows, ...] what the rows contain; None: it is not known
    """

    def __init__(
        self, policy: LabelingPolicy, sizes: list[int], rows: int, ledger: RunRecord, public: AnyArray | None = None
    ) -> None:
        self.policy, self.sizes, self.released = policy, sizes, np.full(rows, ABSTAIN)
        self.ledger, self._public = ledger, public
        self.rounds: list[QueryRound] = []
        # The mechanism of each round is fixed before a vote is seen, whether there will be a student or not.
        self.mechanisms = [policy.mechanism.first or policy.mechanism, *[policy.mechanism] * (len(sizes) - 1)]
        if len(sizes) > 1 and any(each.one_round for each in self.mechanisms):
            raise InputError("rounds", len(sizes), f"must be 1: the cost of {policy.name} counts over one round")
        if len(sizes) > 1 and any(each.moved is not None for each in self.mechanisms):
            allowed = "must be 1 where a record moves votes on a few queries of a round only"
            raise InputError("rounds", len(sizes), allowed)
        planned = [
            (size, bound) for size, each in zip(sizes, self.mechanisms, strict=True) for bound in each.pricing.bounds
        ]
        self.plan: Plan | None = None
        if policy.publish == SANITISED:
            if not all(each.pricing.bounds for each in self.mechanisms):
                allowed = f"must be {DATA_INDEPENDENT}: no paper has a data-dependent bound for {policy.name}"
                raise InputError("publish", SANITISED, allowed)
            self.plan = policy.plan(planned, policy.delta)
        self.bound_release = FREE if self.plan is None else gaussian_cost(1 / self.plan.noise)
        self._bound_cost = Cost(0, None, (), ((1, self.bound_release),))
        self._identities = [_identity(each) for each in self.mechanisms]
        distinct = dict(zip(self._identities, self.mechanisms, strict=True))
        self.alike = len(distinct) == 1
        made = {name: self._filter(each) for name, each in distinct.items()}
        self.filters = [made[name] for name in self._identities]
        if len({each and each.budget for each in self.filters}) > 1:
            allowed = f"can be kept by {policy.name} only if all rounds have the same noise, or all noise is Gaussian"
            raise InputError("budget.epsilon", policy.budget, allowed)

    @cached_property
    def promised(self) -> float:
        """ε at δ of everything that this session may release, whatever the votes; known before a vote is seen."""
        policy, spent, cost = self.policy, 0.0, self._bound_cost
        left = sum(self.sizes) if policy.answers is None else policy.answers
        for size, mechanism, privacy_filter in zip(self.sizes, self.mechanisms, self.filters, strict=True):
            asked = size
            if privacy_filter is not None and mechanism.screen is None:  # then it is known how many it admits
                asked = int(privacy_filter.admit(np.ones(size, dtype=bool), spent).sum())
                spent += privacy_filter.spends(asked, asked)
            answered = min(asked, left)
            left -= answered if self.alike else 0
            cost += mechanism.promise(asked, answered)
        epsilon = cost.data_independent(policy.delta)
        return epsilon if policy.budget is None else min(epsilon, policy.budget)

    def choose(self, student_probs: Floats | None = None, embedding: Floats | None = None) -> Ints:
        """Return the pool's rows to ask next. No vote is looked at.

        student_probs  class probabilities of the student [pool, classes], where there is one yet
        embedding      places of the pool's rows
        """
        number = len(self.rounds)
        left = np.setdiff1d(np.arange(len(self.released)), self.rows)
        rng = np.random.default_rng([self.policy.seed, 4, number])
        return self.policy.selection.choose(left, self.sizes[number], student_probs, rng, embedding)

    def ask(self, votes: VoteHistograms, rows: Ints, student_probs: Floats | None = None) -> QueryRound:
        """Ask the rows that `choose` returned, by the student's class probabilities [pool, classes]."""
        number, policy = len(self.rounds), self.policy
        mechanism, privacy_filter = self.mechanisms[number], self.filters[number]
        probs = None if student_probs is None else student_probs[rows]
        private = votes.votes[rows]
        asked = self._key(number, rows, private, probs)
        # Privacy boundary: below, votes are used for the labels' cost and the ledger's key only, which are private.
        labels, nonce = self.ledger.draw([2, number], asked, lambda rng: mechanism.release(private, rng, probs))
        passed = labels != ABSTAIN
        admitted, spent = np.ones(len(rows), dtype=bool), 0.0
        if policy.answers is not None:
            admitted = PrivacyFilter(policy.answers, 0, 1).admit(passed, sum(each.answered for each in self.rounds))
        if privacy_filter is not None:
            admitted &= privacy_filter.admit(passed, sum(each.spent for each in self.rounds))
            spent = privacy_filter.spends(int(admitted.sum()), int(passed[admitted].sum()))
        # Behind a screen, noise decides where asking stops. The law then contains the queries that might have followed.
        whole = None if mechanism.screen is None else mechanism.cost(private, labels, probs)
        rows, labels, probs = rows[admitted], labels[admitted], None if probs is None else probs[admitted]
        cost = mechanism.cost(votes.votes[rows], labels, probs) if whole is None else whole
        passed = passed[admitted] if whole is None else passed
        released = probs, labels.astype("<i8"), nonce, None if whole is None else asked
        key = self._key(number, rows, votes.votes[rows], *released)
        self.rounds.append(QueryRound(mechanism, rows, labels, cost, passed, spent, key))
        self.released[rows] = labels
        return self.rounds[-1]

    def record(self) -> None:
        """Record the last round in the ledger, before anyone sees its labels."""
        last = self.rounds[-1]
        if last.cost.exact is not None and len(last.rows):
            self.ledger.add(
                last.key,
                orders=ORDERS,
                rdp=last.cost.rdp(ORDERS),
                delta_cost=last.cost.delta_cost,
                labels=last.labels.astype("<i8").tobytes(),
                description=self.policy.name,
                facts={"aggregator": repr(last.mechanism), "asked": len(last.rows), "answered": last.answered},
            )

    def training_labels(self, student_probs: Floats | None) -> Ints:
        """Return the labels that the student learns from, [pool]: the released and the reinforced ones."""
        labels = self.released.copy()
        if student_probs is not None:
            labels[self.rows] = self.policy.mechanism.reinforce(labels[self.rows], student_probs[self.rows])
        return labels

    def epsilon(self, votes: VoteHistograms) -> Epsilon:
        """Return every ε of all rounds together. RuntimeError: it is more than promised, by a fault of nzc."""
        self._require_promise()
        policy, cost = self.policy, reduce(add, (each.cost for each in self.rounds))
        sanitised = self._sanitised(cost)
        found = cost.epsilon(policy.delta)
        counted, trials = self.ledger.split()
        whole = sum(len(each.drawn) for each in self.rounds) == len(self.rows)
        return replace(
            found,
            exact=None if found.exact is None else min(found.exact, self.promised),
            exact_lower=found.exact_lower if whole else None,
            published=self.promised if sanitised is None else sanitised,
            data_independent=self.promised,
            sanitised=sanitised,
            audited=None if policy.audit_trials is None else self._audit(votes, policy.audit_trials),
            ledger_released=None if cost.exact is None else total_epsilon(counted, policy.delta),
            ledger_total=None if cost.exact is None else total_epsilon(trials + counted, policy.delta),
        )

    def cost_curve(self, points: int) -> tuple[Ints, dict[str, Floats]]:
        """Return how ε grew over all rounds (accounting.cost.cost_curve)."""
        counts, curves = cost_curve([(each.cost, each.drawn) for each in self.rounds], self.policy.delta, points)
        kept = counts <= (self.released != ABSTAIN).sum()
        return counts[kept], {name: curve[kept] for name, curve in curves.items()}

    def close(self, digests: Mapping[str, str]) -> None:
        """Record that the run is finished, with the SHA-256 of its files by name (`RunRecord.finish`)."""
        facts = {"sizes": self.sizes, "rows": len(self.released), "moved": self.policy.mechanism.moved}
        self.ledger.finish(digests, facts)

    @property
    def rows(self) -> Ints:
        """All rows asked so far, in the order of asking."""
        return np.concatenate([np.zeros(0, np.int64), *[each.rows for each in self.rounds]])

    def _require_promise(self) -> None:
        """Raise RuntimeError where what was released may cost more than promised. No file of the run is written yet."""
        spent = sum((each.worst_case for each in self.rounds), self._bound_cost).data_independent(self.policy.delta)
        if spent > self.promised * (1 + _PRECISION):
            why = f"these labels cost up to ε = {spent:.6g}, and ε = {self.promised:.6g} was promised"
            raise RuntimeError(f"{why}. This is an error of nzc; no result is written")

    def _filter(self, mechanism: NoisyArgmax) -> PrivacyFilter | None:
        budget, delta = self.policy.budget, self.policy.delta
        if budget is None:
            return None

        def price(count: int) -> float:
            return mechanism.promise(count, count).data_independent(delta)

        queries = sum(self.sizes)
        if mechanism.screen is None and self.alike and self.plan is None:
            queries = queries if self.policy.answers is None else min(queries, self.policy.answers)
            privacy_filter = count_filter(price, budget, queries)
        else:
            privacy_filter = mechanism.pricing.filter(budget, delta, queries, self.bound_release)
        if not privacy_filter.admit(np.ones(1, dtype=bool)).all():
            allowed = f"must be null: {self.policy.name} has no finite ε, so no budget can be kept"
            if np.isfinite(price(1)):
                allowed = f"is too small for a single label of {self.policy.name} at delta={delta:g}"
            if mechanism.one_round and np.isfinite(whole := price(queries)):
                allowed = f"must be at least {whole:.6g}, which a run of {self.policy.name} costs at delta={delta:g}"
            raise InputError("budget.epsilon", budget, allowed)
        return privacy_filter

    def _key(self, number: int, rows: Ints, *parts: object) -> str:
        """Return a hash of what round `number` asks: how, of which rows, votes and student; and of what was drawn.

        The rows' content is a part: two pools whose rows happen to have equal votes are two releases. So are the source
        of a mechanism of the user's own, and what is promised: after an edit, nothing is what was drawn before.
        """
        content = None if self._public is None else self._public[rows]
        return question(self._identities[number], self.promised, self.policy.seed, number + 1, rows, content, *parts)

    def _sanitised(self, cost: Cost) -> float | None:
        if (plan := self.plan) is None:
            return None
        delta = self.policy.delta
        asked = question(plan, delta, [each.key for each in self.rounds])
        drawn, nonce = self.ledger.draw([3], asked, lambda rng: np.array([cost.sanitised(delta, rng, plan)]))
        self.ledger.add(
            question(asked, drawn, nonce),
            orders=ORDERS,
            rdp=self.bound_release.rdp(ORDERS),
            labels=drawn.tobytes(),
            description=f"ε sanitised of {self.policy.name}",
        )
        return float(drawn[0])

    def _audit(self, votes: VoteHistograms, trials: int) -> float | None:
        """Audit only the most expensive mechanism of the run, with at most as many queries as could be answered."""
        policy = self.policy
        dearest = max(self.rounds, key=lambda each: each.worst_case.data_independent(policy.delta)).mechanism
        queries = sum(len(each.rows) for each in self.rounds if each.mechanism == dearest)
        queries = queries if policy.answers is None else min(queries, policy.answers)
        if (privacy_filter := self.filters[self.mechanisms.index(dearest)]) is not None:
            # The audit answers every query it asks, so the budget admits fewer queries than in a run with a screen.
            before = sum(each.spent for each in takewhile(lambda each: each.mechanism != dearest, self.rounds))
            queries = int(privacy_filter.admit(np.ones(queries, dtype=bool), before).sum())
        rng = np.random.default_rng([policy.seed, 3])
        return dearest.audit(votes.teachers, votes.votes.shape[1], queries, trials, policy.delta, rng)


def _identity(mechanism: NoisyArgmax) -> str:
    """Return what a mechanism is: all its parts with their settings and source."""
    return json.dumps(describe(mechanism), sort_keys=True)
