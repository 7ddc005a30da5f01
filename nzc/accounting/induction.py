"""Backward induction over the privacy loss: V on a grid, for adaptive queries of which a few laws dominate each.

`gaussian_argmax` says what V is (step 2). Between two points of the grid a chord in e^−ℓ is an upper bound; below the
grid V is at most V at its lowest point, and above it at most 1. A law is given by its losses on the grid.
"""

from collections.abc import Callable, Sequence

import numpy as np

from nzc.accounting.composition import earlier
from nzc.types import Floats

#: Laws: their reach; probabilities of losses −reach … reach grid points [laws, 2 reach + 1]; of infinite losses [laws].
Band = tuple[int, Floats, Floats]
#: A bit that decides whether there is a label: V after a label, and V without one, to V before the bit.
Bit = Callable[[Floats, Floats], Floats]
#: Relative error allowed for the rounding of probabilities, and of δ.
ROUNDING, ROUNDING_OF_DELTA = 1e-11, 1e-6


def after_all(grid: Floats) -> Floats:
    """Return V when no query is left: (1 − e^−ℓ)₊."""
    return np.asarray(-np.expm1(-np.maximum(grid, 0.0)))


def induced(value: Floats, queries: int, bands: Sequence[Band], bit: Bit | None = None) -> Floats:
    """Return V before so many queries, each the worst of all laws, and behind a bit."""
    groups = [(-reach, slice(None), p, infinite) for reach, p, infinite in bands]
    for _ in range(queries):
        largest = earlier(value, groups) if groups else value
        value = largest if bit is None else np.minimum(bit(largest, value), 1.0)
    return value


def epsilon_of(value: Floats, grid: Floats, delta: float) -> float:
    """Return ε with V(−ε) ≤ δ; inf: it is not on the grid."""
    at = int(np.searchsorted(value, delta))
    if at in (0, len(grid)):
        return np.inf
    share = (delta - value[at - 1]) / (value[at] - value[at - 1])
    return max(0.0, float(np.log((1 - share) * np.exp(-grid[at - 1]) + share * np.exp(-grid[at]))) * (1 + 1e-9))


def laws(curves: Floats, s: Floats) -> tuple[Floats, Floats]:
    """Return probabilities [laws, points] and those of infinite losses [laws] of curves H(s) − (1 − s)₊ on the grid.

    H = `infinite` + Σ q (s_j − s)₊ has these slopes; the first one leads to H(0) ≥ 1.
    """
    infinite = curves[:, -1]
    slopes = -np.diff(curves, axis=1) / np.diff(s) + (s[:-1] < 1)
    slopes = np.column_stack([1 - (curves[:, 0] - infinite) / s[0], slopes, np.zeros(len(curves))])
    p = np.maximum(slopes[:, :-1] - slopes[:, 1:], 0.0) * s * (1 + ROUNDING)
    p[p < 1e-18] = 0.0
    return p, infinite + 1e-15  # at most 1,000 offsets of 1e-18 each
