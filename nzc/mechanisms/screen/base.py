"""The interface of a screen: a noisy test that decides which queries are answered."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from nzc.accounting import data_dependent, data_independent
from nzc.types import Bools, Floats, Ints
from nzc.validation import InputError, not_negative, positive


@dataclass(frozen=True)
class Screen(ABC):
    """Answer where statistic + N(0, σ₁²) ≥ threshold. One moved vote changes the statistic by at most 1.

    The statistic is not rounded: rounding half to even would let it change by 2.
    """

    threshold: float
    sigma1: float

    #: Whether the statistic uses the student's probabilities.
    asks_student = False

    def __post_init__(self) -> None:
        not_negative(threshold=self.threshold)
        positive(sigma1=self.sigma1)

    @abstractmethod
    def statistic(self, votes: Ints, student_probs: Floats | None) -> Floats:
        """Return the statistic, [...], of sensitivity 1, from votes and student probabilities [..., classes]."""

    def relevant_probs(self, votes: Ints, student_probs: Floats) -> Floats | None:
        """Return the probabilities, inf where no neighbour's statistic depends on them; None: none ever does."""
        return None

    def reinforce(self, labels: Ints, student_probs: Floats) -> Ints:
        """See `NoisyArgmax.reinforce`; an abstention is −1."""
        return labels

    @property
    def delta_cost(self) -> float | None:
        """The δ that each query uses where this screen makes a label without noise private; None: it does not."""
        return None

    def check(self, teachers: int) -> None:
        """Raise InputError where so few teachers never reach the threshold, not even with noise of 6 σ₁."""
        if self.threshold > (reachable := teachers + 6 * self.sigma1):
            allowed = f"must be at most teachers + 6 sigma1, here {reachable:g}: no query would be answered"
            raise InputError("threshold", self.threshold, allowed)

    def answers(self, votes: Ints, rng: np.random.Generator, student_probs: Floats | None) -> Bools:
        """Draw which queries are answered, [queries]."""
        statistic = self.statistic(votes, student_probs)
        return statistic + rng.normal(scale=self.sigma1, size=statistic.shape) >= self.threshold

    def log_answer(self, votes: Ints, student_probs: Floats | None) -> tuple[Floats, Floats]:
        """Return the log-probabilities of answering and of abstaining, each [...]."""
        ahead = (self.statistic(votes, student_probs) - self.threshold) / self.sigma1
        return log_ndtr(ahead), log_ndtr(-ahead)

    @property
    def bound(self) -> data_dependent.DataDependentBound:
        """The data-dependent bound for asking one query, to be taken at `histograms`."""
        return data_dependent.screen_bound(self.sigma1)

    def histograms(self, votes: Ints, student_probs: Floats | None) -> Floats:
        """Return the two-class histograms [queries, 2] at which `bound` is to be taken."""
        return data_dependent.screen_votes(self.statistic(votes, student_probs), self.threshold)

    def worst_case(self) -> data_independent.WorstCaseCost:
        """Return the cost of asking one query, whatever the votes: Gaussian noise at mean shift 1/σ₁."""
        return data_independent.gaussian_cost(1 / self.sigma1)
