"""Laplace noise: LNMax (PATE 2017) and NZC."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nzc._types import Floats, Ints
from nzc.aggregators.noise.noise import Noise
from nzc.errors import positive
from nzc.privacy import claims, independent, theorem


@dataclass(frozen=True)
class Laplace(Noise):
    """Lap(1/γ): density γ/2 e^(−γ|z|). One label of the plain argmax is (2γ, 0)-private (PATE 2017, Theorem 2)."""

    gamma: float

    def __post_init__(self) -> None:
        positive(gamma=self.gamma)

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        return rng.laplace(scale=1 / self.gamma, size=shape)

    def theorem(self, votes: Ints) -> Callable[[Floats], Floats]:
        log_q = theorem.log_flip_laplace(votes, self.gamma)
        return lambda orders: theorem.laplace_rdp(log_q, self.gamma, orders)

    def data_independent(self, releases: int, shift: float, delta: float) -> float:
        return independent.compose_pure(2 * self.gamma * shift, releases, delta)

    def claimed(self, queries: int, delta: float) -> float:
        return claims.nzc_laplace(queries, self.gamma, delta)
