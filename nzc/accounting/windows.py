"""Means of a function on a grid at shifted arguments, as matrix products in the calling thread."""

import numpy as np

from nzc.types import AnyArray, Floats

#: OpenBLAS computes products of at most so many multiplications in the calling thread. For small products more threads
#: only wait for each other.
_ONE_THREAD = 2**18


def shifted_means(weights: Floats, windows: Floats, rows: AnyArray | slice) -> Floats:
    """Return weights [laws, offsets] @ windows[rows] [offsets, points], block by block.

    windows  [shifts, points]  a view of the padded values: row k is shifted by k
    """
    points = windows.shape[1]
    width = max(2, _ONE_THREAD // weights.size)
    found = np.empty((len(weights), points))
    for at in range(0, points, width):
        block = np.ascontiguousarray(windows[rows, at : at + width])
        np.matmul(weights, block, out=found[:, at : at + width])
    return found
