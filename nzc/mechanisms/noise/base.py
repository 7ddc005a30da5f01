"""The interface of a noise law, noise of a scale 1/γ, no noise, and helpers for laws in log space."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
from scipy.special import logsumexp

from nzc.accounting.data_dependent import DataDependentBound
from nzc.accounting.data_independent import UNBOUNDED, WorstCaseCost, pure_cost
from nzc.accounting.exact_noise import ExactGenerator, ExactNoise, StandardLaw
from nzc.types import Floats, Ints
from nzc.validation import InputError, positive

DEEPEST = (
    -1000.0
)  # smaller log-probabilities become −inf; far below `exact.IMPOSSIBLE`, so that ratios stay finite


class Noise(ABC):
    """Independent noise on every count. A subclass gives a sampler and the law of the noisy argmax."""

    concentrated: ClassVar[bool] = (
        False  # whether so many changed counts cost at most one vote moved by as many
    )

    @abstractmethod
    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """Draw noise of this shape, in votes."""

    @property
    def deviation(self) -> float:
        """The standard deviation, in votes, of a large sample."""
        return float(self.sample((100_000,), np.random.default_rng(0)).std())

    @abstractmethod
    def log_law(self, scores: Floats) -> Floats:
        """Return log Pr[argmax(scores + noise) = j], [queries, classes], with an error of
        `exact.error_of` at most.
        """

    @property
    def exact(self) -> ExactNoise | None:
        """The same noise by its quantile function; None: `sample` draws it, with float64's errors."""
        return None

    def winner(self, scores: Floats, scale: Floats, rng: np.random.Generator) -> Ints:
        """Draw argmax_j {scores_j + scale·noise_j}, [queries], at scores [queries, classes] and
        scales [queries].
        """
        if isinstance(rng, ExactGenerator) and self.exact is not None:
            return rng.winner(self.exact, scores, scale)
        return np.asarray((scores + self.sample(scores.shape, rng) * scale[:, None]).argmax(axis=1))

    def worst_case(self, shift: float) -> WorstCaseCost:
        """Return the cost of one label for any votes, where a moved vote shifts each count by at
        most `shift`.
        """
        return UNBOUNDED

    def own_cells(self, records: int) -> tuple[int, WorstCaseCost]:
        """Return what all labels cost between neighbours of `adjacency.OwnCells`: a count, and the
        cost of each.
        """
        if self.concentrated:
            return 1, replace(
                self.worst_case(records), shown=None
            )  # `shown` is of moved votes of many queries
        return 2, self.worst_case(
            1
        ) if records == 1 else UNBOUNDED  # two counts change, each by less than a moved vote

    @property
    def bound(self) -> DataDependentBound | None:
        """The paper's data-dependent bound for the argmax with this noise; None: no paper has one."""
        return None

    def claimed(self, queries: int, delta: float) -> float | None:
        """Return the ε that the NZC papers claim for this noise with a boost; None: they claim
        none.
        """
        return None


@dataclass(frozen=True)
class ScaledNoise(Noise):
    """Noise of scale 1/γ votes, with a label that is (2γ, 0)-private."""

    gamma: float
    concentrated = True
    standard: ClassVar[StandardLaw]

    def __post_init__(self) -> None:
        positive("gamma", self.gamma)

    @property
    def exact(self) -> ExactNoise:
        return ExactNoise(self.standard, 1 / Fraction(float(self.gamma)))

    def worst_case(self, shift: float) -> WorstCaseCost:
        return pure_cost(2 * self.gamma * shift)


@dataclass(frozen=True)
class NoNoise(Noise):
    """Leave the counts as they are: the plurality itself. One vote can flip a label for certain, so
    no ε is finite.
    """

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        return np.zeros(shape)

    def log_law(self, scores: Floats) -> Floats:
        law = np.full(scores.shape, -np.inf)
        law[np.arange(len(scores)), scores.argmax(axis=1)] = 0.0
        return law


def require_total(noise: Noise, log_p: Floats, copies: Floats | None = None) -> None:
    """Raise InputError unless every law [..., outcomes] sums to one within 1e-9; an entry may stand
    for `copies`.
    """
    total = np.exp(logsumexp(log_p, axis=-1, b=copies))
    if log_p.size and not (off := np.abs(total - 1)).max() < 1e-9:
        wrong = float(total.flat[int(np.nan_to_num(off, nan=np.inf).argmax())])
        raise InputError(
            "noise",
            noise,
            f"must have a law that sums to one; at some votes it sums to {wrong:.6g}",
        )


def complete(log_p: Floats, copies: Floats | None = None) -> Floats:
    """Return the law [..., outcomes], each for `copies`, with −inf below DEEPEST and the likeliest
    as 1 − Σ others.
    """
    log_p = np.where(log_p < DEEPEST, -np.inf, log_p)
    top = log_p.argmax(axis=-1)[..., None]
    others = (1.0 if copies is None else copies) - (np.arange(log_p.shape[-1]) == top)
    rest = (np.exp(log_p) * others).sum(axis=-1, keepdims=True)
    likely = np.take_along_axis(log_p, top, axis=-1)
    np.put_along_axis(
        log_p, top, np.where(rest < 0.5, np.log1p(-np.minimum(rest, 0.5)), likely), axis=-1
    )
    return log_p
