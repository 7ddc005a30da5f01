"""No noise: plurality, the papers' "clean votes"."""

from dataclasses import dataclass

import numpy as np

from nzc._types import Floats
from nzc.aggregators.noise.noise import Noise
from nzc.privacy import independent


@dataclass(frozen=True)
class NoNoise(Noise):
    """The counts as they are: one vote can flip a label for certain, so no finite ε holds."""

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        return np.zeros(shape)

    def log_law(self, scores: Floats) -> Floats:
        law = np.full(scores.shape, -np.inf)
        law[np.arange(len(scores)), scores.argmax(axis=1)] = 0.0
        return law

    def release(self, shift: float) -> independent.Release:
        return independent.UNBOUNDED

    @property
    def bound(self) -> None:
        return None

    def claimed(self, queries: int, delta: float) -> None:
        return None
