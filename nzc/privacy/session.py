"""The privacy boundary: a session turns votes and sums into public labels, round by round.

    votes (private)  →  ask  →  labels  →  charge  →  ledger (private), then labels are public

Votes become labels in `Session.ask`, in four steps:

1. draw    the mechanism draws labels, or noisy counts, for all queries of the round
2. admit   each label decides for those after it whether answers and budget still allow them;
           labels that are refused are never seen
3. price   what the admitted queries cost at these votes; this stays private
4. record  the round, under the key that the ledger will know it by

Sums of records become public in `Session.add_noise`, by shares of what the round may cost; labels
that follow from them are recorded by `Session.label`. `Session.release` draws once whatever else
has a price of its own: what DP-SGD learns, and a sanitised ε. `Session.charge` then writes all of
it into the ledger, before anyone sees it.

`promise.py` says beforehand what all rounds cost at most, `Session.epsilon` afterwards what they
have cost.

Without a new privacy proof you may change which public rows are asked, by public facts and the
student only, and how a student learns. You may not change what looks at votes (noise, screen,
budget, plan), the order ask, charge, learn, or that an unfinished run draws its noise once.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from typing import cast

import numpy as np

from nzc.accounting import Cost, Epsilon
from nzc.accounting.cost import cost_curve
from nzc.accounting.data_independent import WorstCaseCost
from nzc.accounting.privacy_filter import PrivacyFilter
from nzc.mechanisms import ABSTAIN, NoisySums, audit
from nzc.privacy.ledger_entry import total_epsilon
from nzc.privacy.promise import Promise, Round, admits_answered
from nzc.privacy.run_ledger import RunLedger, release_key
from nzc.streams import Stream
from nzc.types import AnyArray, Bools, Floats, Ints

#: Two ε computed over Rényi orders may be so far apart, relatively, where their costs are equal
#: (`rdp.to_epsilon`).
_PRECISION = 1e-3


@dataclass(frozen=True, repr=False)
class Queries:
    """Asked rows of the pool, with all that a mechanism sees of them. The votes are private."""

    rows: Ints  # [queries]
    votes: Ints  # [queries, classes]
    student_probs: Floats | None  # [queries, classes]; None: there is no student yet

    def first(self, number: int) -> "Queries":
        """Return so many of them."""
        probs = self.student_probs
        if probs is not None:
            probs = probs[:number]
        return Queries(self.rows[:number], self.votes[:number], probs)


@dataclass(frozen=True, repr=False)
class Draw:
    """What a mechanism drew for the queries of a round, before limits refuse some of them."""

    outcomes: Ints  # [queries] labels, or [queries, classes] noisy counts; some may be refused
    labels: Ints  # [queries] ABSTAIN where there is none
    nonce: bytes  # identifies the draw where noise is the operating system's
    key: str  # a hash of what it was drawn for


@dataclass(frozen=True, repr=False)
class QueryRound:
    """One round of queries that was asked."""

    planned: Round
    rows: Ints  # [queries] asked rows of the pool, in the order of asking
    labels: Ints  # [queries] released labels, ABSTAIN where none was released
    cost: Cost  # behind a screen, which may end the asking, of all queries that were drawn
    drawn: Bools  # [queries of the cost] whether each of them had an answer
    key: str  # the ledger's
    counts: Ints | None = None  # [queries, classes] released noisy counts; None: labels only

    @property
    def answered(self) -> int:
        """How many labels were released."""
        return int((self.labels != ABSTAIN).sum())

    @property
    def spent(self) -> float:
        """What the round took from the budget, in the filter's unit."""
        return self.planned.filter.spends(len(self.rows), self.answered)

    @property
    def worst_case(self) -> Cost:
        """What these labels cost at most, whatever the votes."""
        return self.planned.mechanism.promise(len(self.rows), self.answered)


class Session:
    """All rounds of one run, out of a pool of `rows` public rows.

    public  what these contain, [rows, ...]; None: nothing is known of them
    """

    def __init__(
        self, promise: Promise, rows: int, ledger: RunLedger, public: AnyArray | None = None
    ) -> None:
        self.promise = promise
        self.policy = promise.policy
        self.mechanism = promise.policy.mechanism  # that of a round may be its `first`
        self.ledger = ledger
        self.labels = np.full(rows, ABSTAIN)  # that were released
        self.voters = 0  # teachers, or records in cells
        self.classes = 0
        self.rounds: list[QueryRound] = []
        self.answered = 0  # labels of all rounds
        self.spent = 0.0  # of the budget, in the filter's unit
        self._public = public
        self.chosen: dict[int, Ints] = {}  # which rows to ask, by round
        self._sums: list[object] = []  # noisy sums without a price yet, with their nonces
        self._shares = 0.0  # of what the round may cost, which noisy sums have taken
        self._due: list[Callable[[], None]] = []  # what `charge` writes

    @property
    def planned(self) -> Round:
        """The next round."""
        return self.promise.rounds[len(self.rounds)]

    def ask(
        self, votes: Ints, voters: int, rows: Ints, student_probs: Floats | None = None
    ) -> None:
        """Ask these rows of the pool. Privacy boundary: votes go in, labels come out.

        votes          [pool, classes]
        voters         how many vote on each row
        student_probs  class probabilities of the student, [pool, classes]; None: there is none yet
        """
        self.voters = voters
        self.classes = votes.shape[1]
        if student_probs is not None:
            student_probs = student_probs[rows]
        queries = Queries(rows, votes[rows], student_probs)

        draw = self._draw(queries)
        admitted = self._admit(draw.labels)
        cost = self._price(queries, draw, admitted)
        self._record(queries, draw, admitted, cost)

    def add_noise(self, sums: Ints, share: float = 1.0) -> Ints:
        """Return whole sums of bounded vectors with noise. Privacy boundary: the sums are private.

        sums   of the units' vectors, which are at most 2 UNIT apart (`mechanisms.NoisySums`)
        share  of what this round may cost (μ²): the shares of all its sums add to 1 at most

        RuntimeError: they add to more
        """
        self._shares += share
        if self._shares > 1 + 1e-9:
            raise RuntimeError(
                f"the sums of a round took {self._shares:g} of what it may cost: at most 1 is paid"
            )
        mechanism = cast(NoisySums, self.planned.mechanism)  # as its neighbours are `Vectors`
        stream = [Stream.NOISE, len(self._sums) // 2]
        noisy, nonce = self.ledger.draw(
            stream,
            self._key(None, *self._sums, sums),
            partial(mechanism.release, sums, share=share),
        )
        self._sums += [noisy, nonce]
        return noisy

    def label(self, rows: Ints, labels: Ints, voters: int, classes: int) -> None:
        """Record labels [queries] of these rows, which follow from sums with noise.

        That prices the sums: a round that adds noise has one label at least.
        """
        self.voters = voters
        self.classes = classes
        admitted = self._admit(labels)
        labels = labels[:admitted]
        cost = self.planned.mechanism.cost(labels, labels)  # it depends on no vote
        answered = np.ones(admitted, bool)
        key = self._key(rows, *self._sums)
        self._add(QueryRound(self.planned, rows[:admitted], labels, cost, answered, key))
        if admitted:
            self._sums.clear()

    def release(
        self,
        stream: Stream,
        asked: str,
        draw: Callable[[np.random.Generator], AnyArray],
        cost: WorstCaseCost,
        description: str,
    ) -> AnyArray:
        """Return what `draw` makes of the noise; `charge` writes what that costs.

        asked  a hash of all that it depends on
        """
        drawn, nonce = self.ledger.draw([stream], asked, draw)
        key = release_key(asked, drawn, nonce)
        labels = drawn.tobytes()
        self._due.append(lambda: self.ledger.add(key, cost, labels=labels, description=description))
        return drawn

    def _draw(self, queries: Queries) -> Draw:
        """Draw labels for all queries; an unfinished run that asks again gets the same draw."""
        mechanism = self.planned.mechanism
        key = self._key(queries.rows, queries.votes, queries.student_probs)
        released, nonce = self.ledger.draw(
            [Stream.NOISE, len(self.rounds)],
            key,
            lambda rng: mechanism.release(queries.votes, rng, queries.student_probs),
        )
        return Draw(released, mechanism.labels_of(released), nonce, key)

    def _admit(self, labels: Ints) -> int:
        """Return how many queries, from the first on, the limits of answers and budget admit.

        It sees labels only, so where the asking stops tells no more of the votes than these do.
        """
        passes = labels != ABSTAIN
        admits = self.planned.filter.admit(passes, self.spent)
        if self.policy.answers is not None:
            at_most = PrivacyFilter(self.policy.answers, 0, 1)
            admits &= at_most.admit(passes, self.answered)
        return int(admits.sum())

    def _price(self, queries: Queries, draw: Draw, admitted: int) -> Cost:
        """Return what the labels cost at these votes.

        Behind a screen, noise decides where asking stops. The law then contains the queries that
        might have followed, so these are paid as well.
        """
        mechanism = self.planned.mechanism
        if mechanism.screen is None:
            queries = queries.first(admitted)
        released = draw.outcomes[: len(queries.rows)]
        return mechanism.cost(queries.votes, released, queries.student_probs)

    def _record(self, queries: Queries, draw: Draw, admitted: int, cost: Cost) -> None:
        """Add the round with its released labels; `charge` writes it to the ledger."""
        planned = self.planned
        mechanism = planned.mechanism
        queries = queries.first(admitted)
        released = draw.outcomes[:admitted]
        key = self._key(
            queries.rows,
            queries.votes,
            queries.student_probs,
            released.astype("<i8"),
            draw.nonce,
            None if mechanism.screen is None else draw.key,
        )
        last = QueryRound(
            planned,
            queries.rows,
            draw.labels[:admitted],
            cost,
            draw.labels[: cost.queries] != ABSTAIN,
            key,
        )
        if mechanism.releases == "counts":
            last = replace(last, counts=released)
        self._add(last)

    def _add(self, last: QueryRound) -> None:
        self.rounds.append(last)
        self.answered += last.answered
        self.spent += last.spent
        self.labels[last.rows] = last.labels
        if last.cost.exact is not None and len(last.rows):
            self._due.append(
                partial(
                    self.ledger.add,
                    last.key,
                    last.cost,
                    labels=last.labels.astype("<i8").tobytes(),
                    description=repr(last.planned.mechanism),
                    facts={"asked": len(last.rows), "answered": last.answered},
                )
            )

    def _key(self, rows: Ints | None, *parts: object) -> str:
        """Return a hash of what the next round asks: how, which rows, votes and student; and draws.

        It depends on the neighbours too: an entry of the ledger, and the words in it, are of one
        kind of neighbours.
        """
        content = None
        if rows is not None and self._public is not None:
            content = self._public[rows]
        return release_key(
            self.promise.descriptions[len(self.rounds)],
            self.promise.epsilon,
            self.policy.seed,
            len(self.rounds) + 1,
            self.ledger.neighbours,
            rows,
            content,
            *parts,
        )

    def charge(self) -> None:
        """Record in the ledger what was drawn since the last time, before anyone sees it.

        RuntimeError: noise was added to sums, and no label gives them a price.
        """
        if self._sums:
            raise RuntimeError("noise was added to sums, and no label that follows was recorded")
        for write in self._due:
            write()
        self._due.clear()
        self._shares = 0.0

    @property
    def rows(self) -> Ints:
        """All rows asked so far, in the order of asking."""
        return np.concatenate([np.zeros(0, np.int64), *[past.rows for past in self.rounds]])

    @property
    def counts(self) -> Ints | None:
        """The released noisy counts of all asked rows, [queries, classes]; None: there are none."""
        counts = [past.counts for past in self.rounds if past.counts is not None]
        return np.concatenate(counts) if counts else None

    def epsilon(self) -> Epsilon:
        """Return every ε of all that was released.

        RuntimeError: it costs more than promised, by a fault of nzc.
        """
        promise = self.promise
        delta = self.policy.delta
        self._require_promise_kept()
        epsilon = Epsilon()
        sanitised = None
        if self.rounds:
            cost = reduce(add, (past.cost for past in self.rounds))
            sanitised = self._sanitised(cost)
            epsilon = cost.epsilon(delta)
            if cost.queries > len(self.rows):
                epsilon = replace(epsilon, exact_lower=None)  # it counts labels that nobody sees
            if epsilon.exact is not None:
                epsilon = replace(epsilon, exact=min(epsilon.exact, promise.epsilon))
        epsilon = replace(
            epsilon,
            published=promise.published(sanitised),
            published_delta=promise.guarantee[1] if sanitised is None else delta,
            data_independent=promise.epsilon,
            sanitised=sanitised,
            audited=self._audit(),
        )
        if epsilon.exact is None and not self.ledger.entries:
            return epsilon
        counted, trials = self.ledger.split()
        return replace(
            epsilon,
            ledger_released=total_epsilon(counted, delta),
            ledger_total=total_epsilon(trials + counted, delta),
        )

    def _require_promise_kept(self) -> None:
        """Raise RuntimeError where the labels may cost more; no file of the run is written yet."""
        promised = self.promise.epsilon
        costs = (past.worst_case for past in self.rounds)
        most = sum(costs, self.promise.cost_of_bound).data_independent(self.policy.delta)
        if most > promised * (1 + _PRECISION):
            raise RuntimeError(
                f"these labels cost up to ε = {most:.6g}, and ε = {promised:.6g} was promised. "
                "This is an error of nzc; no result is written"
            )

    def curve(self, points: int) -> tuple[Ints, dict[str, Floats]]:
        """Return how ε grew over all rounds (accounting.cost.cost_curve)."""
        labels, curves = cost_curve(
            [(past.cost, past.drawn) for past in self.rounds], self.policy.delta, points
        )
        released = labels <= self.answered
        return labels[released], {name: curve[released] for name, curve in curves.items()}

    def _sanitised(self, cost: Cost) -> float | None:
        """Release the data-dependent bound with noise, and record that; None: there is no plan."""
        plan = self.promise.plan
        if plan is None:
            return None
        delta = self.policy.delta
        drawn = self.release(
            Stream.BOUND,
            release_key(plan, delta, [past.key for past in self.rounds]),
            lambda rng: np.array([cost.sanitised(delta, rng, plan)]),
            self.promise.bound_cost,
            f"ε sanitised of {self.mechanism}",
        )
        self.charge()
        return float(drawn[0])

    def _audit(self) -> float | None:
        """Audit only the most expensive mechanism, with as many queries as could be answered.

        None: no audit is wanted, or there is no law to audit.
        """
        policy = self.policy
        if policy.audit_trials is None or not self.rounds:
            return None
        dearest = max(
            self.rounds, key=lambda past: past.worst_case.data_independent(policy.delta)
        ).planned
        queries = 0
        spent = 0.0
        for past in self.rounds:
            if past.planned.mechanism == dearest.mechanism:
                queries += len(past.rows)
            elif not queries:  # it came before
                spent += past.spent
        # It answers all queries, so the budget admits fewer of them than in a run with a screen.
        queries = admits_answered(dearest.filter, policy.answered(queries), spent)
        return audit(
            dearest.mechanism,
            self.voters,
            self.classes,
            queries,
            policy.audit_trials,
            policy.delta,
            np.random.default_rng([policy.seed, Stream.AUDIT]),
        )
