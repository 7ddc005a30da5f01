"""The one mechanism of all four papers: argmax of boosted counts plus noise, after a screen.

Its prices are in `mechanisms.cost`, its laws one vote away in `mechanisms.neighbourhoods`.
"""

from copy import copy
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from nzc.accounting import audit as empirical
from nzc.accounting.audit import Evidence, Pair
from nzc.accounting.cost import Cost
from nzc.accounting.exact_noise import ExactGenerator
from nzc.mechanisms import cost as prices
from nzc.mechanisms.adjacency import Adjacency, Boost, Vectors
from nzc.mechanisms.noise.base import Noise, NoNoise, require_total
from nzc.mechanisms.noise.checks import require_draws, require_worst_case
from nzc.mechanisms.noise.gaussian import GaussianNoise
from nzc.mechanisms.noise.laplace import LaplaceNoise
from nzc.mechanisms.own_parts import is_own, require_parts, require_statistic, unbuilt
from nzc.mechanisms.screen import Screen, screened
from nzc.mechanisms.votes import ABSTAIN, Probs, as_probabilities, as_votes
from nzc.types import Floats, Ints
from nzc.validation import InputError, generator

__all__ = ["GroundTruth", "NoisyArgmax", "NoisyCounts"]

#: Seeded noise of larger counts is drawn exactly, in votes.
_COARSE = 2.0**20


@dataclass(frozen=True, repr=False)
class NoisyArgmax:
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
    adjacency: Adjacency = field(default_factory=Adjacency, kw_only=True)
    releases: ClassVar[str] = "labels"  # what `release` returns: labels, counts, sums, or truth

    def __post_init__(self) -> None:
        require_parts(self)
        if is_own(self.noise):  # nzc's tests compare its own noises with their laws
            if np.isfinite(self.boost.shift):  # else no bound is used
                require_worst_case(self.noise, self.boost.shift)
            require_draws(self.noise)

    def __repr__(self) -> str:
        """Return the mechanism with all parameters, by the papers' name if all parts are nzc's."""
        parts: dict[str, Any] = {"boost": self.boost, "screen": self.screen, "noise": self.noise}
        if self.boost.plain:
            del parts["boost"]
        if self.screen is None:
            del parts["screen"]
        *beside, _ = (type(part).__name__ for part in parts.values())
        name = self.noise.names.get(", ".join([self.releases, *beside]))
        shown = parts
        if name is None or any(map(is_own, parts.values())):
            name = type(self).__name__
        else:
            shown = {}
            for part in parts.values():
                shown |= vars(part)
        if self.first is not None:
            shown["first"] = self.first
        if self.adjacency not in (Adjacency(), Vectors()):
            shown["adjacency"] = self.adjacency
        return f"{name}({', '.join(f'{key}={value!r}' for key, value in shown.items())})"

    @property
    def asks_student(self) -> bool:
        """Whether the screen uses `student_probs`."""
        return self.screen is not None and self.screen.asks_student

    @property
    def delta_cost(self) -> float | None:
        """The δ per query of a label without noise behind a screen that protects it; None: none."""
        if self.screen is None or not isinstance(self.noise, NoNoise):
            return None
        return self.screen.delta_cost

    def check(self, teachers: int) -> None:
        """Raise InputError where so few teachers make no sense for the screen."""
        if self.screen is not None:
            self.screen.check(teachers)
        if self.first is not None:
            self.first.check(teachers)

    def between(self, adjacency: Adjacency) -> "NoisyArgmax":
        """Return this mechanism for votes with other neighbours. InputError: it has no price."""
        if self.screen is not None:
            self._require_price(self.screen, adjacency)
        if isinstance(adjacency, type):
            raise unbuilt("adjacency", adjacency)
        if isinstance(adjacency, Vectors) != (self.releases == "sums"):
            name = repr(self).partition("(")[0]
            raise InputError(
                "_target_",
                name,
                "must be nzc.Sums with teachers=sums, and another aggregator without",
            )
        mechanism = copy(self)  # no second comparison of a user's noise with its law
        object.__setattr__(mechanism, "adjacency", adjacency)
        if self.first is not None:
            object.__setattr__(mechanism, "first", self.first.between(adjacency))
        return mechanism

    def _require_price(self, screen: Screen, adjacency: Adjacency) -> None:
        if not adjacency.everywhere:
            allowed = "must have no screen where records count in their own cells"
        elif adjacency.teachers is not None and is_own(screen):
            allowed = "must be a screen of nzc where teachers abstain: a vote may appear or vanish"
        elif not adjacency.known and self.delta_cost is not None:
            allowed = "must have another screen where a record is in several teachers or in samples"
        else:
            return
        raise InputError("_target_", type(screen).__name__, allowed)

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
        return self.draw(votes, generator(rng), self.known_to_screen(votes, student_probs))

    def draw(self, votes: Ints, rng: Generator, student_probs: Probs = None) -> Ints:
        """Draw one label per query; the arguments are checked."""
        labels = self.noise.winner(self.boost.scores(votes), self.boost.scale(votes), rng)
        if self.screen is None:
            return labels
        return np.where(self.screen.answers(votes, rng, student_probs), labels, ABSTAIN)

    def labels_of(self, released: Ints) -> Ints:
        """Return the labels [queries] of what `release` returned: here, itself."""
        return released

    def reinforce(self, labels: Ints, student_probs: Floats) -> Ints:
        """Return labels with the sure student's own where a query was not answered.

        That is post-processing.
        """
        return labels if self.screen is None else self.screen.reinforce(labels, student_probs)

    def log_law(self, votes: Ints, student_probs: Probs = None) -> Floats:
        """Return log-probabilities [queries, classes + 1] of every label, and of abstaining."""
        votes = as_votes(votes, one_sum=False)
        return self.law_at(votes, self.known_to_screen(votes, student_probs))

    def law_at(self, votes: Ints, student_probs: Probs) -> Floats:
        """Return the same, of arrays that are checked."""
        scores = self.boost.scores(votes)
        leads = (scores - scores.max(axis=1, keepdims=True)) / self.boost.scale(votes)[:, None]
        labels = self.noise.log_law(leads)
        require_total(self.noise, labels)
        return screened(self.screen, labels, votes, student_probs)

    def evidence(self, pair: Pair) -> Evidence:
        """Return the log-likelihood ratio of released labels [queries] between two histograms."""
        p, q = (np.maximum(self.log_law(votes[None])[0], empirical.FLOOR) for votes in pair)
        return lambda labels: (p - q)[labels]  # label −1 (abstaining) reads the last entry

    def votes(self, votes: Any) -> Ints:
        """Return histograms between the neighbours of this mechanism, checked (see `as_votes`)."""
        state = "mechanism.between(nzc.Abstentions(teachers=NUMBER))"
        return as_votes(votes, self.adjacency.everywhere, self.adjacency.teachers, state)

    def known_to_screen(self, votes: Ints, student_probs: Probs) -> Probs:
        """Return the probabilities [queries, classes], checked; None where the screen uses none."""
        probabilities = as_probabilities(student_probs, votes)
        return probabilities if self.asks_student else None

    # What its labels cost: see the functions of `mechanisms.cost`.
    cost = prices.cost
    exact = prices.exact
    promise = prices.promise
    worst_case = prices.worst_case
    worst_case_epsilon = prices.worst_case_epsilon
    filter = prices.privacy_filter
    bounds = property(prices.bounds)
    audit = prices.audit


class NoisyCounts(NoisyArgmax):
    """n + Z, rounded to whole numbers, [queries, classes]; labels are its argmax.

    What follows from the counts costs nothing. Those beyond ±2^53 are set to ±2^53. Z is Laplace or
    Gaussian noise of nzc itself: other noise has no such price.

    A moved vote shifts two counts by one: a query costs a pure 2γ with Laplace noise, a mean shift
    of √2/σ with Gaussian noise. In own cells all queries together cost as much as the labels alone.
    """

    noise: LaplaceNoise | GaussianNoise
    releases = "counts"

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

    def labels_of(self, released: Ints) -> Ints:
        if released.ndim != 2:
            raise InputError(
                "labels", list(released.shape), "must be released counts, [queries, classes]"
            )
        return released.argmax(axis=1)

    def evidence(self, pair: Pair) -> Evidence:
        """Return the log-likelihood ratio of counts [queries, classes], as before rounding."""

        def log_density(counts: Ints, votes: Ints) -> Floats:
            density = self.noise.log_density((counts - votes) / self.noise.unit)
            return density.sum(axis=1)

        return lambda counts: log_density(counts, pair[0]) - log_density(counts, pair[1])


class GroundTruth(NoisyArgmax):
    """The true labels, the papers' upper baseline: its votes are one-hot, and ε = ∞."""

    releases = "truth"

    def __init__(self) -> None:
        super().__init__(NoNoise())

    def cost(self, votes: Ints, labels: Ints, student_probs: Probs = None) -> Cost:
        return self.promise(len(votes), len(votes))
