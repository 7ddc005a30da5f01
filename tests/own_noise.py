"""Noises of one's own, right and wrong, and bounds of their costs."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy import stats

from nzc.accounting.data_independent import WorstCaseCost, gaussian_cost, pure_cost
from nzc.accounting.exact_noise import GUMBEL, ExactNoise
from nzc.mechanisms import ContinuousNoise, Noise
from nzc.mechanisms.noise import GumbelNoise

UNIT = 20.0


@dataclass(frozen=True)
class Own(ContinuousNoise):
    """Noise of a law of SciPy's. `cost`, `drawn` and `guard` may be faults.

    They are of the bound, the sampler, and the logarithm.
    """

    law: stats.rv_continuous
    cost: object = None
    drawn: float = 1.0
    guard: float = 0.0
    unit = UNIT

    def sample(self, shape, rng):
        return self.drawn * UNIT * self.law.rvs(size=shape, random_state=rng)

    def log_density(self, x):
        with np.errstate(over="ignore"):
            return self.law.logpdf(x)

    def log_cdf(self, x):
        with np.errstate(divide="ignore", over="ignore"):
            if self.guard:
                return np.log(np.maximum(self.law.cdf(x), self.guard))
            return self.law.logcdf(x)

    def worst_case(self, shift):
        return super().worst_case(shift) if self.cost is None else self.cost(shift)


@dataclass(frozen=True)
class OwnGumbel(Noise):
    """A noise without a density: its law is a softmax. `quantiles` are of this share of it."""

    drawn: float = 1.0
    quantiles: float | None = None

    @property
    def exact(self):
        if self.quantiles is None:
            return None
        return ExactNoise(GUMBEL, Fraction(UNIT * self.quantiles))

    def sample(self, shape, rng):
        return self.drawn * UNIT * rng.gumbel(size=shape)

    def log_law(self, scores):
        return GumbelNoise(1 / UNIT).log_law(scores)


def pure(factor):
    return lambda shift: pure_cost(factor * 2 * shift / UNIT)


def gaussian(factor):
    return lambda shift: gaussian_cost(factor * np.sqrt(2) * shift / UNIT)


def renyi(factor):
    return lambda shift: WorstCaseCost(lambda orders: factor * orders * (shift / UNIT) ** 2)
