"""The interface of a noise law, noise of a scale 1/γ, no noise, and laws in log space."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from scipy.special import logsumexp

from nzc.accounting.data_dependent import DataDependentBound
from nzc.accounting.data_independent import UNBOUNDED, Release, WorstCaseCost, pure_cost
from nzc.accounting.exact_noise import ExactGenerator, ExactNoise, StandardLaw
from nzc.types import Floats, Ints, OneOrMore, Shape
from nzc.validation import InputError, keep, positive

__all__ = ["NoNoise", "Noise"]

#: Smaller log-probabilities become −inf. It is far below `exact.IMPOSSIBLE`: ratios stay finite.
DEEPEST = -1000.0


class Noise(ABC):
    """Independent noise on every count. A subclass gives a sampler and the noisy argmax's law."""

    #: Whether `worst_case(shift)` holds however a rise of `shift` and a fall of as much are divided
    #: between counts, also of several rows: the l1 norm decides.
    l1_bounded: ClassVar[bool] = False

    @abstractmethod
    def sample(self, shape: Shape, rng: Generator) -> Floats:
        """Draw noise of this shape, in votes."""

    @property
    def deviation(self) -> float:
        """The standard deviation, in votes, of a large sample."""
        return float(self.sample((100_000,), np.random.default_rng(0)).std())

    @abstractmethod
    def log_law(self, scores: Floats) -> Floats:
        """Return log Pr[argmax(scores + noise) = j], [queries, classes].

        The error is at most `exact.error_of`.
        """

    @property
    def exact(self) -> ExactNoise | None:
        """The same noise by its quantile function; None: `sample` draws it, by float64's rules."""
        return None

    def winner(self, scores: Floats, scale: Floats, rng: Generator) -> Ints:
        """Draw argmax_j {scores_j + scale·noise_j}, [queries].

        scores are [queries, classes], scales [queries].
        """
        if isinstance(rng, ExactGenerator) and self.exact is not None:
            return rng.winner(self.exact, scores, scale)
        return (scores + self.sample(scores.shape, rng) * scale[:, None]).argmax(axis=1)

    def worst_case(self, shift: float) -> WorstCaseCost:
        """Return a label's cost for any votes.

        Where a vote moves, counts rise by `shift` in all, and others fall by as much.
        """
        return UNBOUNDED

    def own_cells(self, records: int) -> Release:
        """Return what all labels cost in `OwnCells`: a count, and the cost of each."""
        if self.l1_bounded:  # `hint` is of moved votes of many queries
            return 1, replace(self.worst_case(records), hint=None)
        # Two counts change, each by less than a moved vote.
        return 2, self.worst_case(1) if records == 1 else UNBOUNDED

    @property
    def bound(self) -> DataDependentBound | None:
        """The paper's data-dependent bound for a label with this noise; None: no paper has one."""
        return None

    def claimed(self, queries: int, delta: float) -> float | None:
        """Return the ε that the NZC papers claim for this noise with a boost; None: none."""
        return None


@dataclass(frozen=True)
class ScaledNoise(Noise):
    """Noise of scale 1/γ votes, with a label that is (2γ, 0)-private."""

    gamma: float
    l1_bounded = True
    standard: ClassVar[StandardLaw]

    def __post_init__(self) -> None:
        keep(self, gamma=positive)

    @property
    def exact(self) -> ExactNoise:
        return ExactNoise(self.standard, 1 / Fraction(self.gamma))

    def worst_case(self, shift: float) -> WorstCaseCost:
        return pure_cost(2 * self.gamma * shift)


@dataclass(frozen=True)
class NoNoise(Noise):
    """Leave the counts as they are: the plurality. One vote can flip a label, so no ε is finite."""

    def sample(self, shape: Shape, rng: Generator) -> Floats:
        return np.zeros(shape)

    def log_law(self, scores: Floats) -> Floats:
        law = np.full(scores.shape, -np.inf)
        law[np.arange(len(scores)), scores.argmax(axis=1)] = 0.0
        return law


def require_total(noise: Noise, log_p: Floats, copies: Floats | None = None) -> None:
    """Raise InputError unless every law [..., outcomes], each for `copies`, sums to one ± 1e-9."""
    total = np.exp(logsumexp(log_p, axis=-1, b=copies))
    wrong = total[~(np.abs(total - 1) < 1e-9)]
    if wrong.size:
        raise InputError(
            "noise",
            noise,
            f"must have a law that sums to one; at some votes it sums to {wrong[0]:.6g}",
        )


def complete(log_p: Floats, copies: OneOrMore = 1.0) -> Floats:
    """Return the law [..., outcomes], each for `copies`, with the likeliest as 1 − Σ others.

    What is below DEEPEST becomes −inf.
    """
    log_p = np.where(log_p < DEEPEST, -np.inf, log_p)
    top = log_p.argmax(axis=-1)[..., None]
    others = copies - (np.arange(log_p.shape[-1]) == top)
    rest = (np.exp(log_p) * others).sum(axis=-1, keepdims=True)
    likely = np.take_along_axis(log_p, top, axis=-1)
    likely = np.where(rest < 0.5, np.log1p(-np.minimum(rest, 0.5)), likely)
    np.put_along_axis(log_p, top, likely, axis=-1)
    return log_p
