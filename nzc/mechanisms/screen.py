"""Screens: a noisy test decides which queries are answered."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.random import Generator
from scipy.special import log_ndtr

from nzc.accounting.data_dependent import DataDependentBound, gaussian_bound
from nzc.accounting.data_independent import WorstCaseCost, gaussian_cost
from nzc.accounting.exact_noise import NORMAL, ExactGenerator, ExactNoise
from nzc.accounting.kinds import Hint, Kind
from nzc.mechanisms.votes import Probs
from nzc.types import Bools, Floats, FloatsPair, Ints
from nzc.validation import InputError, between_0_and_1, keep, not_negative, positive

__all__ = ["InteractiveScreen", "Screen", "StabilityScreen", "ThresholdScreen"]


@dataclass(frozen=True)
class Screen(ABC):
    """Answer where statistic + N(0, σ₁²) ≥ threshold; one vote changes the statistic by ≤ 1."""

    threshold: float
    sigma1: float
    asks_student = False  # whether the statistic uses the student's probabilities

    def __post_init__(self) -> None:
        keep(self, threshold=not_negative, sigma1=positive)

    @abstractmethod
    def statistic(self, votes: Ints, student_probs: Probs) -> Floats:
        """Return the statistic [...] of sensitivity 1, not rounded, of arrays [..., classes]."""

    def relevant_probs(self, votes: Ints, student_probs: Floats) -> Probs:
        """Return the probabilities, inf where no neighbour depends on them; None: none does."""
        return None

    def reinforce(self, labels: Ints, student_probs: Floats) -> Ints:
        """See `NoisyArgmax.reinforce`."""
        return labels

    @property
    def delta_cost(self) -> float | None:
        """The δ of each query where the screen protects a label without noise; else None."""
        return None

    def check(self, teachers: int) -> None:
        """Raise InputError where the threshold is out of reach, even with noise of 6 σ₁."""
        reachable = teachers + 6 * self.sigma1
        if self.threshold > reachable:
            allowed = f"must be at most teachers + 6 sigma1, here {reachable:g}"
            raise InputError("threshold", self.threshold, f"{allowed}: no query would be answered")

    def answers(self, votes: Ints, rng: Generator, student_probs: Probs) -> Bools:
        """Draw which queries are answered, [queries]."""
        statistic = self.statistic(votes, student_probs)
        if isinstance(rng, ExactGenerator):
            noise = ExactNoise(NORMAL, Fraction(self.sigma1))
            return rng.at_least(noise, statistic, self.threshold)
        return statistic + rng.normal(scale=self.sigma1, size=statistic.shape) >= self.threshold

    def log_answer(self, votes: Ints, student_probs: Probs) -> FloatsPair:
        """Return the log-probabilities of answering and of abstaining, each [...]."""
        ahead = (self.statistic(votes, student_probs) - self.threshold) / self.sigma1
        return log_ndtr(ahead), log_ndtr(-ahead)

    def law(self, votes: Ints, student_probs: Probs) -> Floats:
        """Return both, [..., 2]."""
        return np.stack(self.log_answer(votes, student_probs), axis=-1)

    @property
    def bound(self) -> DataDependentBound | None:
        """The data-dependent bound for asking one query, taken at `histograms`; None: none."""
        # A moved vote shifts one number by 1, instead of two counts.
        return gaussian_bound(np.sqrt(2) * self.sigma1)

    def histograms(self, votes: Ints, student_probs: Probs) -> Floats:
        """Return histograms [queries, 2] that GNMax with noise √2 σ₁ answers as this screen does.

        The less likely answer has probability Φ(−|s − T|/σ₁), as at a gap of 2 |s − T|, which a
        vote changes by 2.
        """
        gap = 2 * np.abs(self.statistic(votes, student_probs).astype(np.float64) - self.threshold)
        return np.stack([gap, np.zeros_like(gap)], axis=1)

    def worst_case(self) -> WorstCaseCost:
        """Return the cost of asking one query: a mean shift of 1/σ₁."""
        cost = gaussian_cost(1 / self.sigma1)
        return replace(cost, hint=Hint(Kind.BIT, cost.mu))


def screened(screen: Screen | None, labels: Floats, votes: Ints, student_probs: Probs) -> Floats:
    """Join laws of labels [..., outcomes] with the screen's at votes: [..., outcomes + 1]."""
    if screen is None:
        return np.concatenate([labels, np.full((*labels.shape[:-1], 1), -np.inf)], axis=-1)
    answer, abstain = screen.log_answer(votes, student_probs)
    return np.concatenate([labels + answer[..., None], abstain[..., None]], axis=-1)


class ThresholdScreen(Screen):
    """Answer where max_j n_j + N(0, σ₁²) ≥ threshold (Scalable PATE 2018, Algorithm 1)."""

    def statistic(self, votes: Ints, student_probs: Probs) -> Floats:
        return np.asarray(votes.max(axis=-1), dtype=np.float64)


@dataclass(frozen=True)
class InteractiveScreen(ThresholdScreen):
    """Answer where max_j (n_j − N p_j) + N(0, σ₁²) ≥ threshold (Scalable PATE 2018, Algorithm 2).

    p are the student's probabilities, 0 without a student. Where there is no answer and the
    student's largest probability is above `confidence`, its own label is used.
    """

    confidence: float
    asks_student = True

    def __post_init__(self) -> None:
        super().__post_init__()
        keep(self, confidence=between_0_and_1)

    def statistic(self, votes: Ints, student_probs: Probs) -> Floats:
        if student_probs is None:
            return super().statistic(votes, None)
        return _ahead(votes, student_probs).max(axis=-1)

    def relevant_probs(self, votes: Ints, student_probs: Floats) -> Floats:
        # One moved vote raises a class by at most 1 and lowers the largest by at most 1.
        ahead = _ahead(votes, student_probs)
        return np.where(ahead < ahead.max(axis=-1, keepdims=True) - 2, np.inf, student_probs)

    def reinforce(self, labels: Ints, student_probs: Floats) -> Ints:
        sure = (labels < 0) & (student_probs.max(axis=1) > self.confidence)
        return np.where(sure, student_probs.argmax(axis=1), labels)


def _ahead(votes: Ints, student_probs: Floats) -> Floats:
    """Return how far each count exceeds what the student expects, [..., classes]."""
    return votes - votes.sum(axis=-1, keepdims=True) * student_probs


class StabilityScreen(Screen):
    """Answer where d + N(0, σ₁²) ≥ threshold, d = max(0, (n₁ − n₂)/2 − 1) of the largest counts.

    Distance to instability (cf. Bassily et al. 2018). A moved vote changes n₁ − n₂ by at most 2, so
    d by at most 1. Of two neighbours, either one has d > 0, so a gap of 3 or more: both have the
    same single plurality, which reveals nothing beyond the screen. Or both have d = 0, and a
    plurality is released with probability Φ(−threshold/σ₁) only: the `delta_cost`. So releasing the
    plurality of Q queries costs the screen's ε at δ − Q·delta_cost.
    """

    def statistic(self, votes: Ints, student_probs: Probs) -> Floats:
        top = np.partition(votes, -2, axis=-1)[..., -2:]
        return np.maximum(0.0, (top[..., 1] - top[..., 0]) / 2 - 1)

    @property
    def delta_cost(self) -> float:
        return float(np.exp(log_ndtr(-self.threshold / self.sigma1)))
