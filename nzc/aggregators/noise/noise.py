"""The interface of a noise law."""

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from nzc._types import Floats, Ints


class Noise(ABC):
    """Independent noise for every count, at sensitivity 1."""

    @abstractmethod
    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """Draws of the noise."""

    @abstractmethod
    def theorem(self, votes: Ints) -> Callable[[Floats], Floats]:
        """The paper's data-dependent Rényi cost of the plain noisy argmax: orders → [queries, orders]."""

    @abstractmethod
    def data_independent(self, releases: int, shift: float, delta: float) -> float:
        """ε of `releases` labels for any votes, where one moved vote shifts a count by at most `shift`."""

    @abstractmethod
    def claimed(self, queries: int, delta: float) -> float | None:
        """The ε that the NZC papers claim for this noise under a boost."""
