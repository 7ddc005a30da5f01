"""ε of a run of the sparse vector technique (`mechanisms.sparse_vector`), by induction over reports
left and loss.

Proof: docs/proofs.md, "Reports of the sparse vector technique".
"""

from functools import lru_cache

import numpy as np

from nzc.accounting.induction import LARGEST, OF_DELTA, after_all, epsilon_of
from nzc.types import Floats

#: Grid points per 1/b, for so many reports at most; more reports get another bound, and so do
#: larger and smaller 1/b.
_POINTS, _LARGEST, _SMALLEST = {30: 64, 300: 32, 2_000: 16}, 2.0, 1e-7
#: Gains below this are rounding. So many rounds of choices are tried.
_GAIN, _ROUNDS = 1e-13, 50


@lru_cache(maxsize=256)
def epsilon(reports: int, inverse_scale: float, delta: float, known: float) -> float:
    """Return an upper bound on ε at δ of so many reports; inf where none is found. `known` is an
    upper bound.
    """
    h = inverse_scale
    if not (_SMALLEST <= h <= _LARGEST and 0 < known <= LARGEST and reports <= max(_POINTS)):
        return np.inf
    m = next(points for most, points in _POINTS.items() if reports <= most)
    left = delta * (1 - OF_DELTA) - reports * (m + 2) * np.exp(h) * 2 * _GAIN
    grid = h / m * np.arange(-int((1.3 * known / h + 4) * m), int((0.6 * known / h + 6) * m) + 1.0)
    value = after_all(grid)
    choice = np.where(grid < 0, 1, 2)
    for _ in range(reports if left > delta / 2 else 0):
        value = _before(value, choice, grid, h, m)
        if value[-1] == np.inf:
            return np.inf
    return epsilon_of(value, grid, left) if left > delta / 2 else np.inf


def _before(after: Floats, choice: Floats, grid: Floats, h: float, m: int) -> Floats:
    """Return V_k from V_(k−1), improving `choice` in place: 0 stay, 1 r = e^−h, 2 r = e^h. inf: not
    solved.
    """
    from scipy.linalg import solve_banded  # takes a tenth of a second to import

    n, s = len(grid), h / m
    tail = 1 - (1 - after[-1]) * np.exp(-s * np.arange(1, m + 1))
    targets = np.stack(
        [after, np.append(np.full(m, after[0]), after[:-m]), np.append(after[m:], tail)]
    )
    weight = np.ones((3, n)) * [[0.0], [-np.expm1(-s) / np.expm1(h)], [np.expm1(s) / -np.expm1(-h)]]
    weight[1, -1] = 1 / np.expm1(h)
    at = np.arange(n)
    for _ in range(_ROUNDS):
        own, bands = weight[choice, at], np.zeros((3, n))
        bands[1] = 1 + own
        bands[0, 1:][choice[:-1] == 1], bands[2, :-1][choice[1:] == 2] = -1, -1
        right = np.where(choice == 0, after, own * targets[choice, at])
        right[-1] += choice[-1] == 1  # its neighbour is u = 0
        if choice[0] == 2:
            bands[1, 0], right[0] = 1, targets[2, 0]
        value = solve_banded((1, 1), bands, right)
        low = (np.append(value[1:], 1.0) + weight[1] * targets[1]) / (1 + weight[1])
        high = (np.append(targets[2, 0], value[:-1]) + weight[2] * targets[2]) / (1 + weight[2])
        best = np.stack([after, low, high])
        better = best.max(axis=0) > value + _GAIN
        if not better.any():
            break
        choice[better] = best.argmax(axis=0)[better]
    u = np.exp(-grid)
    chord = value[:-2] + (value[2:] - value[:-2]) * np.diff(u)[:-1] / (u[2:] - u[:-2])
    return (
        value if not better.any() and (value[1:-1] <= chord + _GAIN).all() else np.full(n, np.inf)
    )
