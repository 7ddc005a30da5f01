"""Backward induction over the privacy loss: V on a grid, for adaptive queries.

V_T(ℓ) = (1 − e^−ℓ)₊, and V_(t−1)(ℓ) is the largest E_P V_t(ℓ + L) over the laws of query t, whose
privacy loss is L. Then δ(ε) ≤ V_0(−ε). Proof: docs/proofs.md, "The exact cost of one round", and
"Labels with Gaussian noise", step 2.

Between two points of the grid a chord in e^−ℓ is an upper bound. Below the grid V is at most V at
its lowest point, and above it at most 1.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from nzc.types import Floats, Ints


class Laws(NamedTuple):
    """Laws of the privacy losses of one query, on the grid."""

    offsets: Ints  # [offsets] the losses in steps of the grid, ascending
    weights: Floats  # [laws, offsets] their probabilities
    infinite: Floats  # [laws] probabilities of an infinite loss
    dense: bool = True  # whether the offsets are all from the first to the last

    def __repr__(self) -> str:
        return f"Laws of {len(self.offsets)} losses"  # they may follow from votes


#: A bit that decides whether there is a label: V after a label, and V without one, to V before it.
Bit = Callable[[Floats, Floats], Floats]
#: So many labels behind a bit are free; each further one multiplies V by a factor.
Limit = tuple[int, float]
NO_LIMIT: Limit = (0, 1.0)
ROUNDING = 1e-11  # relative error allowed for the rounding of probabilities
OF_DELTA = 1e-6  # and of δ
LARGEST = 300.0  # larger total losses count as infinite
#: OpenBLAS computes products of so many multiplications in the calling thread; others only wait.
ONE_THREAD = 2**18


def chord(loss: Floats, step: float) -> tuple[Ints, Floats]:
    """Return the grid point below each loss, and its share of the chord.

    The rest of the share is that of the point above.
    """
    cell = np.floor(loss / step)
    share = np.expm1(np.minimum(step, cell * step + step - loss)) / np.expm1(step)
    return cell.astype(np.int64), np.clip(share, 0, 1)


def tails(values: Floats) -> Floats:
    """Return the sum of the values from each one to the end of the last axis."""
    return values[..., ::-1].cumsum(axis=-1)[..., ::-1]


def after_all(grid: Floats) -> Floats:
    """Return V when no query is left: (1 − e^−ℓ)₊."""
    return -np.expm1(-np.maximum(grid, 0.0))


def extended(value: Floats, below: int, above: int) -> Floats:
    """Return bounds on V at so many more points below the grid and above it, too."""
    return np.concatenate([np.full(below, value[0]), value, np.ones(above)])


def induced(
    value: Floats,
    queries: int,
    laws: Sequence[Laws],
    bit: Bit | None = None,
    limit: Limit = NO_LIMIT,
) -> Floats:
    """Return V before so many queries, each the worst of all laws, and behind a bit."""
    answers, discount = limit
    ended = int(discount == 0)  # whether the last of the answers ends all
    by_answers_left = [value] * (answers + 1)
    for _ in range(queries):
        for left in range(answers, ended - 1, -1):
            value = by_answers_left[left]
            answered = by_answers_left[max(left - 1, 0)]
            if laws:
                answered = _earlier(answered, laws)
            if left == 0:
                answered = discount * answered
            if bit is not None:
                answered = np.minimum(bit(answered, value), 1.0)
            by_answers_left[left] = answered
    return by_answers_left[-1]


def _earlier(value: Floats, laws: Sequence[Laws]) -> Floats:
    """Return V_(t−1) from V_t, both [points]."""
    points = len(value)
    below = max(0, *(-law.offsets[0] for law in laws))
    above = max(0, *(law.offsets[-1] for law in laws))
    padded = extended(value, below, above + points)
    largest = np.zeros(points)
    for offsets, weights, infinite, dense in laws:
        first = below + offsets[0]
        last = below + offsets[-1]
        if dense and len(weights) == 1:  # a long law, whose windows would be slow to copy
            means = np.correlate(padded[first : last + points], weights[0])[None]
        else:
            width = max(2, min(points, ONE_THREAD // weights.size))
            blocks = -(-points // width)
            shape = last + 1, blocks * width
            windows = as_strided(padded, shape, 2 * padded.strides)
            used = slice(first, None) if dense else below + offsets  # a slice is faster to copy
            copied = np.ascontiguousarray(windows[used]).reshape(-1, blocks, width)
            means = weights @ copied.transpose(1, 0, 2)
        means += infinite[:, None]
        np.maximum(largest, means.max(axis=-2).ravel()[:points], out=largest)
    return np.minimum(largest, 1.0, out=largest)


def epsilon_of(value: Floats, grid: Floats, delta: float) -> float:
    """Return ε with V(−ε) ≤ δ; inf: it is not on the grid."""
    above = int(np.searchsorted(value, delta))
    if above == 0:
        return np.inf
    if above == len(grid):
        return 0.0
    share = (delta - value[above - 1]) / (value[above] - value[above - 1])
    u = 1 - share + share * np.exp(grid[above - 1] - grid[above])
    return max(0.0, float(np.log(u) - grid[above - 1]))
