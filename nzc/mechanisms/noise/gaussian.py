"""Gaussian noise: GNMax (Scalable PATE 2018) and NZC's second variant."""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.random import Generator
from scipy.special import log_ndtr

from nzc.accounting.data_dependent import DataDependentBound, gaussian_bound
from nzc.accounting.data_independent import WorstCaseCost, gaussian_cost
from nzc.accounting.exact_noise import NORMAL, ExactNoise
from nzc.accounting.kinds import Hint, Kind
from nzc.mechanisms.noise.continuous import ContinuousNoise
from nzc.types import Floats, FloatsPair, Shape
from nzc.validation import keep, positive

__all__ = ["GaussianNoise"]


@dataclass(frozen=True)
class GaussianNoise(ContinuousNoise):
    """N(0, σ²) on every count, σ in votes.

    A moved vote shifts two counts, √2 in the l2 norm, so a label costs α/σ².
    """

    sigma: float
    l1_bounded = True
    #: Φ(−x/√2) is e^-700 at x = 53, and a moved vote brings a class up to 8 nearer
    #: (`integration.MAX_STEP`).
    reach = 62.0

    def __post_init__(self) -> None:
        keep(self, sigma=positive)

    @property
    def unit(self) -> float:
        return self.sigma

    def sample(self, shape: Shape, rng: Generator) -> Floats:
        return rng.normal(scale=self.sigma, size=shape)

    @property
    def exact(self) -> ExactNoise:
        return ExactNoise(NORMAL, Fraction(self.sigma))

    def log_density(self, x: Floats) -> Floats:
        return -0.5 * x * x - 0.5 * np.log(2 * np.pi)

    def log_cdf(self, x: Floats) -> Floats:
        return log_ndtr(x)

    def nodes(self, leads: Floats, copies: Floats, step: Floats) -> FloatsPair:
        """Return the nodes of the trapezoid rule, with a relative error below 4e-15.

        The error is at most 2 e^(−2π²/(K h²)) + 2 Φ(−8.3). The integrand g is entire with
        |g(t + iy)| ≤ e^(K y²/2) g(t), since |φ(t + iy)| = e^(y²/2) φ(t) and |Φ(t + iy)| ≤ e^(y²/2)
        Φ(t). This bounds its Fourier transform at 2π/h. −log g has curvature at least 1, and its
        mode lies between half the way to the largest count and √(2 ln K) beyond it, which bounds
        what is cut off.
        """
        classes = copies.sum(axis=1).max()
        h = np.sqrt(2 * np.pi**2 / (classes * np.log(2e15)))
        first = np.where(leads > -self.reach, leads, 0.0).min(axis=1) / 2 - 8.3 - step
        last = np.sqrt(2 * np.log(classes)) + 8.3 + step
        count = int(np.ceil((last - first).max() / h)) + 1
        return first[:, None] + h * np.arange(count), np.full((len(leads), count), np.log(h))

    def worst_case(self, shift: float) -> WorstCaseCost:
        cost = gaussian_cost(np.sqrt(2) * shift / self.sigma)
        if shift != 1:
            return cost
        return replace(cost, hint=Hint(Kind.LABEL, cost.mu))

    @property
    def bound(self) -> DataDependentBound:
        return gaussian_bound(self.sigma)

    def claimed(self, queries: int, delta: float) -> float:
        """Return T/σ² + 2 √(T ln(1/δ))/σ: Scalable PATE 2018's Rényi cost at its best order."""
        by_order = 2 * np.sqrt(queries * np.log(1 / delta)) / self.sigma
        return float(queries / self.sigma**2 + by_order)
