"""No noise: plurality, the papers' "clean votes"."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nzc._types import Floats, Ints
from nzc.aggregators.noise.noise import Noise


@dataclass(frozen=True)
class NoNoise(Noise):
    """The counts as they are: one vote can flip a label for certain, so no finite ε holds."""

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        return np.zeros(shape)

    def theorem(self, votes: Ints) -> Callable[[Floats], Floats]:
        return lambda orders: np.full((len(votes), len(orders)), np.inf)

    def data_independent(self, releases: int, shift: float, delta: float) -> float:
        return np.inf if releases else 0.0

    def claimed(self, queries: int, delta: float) -> None:
        return None
