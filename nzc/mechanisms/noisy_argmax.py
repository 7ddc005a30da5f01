"""The one mechanism of all four papers: argmax of boosted counts plus noise, after a screen.

Its law at votes and one vote away is in `mechanisms.neighbourhoods`.
"""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from nzc.accounting.audit import FLOOR, Evidence, Pair
from nzc.accounting.cost import Cost
from nzc.accounting.data_dependent import DataDependentBound
from nzc.accounting.data_independent import FREE, UNBOUNDED, KnownCost, Release
from nzc.accounting.exact import ExactCost
from nzc.accounting.exact_noise import ExactGenerator
from nzc.accounting.kinds import Kind
from nzc.mechanisms.adjacency import Adjacency, Boost, OwnCells
from nzc.mechanisms.base import Mechanism, Prices
from nzc.mechanisms.neighbourhoods import exact_cost, label_law
from nzc.mechanisms.noise.base import Noise, NoNoise
from nzc.mechanisms.noise.checks import require_draws, require_worst_case
from nzc.mechanisms.noise.exponential import ExponentialNoise
from nzc.mechanisms.noise.gaussian import GaussianNoise
from nzc.mechanisms.noise.gumbel import GumbelNoise
from nzc.mechanisms.noise.laplace import LaplaceNoise
from nzc.mechanisms.own_parts import is_own, require_statistic
from nzc.mechanisms.screen import InteractiveScreen, Screen, StabilityScreen, ThresholdScreen
from nzc.mechanisms.votes import ABSTAIN, Probs, as_labels, as_probabilities, as_votes
from nzc.types import Floats, Ints
from nzc.validation import InputError, as_generator

__all__ = ["GroundTruth", "NoisyArgmax", "NoisyCounts"]

UNSTATED: Floats = np.empty(0)  # stands for `student_probs` that the caller of `cost` left out
#: Seeded noise of larger counts is drawn exactly, in votes.
_COARSE = 2.0**20


@dataclass(frozen=True, repr=False)
class NoisyArgmax(Mechanism):
    """argmax_j { n_j + c·[j is the plurality] + Δ·Z_j } with independent noise Z.

    Votes are [queries, classes], whole counts of 0 or more; every row sums to the number of
    teachers, or with `between(Abstentions(teachers))` to at most so many. Ties break to the lowest
    class index. By default c = 0, Δ = 1, and all queries are answered.

    noise      the law of Z
    boost      c and Δ
    screen     which queries are answered; None: all
    first      the mechanism before there is a student; None: this one
    adjacency  which histograms are neighbours
    """

    noise: Noise
    boost: Boost = field(default_factory=Boost)
    screen: Screen | None = None
    first: "NoisyArgmax | None" = None
    adjacency: Adjacency = field(default=Mechanism.adjacency, kw_only=True)
    names: ClassVar = {
        (NoNoise,): "Plurality",
        (LaplaceNoise,): "LNMax",
        (GaussianNoise,): "GNMax",
        (GumbelNoise,): "Gumbel",
        (ExponentialNoise,): "PermuteAndFlip",
        (ThresholdScreen, GaussianNoise): "Confident",
        (InteractiveScreen, GaussianNoise): "Interactive",
        (StabilityScreen, NoNoise): "Stable",
        (Boost, LaplaceNoise): "NZC",
        (Boost, GaussianNoise): "NZCGaussian",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if is_own(self.noise):  # nzc's tests compare its own noises with their laws
            if np.isfinite(self.boost.shift):  # else no bound is used
                require_worst_case(self.noise, self.boost.shift)
            require_draws(self.noise)

    def release(self, votes: Ints, rng: Generator | int, student_probs: Probs = None) -> Ints:
        """Return one label per query, [queries]; ABSTAIN (−1) where a query is not answered.

        Privacy boundary: the votes are private, the labels may be published at the ε of
        `cost(votes, labels)`, drawn by `nzc.system_rng()`: who knows a seed can subtract its noise.
        `student_probs` are the student's class probabilities, [queries, classes]; None while there
        is no student. A whole number as `rng` is a seed.
        """
        votes = self.votes(votes)
        if self.screen is not None and is_own(self.screen) and len(votes):
            teachers = int(votes[0].sum())  # which is public, as the number of classes
            require_statistic(self.screen, teachers, votes.shape[1])
        return self.draw(votes, as_generator(rng), self.known_to_screen(votes, student_probs))

    def draw(self, votes: Ints, rng: Generator, student_probs: Probs = None) -> Ints:
        """Draw one label per query; the arguments are checked."""
        labels = self.noise.winner(self.boost.scores(votes), self.boost.scale(votes), rng)
        if self.screen is None:
            return labels
        return np.where(self.screen.answers(votes, rng, student_probs), labels, ABSTAIN)

    def log_law(self, votes: Ints, student_probs: Probs = None) -> Floats:
        """Return log-probabilities [queries, classes + 1] of every label, and of abstaining."""
        votes = as_votes(votes, one_sum=False)
        return label_law(self, votes, self.known_to_screen(votes, student_probs))

    def evidence(self, pair: Pair) -> Evidence:
        """Return the log-likelihood ratio of released labels [queries] between two histograms."""
        p, q = (np.maximum(self.log_law(votes[None])[0], FLOOR) for votes in pair)
        return lambda labels: (p - q)[labels]  # label −1 (abstaining) reads the last entry

    def votes(self, votes: Any) -> Ints:
        """Return histograms between the neighbours of this mechanism, checked (see `as_votes`)."""
        state = "mechanism.between(nzc.Abstentions(teachers=NUMBER))"
        return as_votes(votes, self.adjacency.everywhere, self.adjacency.teachers, state)

    def known_to_screen(self, votes: Ints, student_probs: Probs) -> Probs:
        """Return the probabilities [queries, classes], checked; None where the screen uses none."""
        probabilities = as_probabilities(student_probs, votes)
        return probabilities if self.asks_student else None

    def worst_case(self, asked: int = 1, answered: int = 1) -> Prices:
        count, label = self._label_cost(answered)
        if self.screen is None:
            return (asked, FREE), (count, label)
        ask = self.screen.worst_case()
        if label.hint is not None and label.hint.kind is Kind.LABEL:
            label = replace(label, hint=replace(label.hint, kind=Kind.SCREENED))
        return (asked, ask), (count, label)

    def _label_cost(self, labels: int) -> Release:
        """Return what so many labels cost beside their screen: a count, and the cost of each."""
        noise = self.noise
        adjacency = self.adjacency
        plain = self.boost.plain
        cost = self.boost.worst_case(noise)
        if self.delta_cost is not None:
            return labels, FREE
        if isinstance(adjacency, OwnCells):  # all labels cost as much as those of one query
            changes = adjacency.changes
            if plain and changes > 1:
                changes, cost = noise.own_cells(adjacency.records)
            elif adjacency.records > 1:
                cost = UNBOUNDED
            labels = min(labels, 1) * changes
        # `hint` is about one moved vote. All but that of a range is proved for nzc's noise only.
        is_lent = is_own(noise) and cost.hint is not None and cost.hint.kind is not Kind.RANGE
        if is_lent:
            cost = replace(cost, hint=None)
        return labels, cost

    @property
    def _data_dependent(self) -> bool:
        """Whether the cost depends on the votes: one vote of a unit moves in every histogram."""
        return self.adjacency.everywhere

    @property
    def bounds(self) -> tuple[DataDependentBound, ...]:
        if self.delta_cost is not None or not (self._data_dependent and self.boost.plain):
            return ()
        parts = [self.noise.bound]
        if self.screen is not None:
            parts.insert(0, self.screen.bound)
        theorems = tuple(bound for bound in parts if bound is not None)
        if len(theorems) < len(parts):
            return ()
        return theorems

    def cost(self, votes: Ints, labels: Ints, student_probs: Probs = UNSTATED) -> Cost:
        """Return what releasing `labels` at these votes cost; the arguments are as in `release`.

        InputError: `student_probs` is left out although the screen uses it. Where `release` had
        none, it is None.
        """
        if student_probs is UNSTATED:
            if self.asks_student:
                allowed = "must be what `release` was given; None if it had none"
                raise InputError("student_probs", "missing", allowed)
            student_probs = None
        votes = self.votes(votes)
        labels = as_labels(self.labels_of(np.asarray(labels)), votes, self.screen is not None)
        student_probs = self.known_to_screen(votes, student_probs)
        cost = replace(
            self.promise(len(votes), len(votes)),
            exact=(self.exact(votes, student_probs),),
            claim=self.noise.claimed if self.boost.c > 0 else None,
        )
        if not self.bounds:
            return cost

        asked: list[Floats] = []
        shares = [np.ones(len(votes))]
        if self.screen is not None:
            asked.append(self.screen.histograms(votes, student_probs))
            shares.append(np.exp(self.screen.log_answer(votes, student_probs)[0]))
        answered = votes[labels != ABSTAIN]
        return replace(
            cost,
            bounded=tuple(zip(self.bounds, [*asked, answered], strict=True)),
            printed=tuple(zip(self.bounds, [*asked, votes], shares, strict=True)),
        )

    def exact(self, votes: Ints, student_probs: Probs = None) -> ExactCost | KnownCost:
        """Return the exact Rényi cost of these queries, screening included."""
        votes = as_votes(votes, one_sum=False)
        probs = self.known_to_screen(votes, student_probs)
        if self._data_dependent:
            return exact_cost(self, votes, probs)
        return self.known_cost(len(votes))


class NoisyCounts(NoisyArgmax):
    """n + Z, rounded to whole numbers, [queries, classes]; labels are its argmax.

    What follows from the counts costs nothing. Those beyond ±2^53 are set to ±2^53. Z is Laplace or
    Gaussian noise of nzc itself: other noise has no such price.

    A moved vote shifts two counts by one: a query costs a pure 2γ with Laplace noise, a mean shift
    of √2/σ with Gaussian noise. In own cells all queries together cost as much as the labels alone.
    """

    noise: LaplaceNoise | GaussianNoise
    releases = "counts"
    _data_dependent = False
    names: ClassVar = {(LaplaceNoise,): "Counts", (GaussianNoise,): "CountsGaussian"}

    def __init__(self, noise: LaplaceNoise | GaussianNoise) -> None:
        super().__init__(noise)

    def __post_init__(self) -> None:
        super().__post_init__()
        # The price of a label is not that of its counts.
        if type(self.noise) not in (LaplaceNoise, GaussianNoise):
            allowed = "must be nzc.LaplaceNoise or nzc.GaussianNoise itself where noisy counts are"
            raise InputError("noise", self.noise, f"{allowed} released")

    def draw(self, votes: Ints, rng: Generator, student_probs: Probs = None) -> Ints:
        # Float64 noise of such a size has gaps of whole votes, in which the count would show.
        if isinstance(rng, ExactGenerator) or self.noise.unit > _COARSE:
            exact = ExactGenerator(rng.bit_generator)
            counts = exact.round_up(self.noise.exact, votes.astype(np.float64) - 0.5)
            return counts.astype(np.int64)
        return votes + np.rint(self.noise.sample(votes.shape, rng)).astype(np.int64)

    def _label_cost(self, labels: int) -> Release:
        count, cost = super()._label_cost(labels)
        return count, replace(cost, hint=None)  # `hint` is about the argmax

    def labels_of(self, released: Ints) -> Ints:
        if released.ndim != 2:
            raise InputError(
                "labels", list(released.shape), "must be released counts, [queries, classes]"
            )
        return released.argmax(axis=1)

    def evidence(self, pair: Pair) -> Evidence:
        """Return the log-likelihood ratio of counts [queries, classes], as before rounding."""
        noise = self.noise

        def log_ratio(counts: Ints) -> Floats:
            p, q = (noise.log_density((counts - votes) / noise.unit) for votes in pair)
            return p.sum(axis=1) - q.sum(axis=1)

        return log_ratio


class GroundTruth(NoisyArgmax):
    """The true labels, the papers' upper baseline: its votes are one-hot, and ε = ∞."""

    releases = "truth"
    names: ClassVar = {(NoNoise,): "GroundTruth"}

    def __init__(self) -> None:
        super().__init__(NoNoise())

    def cost(self, votes: Ints, labels: Ints, student_probs: Probs = None) -> Cost:
        return self.promise(len(votes), len(votes))
