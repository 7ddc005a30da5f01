"""Few curves H that together dominate many (see `gaussian_argmax`)."""

import numpy as np

from nzc.accounting.composition import ONE_THREAD
from nzc.types import Floats

SLACK = 0.002  # a group may have this much larger moments than the worst curve


def merged(curves: Floats, s: Floats, orders: Floats) -> Floats:
    """Return curves that together dominate all: first neighbours join, then each the group that then grows least."""
    slopes = np.diff(s ** (orders[:, None] + 1), axis=1) / np.diff(s)
    moments = (np.pad(slopes, ((0, 0), (0, 1))) - np.pad(slopes, ((0, 0), (1, 0)))).T

    def of(curves: Floats) -> Floats:  # in blocks, as larger products wait for other threads
        rows = ONE_THREAD // moments.size
        blocks = (curves[at : at + rows] @ moments for at in range(0, len(curves), rows))
        return np.concatenate([np.zeros((0, len(orders))), *blocks])

    moments /= of(curves).max(axis=0)
    for first in (0, 1) * 6:
        joined = np.maximum(curves[first:-1:2], curves[first + 1 :: 2])
        fine = of(joined).max(axis=1) <= 1 + SLACK / 2
        kept = np.ones(len(curves), dtype=bool)
        kept[first + 1 :: 2] = ~fine
        curves = curves.copy()
        curves[first:-1:2][fine] = joined[fine]
        curves = curves[kept]
    groups, sizes = np.zeros((0, len(s))), np.zeros((0, len(orders)))
    for curve in curves[np.argsort(-of(curves).max(axis=1))]:
        joined = np.maximum(groups, curve)
        grown = of(joined)
        growth = np.where(grown.max(axis=1) <= 1 + SLACK, (grown - sizes).sum(axis=1), np.inf)
        if growth.min(initial=np.inf) < np.inf:
            at = growth.argmin()
            groups[at], sizes[at] = joined[at], grown[at]
        else:
            groups, sizes = np.vstack([groups, curve]), np.vstack([sizes, of(curve[None])])
    return groups
