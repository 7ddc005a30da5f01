"""What labels of a noisy argmax cost: beforehand for any votes, and afterwards at the votes."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from nzc.accounting import audit as empirical
from nzc.accounting.cost import Cost
from nzc.accounting.data_dependent import DataDependentBound
from nzc.accounting.data_independent import FREE, WorstCaseCost
from nzc.accounting.exact import ExactCost, Pairs
from nzc.accounting.own_cells import KnownCost, OwnCellsCost
from nzc.accounting.privacy_filter import CLOSED, OPEN, PrivacyFilter, gaussian_filter, renyi_filter
from nzc.accounting.rdp import ORDERS
from nzc.mechanisms.adjacency import HistogramBatch, OwnCells, distinct
from nzc.mechanisms.law import ArgmaxLaw
from nzc.mechanisms.noise import NoNoise
from nzc.mechanisms.votes import ABSTAIN, as_labels, as_probabilities, as_votes
from nzc.types import Floats, Ints
from nzc.validation import InputError

#: Stands for `student_probs` that the caller of `of` left out.
UNSTATED: Floats = np.empty(0)
#: An audit runs at most so many queries; its result bounds every longer run from below as well.
AUDITED = 100


@dataclass(frozen=True)
class Pricing:
    """The prices of a mechanism between the neighbours of its adjacency."""

    mechanism: ArgmaxLaw

    def of(self, votes: Ints, labels: Ints, student_probs: Floats | None) -> Cost:
        """See `NoisyArgmax.cost`."""
        mechanism = self.mechanism
        if student_probs is UNSTATED:
            if mechanism.asks_student:
                raise InputError("student_probs", "missing", "must be what `release` was given; None if it had none")
            student_probs = None
        votes = as_votes(votes, mechanism.adjacency.everywhere)
        labels = as_labels(mechanism.labels_of(np.asarray(labels)), votes)
        student_probs = as_probabilities(student_probs, votes)
        asked, answered = len(votes), votes[labels != ABSTAIN]
        screened = [] if mechanism.screen is None else [mechanism.screen.histograms(votes, student_probs)]
        return replace(
            self.promise(asked, asked),
            exact=(self.exact(votes, student_probs),),
            bounded=tuple(zip(self.bounds, [*screened, answered], strict=True)) if self.bounds else (),
            claim=mechanism.noise.claimed if mechanism.boost.c > 0 else None,
        )

    def exact(self, votes: Ints, student_probs: Floats | None = None) -> ExactCost | OwnCellsCost | KnownCost:
        """Return the exact Rényi cost of these queries, screening included."""
        mechanism, votes = self.mechanism, as_votes(votes, one_sum=False)
        cells = mechanism.adjacency if isinstance(mechanism.adjacency, OwnCells) else None
        if mechanism.releases_counts or (cells is not None and cells.records > 1):
            return KnownCost(len(votes), lambda queries: self.worst_case(queries, queries)[1])
        moved = self._of_neighbours(votes, student_probs, mechanism.pairs)
        if cells is None:
            return moved
        single = [partial(mechanism.counted_pairs, change=change) for change in (-1, 1)]
        return OwnCellsCost(moved, *(self._of_neighbours(votes, None, pairs) for pairs in single))

    def _of_neighbours(
        self, votes: Ints, student_probs: Floats | None, pairs: Callable[[HistogramBatch], Pairs]
    ) -> ExactCost:
        """Return the exact Rényi cost of each query, where `pairs` gives its neighbours."""
        screen = self.mechanism.screen
        if student_probs is not None:
            student_probs = None if screen is None else screen.relevant_probs(votes, student_probs)
        batches, inverse = distinct(votes, student_probs, self.mechanism.ordered(votes))
        return ExactCost(
            [(batch.places, partial(pairs, batch)) for batch in batches],
            inverse,
            ceiling=lambda orders: np.stack([count * cost.rdp(orders) for count, cost in self.worst_case()]),
            paid=self.paid(len(votes)) if self.mechanism.one_round else None,
        )

    def promise(self, asked: int, answered: int) -> Cost:
        """See `NoisyArgmax.promise`."""
        delta_cost = self.paid(asked) * (self._delta_cost or 0.0)
        return Cost(asked, None, (), self.worst_case(asked, answered), delta_cost)

    def filter(self, epsilon: float, delta: float, queries: int, other: WorstCaseCost = FREE) -> PrivacyFilter:
        """Return the filter that keeps `queries` queries and `other` within a budget ε at δ, whatever the votes."""
        together = self.promise(queries, queries) + Cost(0, None, (), ((1, other),))
        if self.mechanism.one_round or together.delta_cost >= delta:  # then it may pay for any number of answers
            return OPEN if together.data_independent(delta) <= epsilon else CLOSED
        left = delta - together.delta_cost
        (_, ask), (_, answer) = self.worst_case()
        if np.isfinite(ask.mu + answer.mu):
            return gaussian_filter(epsilon, left, ask.mu, answer.mu, other.mu)
        return renyi_filter(epsilon, left, ask.rdp(ORDERS), answer.rdp(ORDERS), other.rdp(ORDERS))

    def audit(
        self, teachers: int, classes: int, queries: int, trials: int, delta: float, rng: np.random.Generator
    ) -> float | None:
        """Return the lower bound of `nzc.audit`."""
        mechanism, screen = self.mechanism, self.mechanism.screen
        largest = [] if screen is None else [round(min(screen.threshold, teachers))]
        pair = empirical.worst_pair(mechanism.log_law, teachers, classes, largest)
        # No run of so few queries ends early; in own cells, a vote moves within one histogram.
        queries = self.paid(min(queries, AUDITED)) if mechanism.adjacency.everywhere else 1
        audited = empirical.audit(mechanism.draw, mechanism.evidence(pair), pair, queries, trials, delta, rng)
        if audited > (bound := self.promise(queries, queries).data_independent(delta)):
            message = f"audit: ε ≥ {audited:.3f} at 95 % confidence, but epsilon.data_independent={bound:.3f}"
            raise empirical.Contradiction(message)
        return audited

    @property
    def bounds(self) -> tuple[DataDependentBound, ...]:
        """The papers' data-dependent bounds, of the screen and of the label; () where no theorem applies.

        The theorems cover the noisy argmax without a boost.
        """
        screen, boost, label = self.mechanism.screen, self.mechanism.boost, self.mechanism.noise.bound
        plain = boost.c == 0 and boost.shift == 1 and self._delta_cost is None
        plain = plain and self.mechanism.adjacency.everywhere and not self.mechanism.releases_counts
        parts = [label] if screen is None else [screen.bound, label]
        known = tuple(bound for bound in parts if bound is not None)
        return known if plain and len(known) == len(parts) else ()

    def paid(self, asked: int) -> int:
        """Return how many of so many queries asked are paid for."""
        return asked if self.mechanism.screen is None else self.mechanism.screen.paid(asked)

    def worst_case(self, asked: int = 1, answered: int = 1) -> tuple[tuple[int, WorstCaseCost], ...]:
        """Return counts and costs, whatever the votes, of asking a query and, further, of its label."""
        ask = FREE if self.mechanism.screen is None else self.mechanism.screen.worst_case()
        if self._delta_cost is not None:
            return (self.paid(asked), ask), (answered, FREE)
        return (self.paid(asked), ask), self.mechanism.worst_label(answered)

    @property
    def _delta_cost(self) -> float | None:
        """The δ per query that a label without noise uses behind a screen that protects it; None: no such screen."""
        screen, noise = self.mechanism.screen, self.mechanism.noise
        return screen.delta_cost if screen is not None and isinstance(noise, NoNoise) else None
