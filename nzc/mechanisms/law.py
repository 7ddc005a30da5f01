"""The law of a noisy argmax, at vote histograms and one vote away; and what its labels cost."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

import numpy as np

from nzc.accounting import audit as empirical
from nzc.accounting.cost import Cost
from nzc.accounting.data_dependent import DataDependentBound, gaps
from nzc.accounting.data_independent import FREE, UNBOUNDED, Kind, Shown, WorstCaseCost, gaussian_cost
from nzc.accounting.exact import ExactCost, Pairs
from nzc.accounting.own_cells import JointCost, KnownCost, OwnCellsCost
from nzc.accounting.privacy_filter import CLOSED, OPEN, PrivacyFilter, gaussian_filter, renyi_filter
from nzc.accounting.rdp import ORDERS
from nzc.accounting.sampling import sampled
from nzc.mechanisms.adjacency import FAR, Adjacency, Boost, OwnCells, OwnLabels
from nzc.mechanisms.noise import ContinuousNoise, Noise, NoNoise
from nzc.mechanisms.noise.base import require_total
from nzc.mechanisms.screen import Screen
from nzc.mechanisms.votes import ABSTAIN, HistogramBatch, as_labels, as_probabilities, as_votes, distinct
from nzc.types import AnyArray, Bools, Floats, Ints
from nzc.validation import InputError

UNSTATED: Floats = np.empty(0)  # stands for `student_probs` that the caller of `cost` left out
AUDITED = 100  # an audit runs at most so many queries; its result bounds every longer run from below as well


@dataclass(frozen=True, repr=False)
class ArgmaxLaw:
    """The parts of a noisy argmax, its draws and their law (see `NoisyArgmax`)."""

    noise: Noise  # the law of Z
    boost: Boost = field(default_factory=Boost)  # c and Δ
    screen: Screen | None = None  # which queries are answered; None: all
    adjacency: Adjacency = field(default_factory=Adjacency, kw_only=True)  # which histograms are neighbours
    releases_counts: ClassVar[bool] = False  # whether `release` returns noisy counts, not labels

    @property
    def asks_student(self) -> bool:
        """Whether the screen uses `student_probs`."""
        return self.screen is not None and self.screen.asks_student

    @property
    def delta_cost(self) -> float | None:
        """The δ per query that a label without noise uses behind a screen that protects it; None: no such screen."""
        return self.screen.delta_cost if self.screen is not None and isinstance(self.noise, NoNoise) else None

    @property
    def one_round(self) -> bool:
        """Whether all queries of a run must be asked in one round."""
        return self.screen is not None and self.screen.one_round

    def draw(self, votes: Ints, rng: np.random.Generator, student_probs: Floats | None = None) -> Ints:
        """Draw one label per query, also after a screen has ended the run (`Screen.ended`)."""
        labels = self.noise.winner(self.boost.scores(votes), self.boost.scale(votes), rng)
        if self.screen is None:
            return labels
        return np.where(self.screen.answers(votes, rng, student_probs), labels, ABSTAIN)

    def labels_of(self, released: Ints) -> Ints:
        """Return the labels [queries] of what `release` returned: here, itself."""
        return released

    def log_law(self, votes: Ints, student_probs: Floats | None = None) -> Floats:
        """Return the log-probability of every outcome, [queries, classes + 1]: each label, then abstaining."""
        votes = as_votes(votes, one_sum=False)
        scores = self.boost.scores(votes)
        leads = (scores - scores.max(axis=1, keepdims=True)) / self.boost.scale(votes)[:, None]
        labels = self.noise.log_law(leads)
        require_total(self.noise, labels)
        return self._screened(labels, votes, as_probabilities(student_probs, votes))

    def evidence(self, pair: tuple[Ints, Ints]) -> Callable[[Ints], Floats]:
        """Return the log-likelihood ratio of released labels [queries] between two histograms [classes], for audits."""
        p, q = (np.maximum(self.log_law(votes[None])[0], empirical.FLOOR) for votes in pair)
        return lambda labels: (p - q)[labels]  # label −1 (abstaining) reads the last entry

    def worst_label(self, labels: int) -> tuple[int, WorstCaseCost]:
        """Return what so many labels cost, whatever the votes: a count, and the cost of each."""
        cost, plain = self.boost.worst_case(self.noise), self.boost.c == 0 and self.boost.shift == 1
        if (votes := self.adjacency.votes) > 1:  # `shown` is of one vote that moves
            known = plain and self.noise.concentrated
            return labels, replace(self.noise.worst_case(votes), shown=None) if known else UNBOUNDED
        if not isinstance(self.adjacency, OwnCells):
            return labels, cost
        if isinstance(self.adjacency, OwnLabels):
            return min(labels, 1), cost
        count, records = 2, self.adjacency.records  # two counts change, in two histograms or in one
        if plain:
            count, cost = self.noise.own_cells(records)
        elif records > 1:
            cost = UNBOUNDED
        return min(labels, 1) * count, cost

    def ordered(self, votes: Ints) -> Bools:
        """Return the queries whose law depends on class order: one vote away from a tie that the index breaks."""
        if self.boost.c == 0 and not isinstance(self.noise, NoNoise):
            return np.zeros(len(votes), dtype=bool)
        return gaps(votes)[:, 0] <= FAR

    def pairs(self, batch: HistogramBatch) -> Pairs:
        """Return the laws at the batch's histograms and at all their neighbours."""
        moved, exists = batch.moved()
        row, a, b = np.nonzero(exists)
        votes, probs = batch.votes, None if batch.student_probs is None else batch.student_probs[row]
        noise, boost = self.noise, self.boost
        if self.screen is not None and self.delta_cost is not None:
            here = np.stack(self.screen.log_answer(votes, batch.student_probs), axis=-1)[row]
            there = np.stack(self.screen.log_answer(moved[exists], probs), axis=-1)
            return Pairs(row, here, there, np.ones_like(here))
        if isinstance(noise, ContinuousNoise) and (boost.c == 0 or gaps(votes)[:, 0].min() > FAR):
            delta = boost.scale(votes)
            leads = noise.leads(np.take_along_axis(boost.scores(votes), batch.representative, axis=1), delta[:, None])
            laws = noise.neighbourhood(leads, batch.copies.astype(np.float64), 1 / (noise.unit * delta))
            if laws is not None:  # one grid served all neighbours of a query
                own, others, copies = laws
                labels = np.concatenate([own[row], own[row, a, None], own[row, b, None]], axis=1)
                here = self._screened(labels, votes[row], probs)
                there = self._screened(others[exists], moved[exists], probs)
                return Pairs(row, here, there, np.pad(copies[exists], ((0, 0), (0, 1)), constant_values=1))
        here = self.log_law(votes, batch.student_probs)[row]
        return Pairs(row, here, self.log_law(moved[exists], probs), np.ones_like(here))

    def counted_pairs(self, batch: HistogramBatch, change: int) -> Pairs:
        """Return the laws at the batch's histograms and where one count differs by ±1."""
        counted, exists = batch.counted(change)
        row = np.nonzero(exists)[0]
        here = self.log_law(batch.votes)[row]
        return Pairs(row, here, self.log_law(counted[exists]), np.ones_like(here))

    def _screened(self, labels: Floats, votes: Ints, student_probs: Floats | None) -> Floats:
        """Join laws of labels [..., outcomes] with the screen's at votes [..., classes]: [..., outcomes + 1]."""
        if self.screen is None:
            return np.concatenate([labels, np.full((*labels.shape[:-1], 1), -np.inf)], axis=-1)
        answer, abstain = self.screen.log_answer(votes, student_probs)
        return np.concatenate([labels + answer[..., None], abstain[..., None]], axis=-1)


class PricedArgmax(ArgmaxLaw):
    """A noisy argmax with its prices between the neighbours of its adjacency (see `NoisyArgmax`)."""

    def cost(self, votes: Ints, labels: Ints, student_probs: Floats | None = UNSTATED) -> Cost:
        """Return what releasing `labels` at these votes cost; the arguments are those of `release`.

        InputError: `student_probs` is left out although the screen uses it. Where `release` had none, it is None.
        """
        if student_probs is UNSTATED:
            if self.asks_student:
                raise InputError("student_probs", "missing", "must be what `release` was given; None if it had none")
            student_probs = None
        votes = as_votes(votes, self.adjacency.everywhere)
        labels = as_labels(self.labels_of(np.asarray(labels)), votes)
        student_probs = as_probabilities(student_probs, votes)
        asked: list[AnyArray] = [votes]
        shares = [np.ones(len(votes))]
        if self.bounds and self.screen is not None:
            asked = [self.screen.histograms(votes, student_probs), votes]
            shares.append(np.exp(self.screen.log_answer(votes, student_probs)[0]))
        released = [*asked[:-1], votes[labels != ABSTAIN]]
        return replace(
            self.promise(len(votes), len(votes)),
            exact=(self.exact(votes, student_probs),),
            bounded=tuple(zip(self.bounds, released, strict=True)) if self.bounds else (),
            printed=tuple(zip(self.bounds, asked, shares, strict=True)) if self.bounds else (),
            claim=self.noise.claimed if self.boost.c > 0 else None,
        )

    def exact(self, votes: Ints, student_probs: Floats | None = None) -> ExactCost | JointCost:
        """Return the exact Rényi cost of these queries, screening included."""
        votes = as_votes(votes, one_sum=False)
        cells = self.adjacency if isinstance(self.adjacency, OwnCells) else None
        varied = self.adjacency.votes > 1 or self.adjacency.probability < 1
        if self.releases_counts or varied or (cells is not None and cells.records > 1):
            return KnownCost(len(votes), lambda queries: self.worst_case(queries, queries))
        moved = self._of_neighbours(votes, student_probs, self.pairs)
        if cells is None:
            return moved
        if isinstance(cells, OwnLabels):
            return OwnCellsCost(moved)
        single = [partial(self.counted_pairs, change=change) for change in (-1, 1)]
        return OwnCellsCost(moved, *(self._of_neighbours(votes, None, pairs) for pairs in single))

    def _of_neighbours(
        self, votes: Ints, student_probs: Floats | None, pairs: Callable[[HistogramBatch], Pairs]
    ) -> ExactCost:
        """Return the exact Rényi cost of each query, where `pairs` gives its neighbours."""
        if student_probs is not None:
            student_probs = None if self.screen is None else self.screen.relevant_probs(votes, student_probs)
        batches, inverse = distinct(votes, student_probs, self.ordered(votes))
        return ExactCost(
            [(batch.places, partial(pairs, batch)) for batch in batches],
            inverse,
            ceiling=lambda orders: np.stack([count * cost.rdp(orders) for count, cost in self.worst_case()]),
            paid=self.paid(len(votes)) if self.one_round else None,
        )

    def promise(self, asked: int, answered: int) -> Cost:
        """Return what so many queries and labels cost at most, whatever the votes; only ε data-independent is known."""
        return Cost(asked, None, (), self.worst_case(asked, answered), self.paid(asked) * (self.delta_cost or 0.0))

    def filter(self, epsilon: float, delta: float, queries: int, other: WorstCaseCost = FREE) -> PrivacyFilter:
        """Return the filter that keeps `queries` queries and `other` within a budget ε at δ, whatever the votes."""
        together = self.promise(queries, queries) + Cost(0, None, (), ((1, other),))
        if self.one_round or together.delta_cost >= delta:  # then it may pay for any number of answers
            return OPEN if together.data_independent(delta) <= epsilon else CLOSED
        left = delta - together.delta_cost
        (_, ask), (_, answer) = self.worst_case()
        if np.isfinite(ask.mu + answer.mu):
            return gaussian_filter(epsilon, left, ask.mu, answer.mu, other.mu)
        return renyi_filter(epsilon, left, ask.rdp(ORDERS), answer.rdp(ORDERS), other.rdp(ORDERS))

    def audit(
        self, teachers: int, classes: int, queries: int, trials: int, delta: float, rng: np.random.Generator
    ) -> float | None:
        """Return the lower bound of `nzc.audit`; None: there is no law to audit."""
        if self.adjacency.probability < 1:  # the votes of a fixed pair are not sampled
            return None
        largest = [] if self.screen is None else [round(min(self.screen.threshold, teachers))]
        pair = empirical.worst_pair(self.log_law, teachers, classes, largest)
        # No run of so few queries ends early; in own cells, a vote moves within one histogram.
        queries = self.paid(min(queries, AUDITED)) if self.adjacency.everywhere else 1
        audited = empirical.audit(self.draw, self.evidence(pair), pair, queries, trials, delta, rng)
        if audited > (bound := self.promise(queries, queries).data_independent(delta)):
            message = f"audit: ε ≥ {audited:.3f} at 95 % confidence, but epsilon.data_independent={bound:.3f}"
            raise empirical.Contradiction(message)
        return audited

    @property
    def bounds(self) -> tuple[DataDependentBound, ...]:
        """The papers' data-dependent bounds, of the screen and of the label; () where no theorem applies."""
        plain = self.boost.c == 0 and self.boost.shift == 1 and self.delta_cost is None
        plain = plain and self.adjacency == Adjacency() and not self.releases_counts
        parts = [self.noise.bound] if self.screen is None else [self.screen.bound, self.noise.bound]
        known = tuple(bound for bound in parts if bound is not None)
        return known if plain and len(known) == len(parts) else ()

    def paid(self, asked: int) -> int:
        """Return how many of so many queries asked are paid for."""
        return asked if self.screen is None else self.screen.paid(asked)

    def worst_case(self, asked: int = 1, answered: int = 1) -> tuple[tuple[int, WorstCaseCost], ...]:
        """Return counts and costs, whatever the votes, of asking a query and, further, of its label."""
        label = (answered, FREE) if self.delta_cost is not None else self.worst_label(answered)
        probability, shown = self.adjacency.probability, label[1].shown
        if self.screen is None:
            whole = (self.paid(asked), FREE), label
            return whole if probability == 1 else ((label[0], sampled(label[1], probability)), (0, FREE))
        ask = self.screen.worst_case(self.adjacency.votes)
        if probability < 1:
            joint = gaussian_cost(float(np.hypot(ask.mu, label[1].mu)))  # of one sample
            return (asked, sampled(joint, probability)), (0, FREE)
        if ask.mu < np.inf:
            ask = replace(ask, shown=Shown(Kind.BIT, ask.mu))
        if shown is not None and shown.kind is Kind.LABEL:
            label = label[0], replace(label[1], shown=replace(shown, kind=Kind.SCREENED))
        return (self.paid(asked), ask), label
