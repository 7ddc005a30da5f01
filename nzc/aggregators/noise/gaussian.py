"""Gaussian noise: GNMax (Scalable PATE 2018) and NZC's second variant."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nzc._types import Floats, Ints
from nzc.aggregators.noise.noise import Noise
from nzc.errors import positive
from nzc.privacy import claims, independent, theorem


@dataclass(frozen=True)
class Gaussian(Noise):
    """N(0, σ²) on every count. σ is the standard deviation of a count's noise, not a noise multiplier:
    a moved vote shifts two counts, an l2 distance of √2, so one label costs α/σ² (Scalable PATE 2018, Proposition 8).
    """

    sigma: float

    def __post_init__(self) -> None:
        positive(sigma=self.sigma)

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        return rng.normal(scale=self.sigma, size=shape)

    def theorem(self, votes: Ints) -> Callable[[Floats], Floats]:
        log_q = theorem.log_flip_gaussian(votes, self.sigma)
        return lambda orders: theorem.gaussian_rdp(log_q, self.sigma, orders)

    def data_independent(self, releases: int, shift: float, delta: float) -> float:
        return independent.gaussian(np.sqrt(2 * releases) * shift / self.sigma, delta)

    def claimed(self, queries: int, delta: float) -> float:
        return claims.nzc_gaussian(queries, self.sigma, delta)
