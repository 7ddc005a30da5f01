"""No noise: the plurality itself."""

from dataclasses import dataclass

import numpy as np

from nzc.mechanisms.noise.base import Noise
from nzc.types import Floats


@dataclass(frozen=True)
class NoNoise(Noise):
    """Leave the counts as they are. One vote can flip a label for certain, so no finite ε holds."""

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        return np.zeros(shape)

    def log_law(self, scores: Floats) -> Floats:
        law = np.full(scores.shape, -np.inf)
        law[np.arange(len(scores)), scores.argmax(axis=1)] = 0.0
        return law
