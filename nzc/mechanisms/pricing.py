"""What the labels of a noisy argmax cost: exactly at given votes, at most for any votes, and by an
audit.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from nzc.accounting import audit as empirical
from nzc.accounting.cost import Cost
from nzc.accounting.data_dependent import DataDependentBound, gaps
from nzc.accounting.data_independent import FREE, Kind, WorstCaseCost, gaussian_cost
from nzc.accounting.exact import ExactCost, Pairs
from nzc.accounting.own_cells import JointCost, known_cost, own_cells_cost
from nzc.accounting.privacy_filter import CLOSED, OPEN, PrivacyFilter, gaussian_filter, renyi_filter
from nzc.accounting.rdp import ORDERS
from nzc.accounting.sampling import sampled
from nzc.mechanisms.adjacency import FAR, OwnCells, OwnLabels
from nzc.mechanisms.law import ArgmaxLaw
from nzc.mechanisms.noise import ContinuousNoise, NoNoise
from nzc.mechanisms.votes import ABSTAIN, HistogramBatch, as_labels, as_votes, distinct
from nzc.types import Floats, Ints
from nzc.validation import InputError, is_shipped

UNSTATED: Floats = np.empty(0)  # stands for `student_probs` that the caller of `cost` left out
AUDITED = 100  # an audit runs at most so many queries; its result bounds every longer run from below as well


class PricedArgmax(ArgmaxLaw):
    """A noisy argmax with its prices between the neighbours of its adjacency (see `NoisyArgmax`)."""

    def cost(self, votes: Ints, labels: Ints, student_probs: Floats | None = UNSTATED) -> Cost:
        """Return what releasing `labels` at these votes cost; the arguments are those of `release`.

        InputError: `student_probs` is left out although the screen uses it. Where `release` had
        none, it is None.
        """
        if student_probs is UNSTATED:
            if self.asks_student:
                raise InputError(
                    "student_probs",
                    "missing",
                    "must be what `release` was given; None if it had none",
                )
            student_probs = None
        votes = self.votes(votes)
        labels = as_labels(self.labels_of(np.asarray(labels)), votes)
        student_probs = self.known_to_screen(votes, student_probs)
        bounds, asked, shares = (
            self.bounds,
            [],
            [np.ones(len(votes))],
        )  # () where no theorem applies
        if bounds and self.screen is not None:
            asked.append(self.screen.histograms(votes, student_probs))
            shares.append(np.exp(self.screen.log_answer(votes, student_probs)[0]))
        return replace(
            self.promise(len(votes), len(votes)),
            exact=(self.exact(votes, student_probs),),
            bounded=tuple(zip(bounds, [*asked, votes[labels != ABSTAIN]], strict=False)),
            printed=tuple(zip(bounds, [*asked, votes], shares, strict=False)),
            claim=self.noise.claimed if self.boost.c > 0 else None,
        )

    def exact(self, votes: Ints, student_probs: Floats | None = None) -> ExactCost | JointCost:
        """Return the exact Rényi cost of these queries, screening included."""
        votes = as_votes(votes, one_sum=False)
        student_probs = self.known_to_screen(votes, student_probs)
        cells = self.adjacency if isinstance(self.adjacency, OwnCells) else None
        if (
            self.releases_counts
            or not self.adjacency.known
            or (cells is not None and cells.records > 1)
        ):
            return known_cost(len(votes), lambda queries: self.worst_case(queries, queries))
        moved = self._of_neighbours(votes, student_probs, self.pairs)
        if cells is None:
            return moved
        if isinstance(cells, OwnLabels):
            return own_cells_cost(moved)
        left, entered = (
            self._of_neighbours(votes, None, partial(self.counted_pairs, change=change))
            for change in (-1, 1)
        )
        return own_cells_cost(moved, (left, entered))

    def _of_neighbours(
        self, votes: Ints, student_probs: Floats | None, pairs: Callable[[HistogramBatch], Pairs]
    ) -> ExactCost:
        """Return the exact Rényi cost of each query, where `pairs` gives its neighbours."""
        if student_probs is not None and self.screen is not None and is_shipped(self.screen):
            student_probs = self.screen.relevant_probs(votes, student_probs)
        by_index = self.boost.c > 0 or isinstance(
            self.noise, NoNoise
        )  # the class order breaks ties, and matters there
        ordered = by_index & (gaps(votes)[:, 0] <= FAR) | self.knows_classes
        batches, inverse = distinct(votes, student_probs, ordered)
        return ExactCost(
            [(batch.places, partial(pairs, batch)) for batch in batches],
            inverse,
            ceiling=lambda orders: np.stack(
                [count * cost.rdp(orders) for count, cost in self.worst_case()]
            ),
            paid=self.paid(len(votes)) if self.one_round else None,
        )

    def promise(self, asked: int, answered: int) -> Cost:
        """Return what so many queries and labels cost at most, whatever the votes; only ε
        data-independent is known.
        """
        return Cost(
            asked,
            None,
            (),
            self.worst_case(asked, answered),
            self.paid(asked) * (self.delta_cost or 0.0),
        )

    def filter(
        self, epsilon: float, delta: float, queries: int, other: WorstCaseCost = FREE
    ) -> PrivacyFilter:
        """Return the filter that keeps `queries` queries and `other` within a budget ε at δ,
        whatever the votes.
        """
        together = self.promise(queries, queries) + Cost(0, None, (), ((1, other),))
        if (
            self.one_round or together.delta_cost >= delta
        ):  # then it may pay for any number of answers
            return OPEN if together.data_independent(delta) <= epsilon else CLOSED
        left = delta - together.delta_cost
        (_, ask), (_, answer) = self.worst_case()
        if np.isfinite(ask.mu + answer.mu):
            return gaussian_filter(epsilon, left, ask.mu, answer.mu, other.mu)
        return renyi_filter(epsilon, left, ask.rdp(ORDERS), answer.rdp(ORDERS), other.rdp(ORDERS))

    def audit(
        self,
        teachers: int,
        classes: int,
        queries: int,
        trials: int,
        delta: float,
        rng: np.random.Generator,
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
    def knows_classes(self) -> bool:
        """Whether the class order may matter to a part: to any of the user's own, unless its law is
        nzc's integral.
        """
        noise = is_shipped(self.noise) or isinstance(self.noise, ContinuousNoise)
        return not (noise and (self.screen is None or is_shipped(self.screen)))

    @property
    def bounds(self) -> tuple[DataDependentBound, ...]:
        """The papers' data-dependent bounds, of the screen and of the label; () where no theorem
        applies.
        """
        one_vote = self.adjacency.everywhere and self.adjacency.known
        if (
            not self.boost.plain
            or not one_vote
            or self.delta_cost is not None
            or self.releases_counts
        ):
            return ()
        parts = [self.noise.bound] if self.screen is None else [self.screen.bound, self.noise.bound]
        known = tuple(bound for bound in parts if bound is not None)
        return known if len(known) == len(parts) else ()

    def paid(self, asked: int) -> int:
        """Return how many of so many queries asked are paid for."""
        return asked if self.screen is None else self.screen.paid(asked)

    def worst_case(
        self, asked: int = 1, answered: int = 1
    ) -> tuple[tuple[int, WorstCaseCost], ...]:
        """Return counts and costs, whatever the votes, of asking a query and, further, of its
        label.
        """
        label = (answered, FREE) if self.delta_cost is not None else self.worst_label(answered)
        if (
            not is_shipped(self.noise)
            and label[1].shown is not None
            and label[1].shown.kind is not Kind.RANGE
        ):
            label = (
                label[0],
                replace(label[1], shown=None),
            )  # which is proved for nzc's noise of that name only
        probability, shown = self.adjacency.probability, label[1].shown
        if self.screen is None:
            return (asked, FREE), (label[0], sampled(label[1], probability))
        ask = self.screen.worst_case(self.adjacency.votes)
        if probability < 1:
            joint = gaussian_cost(float(np.hypot(ask.mu, label[1].mu)))  # of one sample
            return (asked, sampled(joint, probability)), (0, FREE)
        if shown is not None and shown.kind is Kind.LABEL:
            label = label[0], replace(label[1], shown=replace(shown, kind=Kind.SCREENED))
        return (self.paid(asked), ask), label
