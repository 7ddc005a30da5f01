"""The interface of a screen: which queries are answered at all?"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from nzc._types import Bools, Floats, Ints
from nzc.errors import InputError, not_negative, positive
from nzc.privacy import independent, theorem


@dataclass(frozen=True)
class Screen(ABC):
    """Answer iff statistic + N(0, σ₁²) ≥ threshold; one moved vote changes the statistic by at most 1.

    It is not rounded: half-to-even rounding would let it move by 2.
    """

    threshold: float
    sigma1: float

    def __post_init__(self) -> None:
        not_negative(threshold=self.threshold)
        positive(sigma1=self.sigma1)

    @abstractmethod
    def statistic(self, votes: Ints, baseline: Floats | None) -> Floats:
        """[...], of sensitivity 1, from votes and the student's probabilities [..., classes]."""

    #: Whether the statistic looks at the student's probabilities.
    asks_student = False

    def within_reach(self, votes: Ints, baseline: Floats) -> Floats | None:
        """The baseline, ∞ where no neighbour's statistic depends on it, [queries, classes]; None: none ever does."""
        return None

    def reinforce(self, labels: Ints, baseline: Floats) -> Ints:
        """Aggregator.reinforce."""
        return labels

    @property
    def leak(self) -> float | None:
        """Where this screen makes the plurality itself safe, the probability per query that it fails to."""
        return None

    def check(self, teachers: int) -> None:
        """InputError where so many teachers would never be heard: T may lie above them as far as its noise reaches."""
        if self.threshold > (reachable := teachers + 6 * self.sigma1):
            allowed = f"must be at most teachers + 6 sigma1, here {reachable:g}: no query would be answered"
            raise InputError("threshold", self.threshold, allowed)

    def answers(self, votes: Ints, rng: np.random.Generator, baseline: Floats | None) -> Bools:
        """Which queries are answered, [queries], drawn."""
        statistic = self.statistic(votes, baseline)
        return statistic + rng.normal(scale=self.sigma1, size=statistic.shape) >= self.threshold

    def log_answer(self, votes: Ints, baseline: Floats | None) -> tuple[Floats, Floats]:
        """log-probabilities of answering and of abstaining, each [...]."""
        ahead = (self.statistic(votes, baseline) - self.threshold) / self.sigma1
        return log_ndtr(ahead), log_ndtr(-ahead)

    @property
    def bound(self) -> theorem.Bound:
        """The paper's data-dependent bound for asking, at `histograms`."""
        return theorem.screen_bound(self.sigma1)

    def histograms(self, votes: Ints, baseline: Floats | None) -> Floats:
        """The two-class histograms [queries, 2] at which `bound` is to be taken."""
        return theorem.screen_votes(self.statistic(votes, baseline), self.threshold)

    def release(self) -> independent.Release:
        """What asking one query costs for any votes: Gaussian noise at mean shift 1/σ₁."""
        return independent.gaussian_release(1 / self.sigma1)
