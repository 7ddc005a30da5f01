"""The interface of a noise law."""

from abc import ABC, abstractmethod

import numpy as np

from nzc._types import Floats
from nzc.privacy.independent import Release
from nzc.privacy.theorem import Bound

#: Log-probabilities below this are −inf. Far below exact.IMPOSSIBLE: what is possible at one histogram and not quite at
#: its neighbour has a finite ratio.
DEEPEST = -1000.0


class Noise(ABC):
    """Independent noise for every count, at sensitivity 1."""

    @abstractmethod
    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """Draws of the noise."""

    @abstractmethod
    def log_law(self, scores: Floats) -> Floats:
        """log Pr[argmax(scores + noise) = j], [queries, classes], at scores [queries, classes].

        Each is within `nzc.privacy.exact.error_of` of the true one; those below e^-700 may be −inf.
        """

    @abstractmethod
    def release(self, shift: float) -> Release:
        """What one label costs for any votes, where one moved vote shifts a count by at most `shift`."""

    @property
    @abstractmethod
    def bound(self) -> Bound | None:
        """The paper's data-dependent bound for the noisy argmax with this noise; None: no paper has one."""

    @abstractmethod
    def claimed(self, queries: int, delta: float) -> float | None:
        """The ε that the NZC papers claim for this noise under a boost."""


def complete(log_p: Floats, copies: Floats | None = None) -> Floats:
    """The same law, [..., outcomes], with what is below DEEPEST at −inf and a likely outcome found from all the others.

    1 − Σ others keeps log p of a likely outcome as precise, relatively, as the unlikely ones. `copies`: how many
    outcomes share each entry.
    """
    log_p = np.where(log_p < DEEPEST, -np.inf, log_p)
    top = log_p.argmax(axis=-1)[..., None]
    copies = np.ones_like(log_p) if copies is None else copies.copy()
    np.put_along_axis(copies, top, np.take_along_axis(copies, top, axis=-1) - 1, axis=-1)
    others = np.exp(log_p) * copies
    rest = others.sum(axis=-1, keepdims=True)
    likely = np.take_along_axis(log_p, top, axis=-1)
    found = np.where(rest < 0.5, np.log1p(-np.minimum(rest, 0.5)), likely)
    np.put_along_axis(log_p, top, found, axis=-1)
    return log_p
