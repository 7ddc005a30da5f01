"""The privacy boundary: a session asks the teachers round by round and releases labels.

    votes (private)  →  LabelingSession.ask  →  labels (public)  →  LabelingSession.charge  →
    ledger (private)

`ask` is the only place in a run where votes become labels; the mechanism draws them. `promise.py`
says beforehand what they cost at most, `LabelingSession.epsilon` afterwards what they have cost.

Without a new privacy proof you may change which public rows are asked, by public facts and the
student only, and how a student learns. You may not change what looks at votes (noise, screen,
budget, plan), the order ask, charge, learn, or that an unfinished run draws its noise once.
"""

import json
from dataclasses import dataclass, replace
from functools import reduce
from itertools import takewhile
from operator import add

import numpy as np

from nzc.accounting import Cost, Epsilon
from nzc.accounting.cost import cost_curve
from nzc.accounting.privacy_filter import PrivacyFilter
from nzc.labeling.bound import Promise
from nzc.labeling.group_budgets import total_weight
from nzc.labeling.ledger_entry import total_epsilon
from nzc.labeling.run_ledger import RunLedger, question
from nzc.labeling.smoothing import expected_records, mixed, smooth, with_sums
from nzc.mechanisms import ABSTAIN, NoisyArgmax, OwnLabels
from nzc.storage.fingerprint import describe
from nzc.teachers import VoteHistograms
from nzc.types import AnyArray, Bools, Floats, Ints

#: Two ε computed over Rényi orders may be so far apart, relatively, where their costs are equal
#: (`rdp.to_epsilon`).
_PRECISION = 1e-3


@dataclass(frozen=True, repr=False)
class QueryRound:
    """One round of queries."""

    mechanism: NoisyArgmax
    rows: Ints  # [queries] asked rows of the pool, in the order of asking
    labels: Ints  # [queries] released labels, ABSTAIN where none was released
    counts: (
        Ints | None
    )  # [queries, classes] released noisy counts; None: the mechanism releases labels only
    sums: (
        Ints | None
    )  # [queries] how many vote for each row, where that follows from public features; else None
    cost: Cost  # of all queries of the round where a screen decides where asking stops: it could have gone on
    drawn: Bools  # [queries of the cost] whether each of them had an answer
    spent: float  # what the round took from the budget, in the filter's unit
    key: str  # the ledger's
    question: str  # a hash of what the round asks, by public facts

    @property
    def answered(self) -> int:
        """How many labels were released."""
        return int((self.labels != ABSTAIN).sum())

    @property
    def worst_case(self) -> Cost:
        """What these labels cost at most, whatever the votes."""
        return self.mechanism.promise(len(self.rows), self.answered)


class LabelingSession:
    """All rounds of one run, out of a pool of `rows` public rows; `public` [rows, ...] is what
    these contain.
    """

    def __init__(
        self, promise: Promise, rows: int, ledger: RunLedger, public: AnyArray | None = None
    ) -> None:
        self.promise, self.policy, self.ledger, self._public = (
            promise,
            promise.policy,
            ledger,
            public,
        )
        self.released = np.full(rows, ABSTAIN)
        self.probabilities: Floats | None = None
        self.mixed = 0.0  # how much classes mix in a cell (`smoothing.mixed`)
        self.voters, self.classes = (
            0,
            0,
        )  # how many vote, teachers or records in cells, and for how many classes
        self.rounds: list[QueryRound] = []
        self._mechanisms = [
            json.dumps(describe(mechanism), sort_keys=True) for mechanism in promise.mechanisms
        ]

    def choose(self, student_probs: Floats | None = None, embedding: Floats | None = None) -> Ints:
        """Return the pool's rows to ask next, by public facts: class probabilities [pool, classes]
        and places.
        """
        number = len(self.rounds)
        left = np.setdiff1d(np.arange(len(self.released)), self.rows)
        rng = np.random.default_rng([self.policy.seed, 4, number])
        return self.policy.selection.choose(
            left, self.promise.sizes[number], student_probs, rng, embedding
        )

    def coins(self, rows: Ints) -> AnyArray | None:
        """Return a secret key of 256 bits, for the samples of records that vote on these rows;
        None: all may vote.
        """
        number = len(self.rounds)
        if self.promise.mechanisms[number].adjacency.probability == 1:
            return None
        asked = self._key(number, rows, "samples")
        return self.ledger.draw(
            [8, number], asked, lambda rng: rng.integers(2**64, size=4, dtype=np.uint64)
        )[0]

    def ask(
        self, votes: VoteHistograms, rows: Ints, student_probs: Floats | None = None
    ) -> QueryRound:
        """Ask the rows that `choose` returned, by the student's class probabilities [pool,
        classes].
        """
        number, policy, self.voters, self.classes = (
            len(self.rounds),
            self.policy,
            votes.teachers,
            votes.votes.shape[1],
        )
        mechanism, privacy_filter = self.promise.mechanisms[number], self.promise.filters[number]
        probs, private = None if student_probs is None else student_probs[rows], votes.votes[rows]
        asked, drawn_for = self._key(number, rows, probs), self._key(number, rows, private, probs)
        # Privacy boundary: below, votes are used for the labels' cost and the ledger's key only,
        # which are private.
        drawn, nonce = self.ledger.draw(
            [2, number], drawn_for, lambda rng: mechanism.release(private, rng, probs)
        )
        passed, screened = mechanism.labels_of(drawn) != ABSTAIN, mechanism.screen is not None
        admitted, spent = np.ones(len(rows), dtype=bool), 0.0
        if policy.answers is not None:
            admitted = PrivacyFilter(policy.answers, 0, 1).admit(
                passed, sum(past.answered for past in self.rounds)
            )
        if privacy_filter is not None:
            admitted &= privacy_filter.admit(passed, sum(past.spent for past in self.rounds))
            spent = privacy_filter.spends(int(admitted.sum()), int(passed[admitted].sum()))
        # Behind a screen, noise decides where asking stops. The law then contains the queries that
        # might have followed.
        whole = mechanism.cost(private, drawn, probs) if screened else None
        rows, drawn, kept = rows[admitted], drawn[admitted], private[admitted]
        probs = None if probs is None else probs[admitted]
        cost = mechanism.cost(kept, drawn, probs) if whole is None else whole
        key = self._key(
            number, rows, kept, probs, drawn.astype("<i8"), nonce, drawn_for if screened else None
        )
        labels, counts = mechanism.labels_of(drawn), drawn if mechanism.releases_counts else None
        sums = kept.sum(axis=1) if isinstance(mechanism.adjacency, OwnLabels) else None
        passed = passed if screened else passed[admitted]
        self.rounds.append(
            QueryRound(mechanism, rows, labels, counts, sums, cost, passed, spent, key, asked)
        )
        self.released[rows] = labels
        return self.rounds[-1]

    def charge(self) -> None:
        """Record the last round in the ledger, before anyone sees its labels."""
        last = self.rounds[-1]
        if last.cost.exact is not None and len(last.rows):
            facts = {"asked": len(last.rows), "answered": last.answered, "question": last.question}
            self.ledger.add(
                last.key,
                last.cost,
                delta_cost=last.cost.delta_cost,
                labels=last.labels.astype("<i8").tobytes(),
                description=repr(last.mechanism),
                facts=facts,
            )

    def training_labels(self, student_probs: Floats | None) -> Ints:
        """Return the labels [pool] that the student learns from: the released and the reinforced
        ones.
        """
        labels = self.released.copy()
        if student_probs is not None:
            labels[self.rows] = self.policy.mechanism.reinforce(
                labels[self.rows], student_probs[self.rows]
            )
        return labels

    def infer(self, places: Floats | None) -> None:
        """Let class probabilities follow from all released counts, and labels from the
        probabilities.

        places  of the pool in a public representation, whose neighbors share counts; None: asked
                rows alone get them
        """
        if (counts := self.counts) is None:
            return
        noise = self.promise.mechanisms[0].noise
        if places is None:  # how likely each class has the largest count
            self.probabilities = np.zeros((len(self.released), counts.shape[1]))
            self.probabilities[self.rows] = np.exp(noise.log_law(counts.astype(np.float64)))
        else:
            released = (
                counts.astype(np.float64),
                np.full(len(counts), float(self.voters)),
                noise.deviation,
            )
            if (
                not self.policy.mechanism.adjacency.everywhere
            ):  # teachers differ about a row that has one class
                voters = (
                    total_weight(self.voters, self.policy.shares, counts)
                    if self.policy.shares
                    else self.voters
                )
                released = released[0], expected_records(places, self.rows, voters), noise.deviation
                if (sums := self.rounds[0].sums) is not None:
                    released = with_sums(released[0], sums, noise.deviation)
                self.mixed = mixed(*released)
            self.probabilities = smooth(places, self.rows, *released, self.mixed)
        self.released[self.rows] = self.probabilities[self.rows].argmax(axis=1)

    @property
    def rows(self) -> Ints:
        """All rows asked so far, in the order of asking."""
        return np.concatenate([np.zeros(0, np.int64), *[past.rows for past in self.rounds]])

    @property
    def counts(self) -> Ints | None:
        """The released noisy counts of all rows asked so far, [queries, classes]; None: none were
        released.
        """
        counts = [past.counts for past in self.rounds if past.counts is not None]
        return np.concatenate(counts) if counts else None

    def _key(self, number: int, rows: Ints, *parts: object) -> str:
        """Return a hash of what round `number` asks: how, which rows, votes and student; and of
        what was drawn.

        It depends on the neighbours too: an entry of the ledger, and the words in it, are of one
        kind of neighbours.
        """
        content = None if self._public is None else self._public[rows]
        facts = (
            self._mechanisms[number],
            self.promise.epsilon,
            self.policy.seed,
            number + 1,
            self.ledger.neighbours,
        )
        return question(*facts, rows, content, *parts)

    def epsilon(self) -> Epsilon:
        """Return every ε of all rounds. RuntimeError: the labels cost more than promised, by a
        fault of nzc.
        """
        promise, delta, promised = self.promise, self.policy.delta, self.promise.epsilon
        most = sum(
            (past.worst_case for past in self.rounds), promise.cost_of_bound
        ).data_independent(delta)
        if most > promised * (1 + _PRECISION):  # no file of the run is written yet
            why = f"these labels cost up to ε = {most:.6g}, and ε = {promised:.6g} was promised"
            raise RuntimeError(f"{why}. This is an error of nzc; no result is written")
        cost = reduce(add, (past.cost for past in self.rounds))
        sanitised, epsilon = self._sanitised(cost), cost.epsilon(delta)
        counted, trials = self.ledger.split()
        whole = sum(len(past.drawn) for past in self.rounds) == len(self.rows)
        return replace(
            epsilon,
            exact=None if epsilon.exact is None else min(epsilon.exact, promised),
            exact_lower=epsilon.exact_lower if whole else None,
            published=promise.published(sanitised),
            published_delta=promise.bound[1] if sanitised is None else delta,
            data_independent=promised,
            sanitised=sanitised,
            audited=None
            if self.policy.audit_trials is None
            else self._audit(self.policy.audit_trials),
            ledger_released=None if cost.exact is None else total_epsilon(counted, delta),
            ledger_total=None if cost.exact is None else total_epsilon(trials + counted, delta),
        )

    def curve(self, points: int) -> tuple[Ints, dict[str, Floats]]:
        """Return how ε grew over all rounds (accounting.cost.cost_curve)."""
        labels, curves = cost_curve(
            [(past.cost, past.drawn) for past in self.rounds], self.policy.delta, points
        )
        kept = labels <= sum(past.answered for past in self.rounds)
        return labels[kept], {name: curve[kept] for name, curve in curves.items()}

    def _sanitised(self, cost: Cost) -> float | None:
        """Release the data-dependent bound with noise, and record that; None: it is not published."""
        if (plan := self.promise.plan) is None:
            return None
        drawn_for, delta = (
            question(plan, self.policy.delta, [past.key for past in self.rounds]),
            self.policy.delta,
        )
        drawn, nonce = self.ledger.draw(
            [3], drawn_for, lambda rng: np.array([cost.sanitised(delta, rng, plan)])
        )
        about = {
            "labels": drawn.tobytes(),
            "description": f"ε sanitised of {self.policy.mechanism}",
        }
        self.ledger.add(question(drawn_for, drawn, nonce), self.promise.bound_cost, **about)
        return float(drawn[0])

    def _audit(self, trials: int) -> float | None:
        """Audit only the most expensive mechanism of the run, with at most as many queries as could
        be answered.
        """
        policy, promise = self.policy, self.promise
        dearest = max(
            self.rounds, key=lambda past: past.worst_case.data_independent(policy.delta)
        ).mechanism
        queries = sum(len(past.rows) for past in self.rounds if past.mechanism == dearest)
        queries = queries if policy.answers is None else min(queries, policy.answers)
        if (privacy_filter := promise.filters[promise.mechanisms.index(dearest)]) is not None:
            # The audit answers every query it asks, so the budget admits fewer queries than in a
            # run with a screen.
            before = sum(
                past.spent
                for past in takewhile(lambda past: past.mechanism != dearest, self.rounds)
            )
            queries = int(privacy_filter.admit(np.ones(queries, dtype=bool), before).sum())
        rng = np.random.default_rng([policy.seed, 3])
        return dearest.audit(self.voters, self.classes, queries, trials, policy.delta, rng)
