"""ε of a run of the sparse vector technique, by induction over the reports left and the loss.

Proof: docs/proofs.md, "Reports of the sparse vector technique" (`mechanisms.sparse_vector`).
"""

from functools import lru_cache

import numpy as np

from nzc.accounting.induction import LARGEST, OF_DELTA, after_all, epsilon_of
from nzc.types import Floats

#: Grid points per 1/b, for so many reports at most; more reports get another bound.
_POINTS = {30: 64, 300: 32, 2_000: 16}
#: Smaller and larger 1/b get another bound.
_SMALLEST = 1e-7
_LARGEST = 2.0
_GAIN = 1e-13  # gains below this are rounding
_ROUNDS = 50  # so many rounds of choices are tried


@lru_cache(maxsize=256)
def epsilon(reports: int, inverse_scale: float, delta: float, known: float) -> float:
    """Return an upper bound on ε at δ of so many reports; inf where none is found.

    `known` is another upper bound.
    """
    h = inverse_scale
    if not (_SMALLEST <= h <= _LARGEST and 0 < known <= LARGEST and reports <= max(_POINTS)):
        return np.inf
    m = next(points for most, points in _POINTS.items() if reports <= most)
    left = delta * (1 - OF_DELTA) - reports * (m + 2) * np.exp(h) * 2 * _GAIN
    if left <= delta / 2:
        return np.inf
    below = int((1.3 * known / h + 4) * m)
    above = int((0.6 * known / h + 6) * m)
    grid = h / m * np.arange(-below, above + 1.0)
    value = after_all(grid)
    choice = np.where(grid < 0, 1, 2)
    for _ in range(reports):
        before = _before(value, choice, grid, h, m)
        if before is None:
            return np.inf
        value = before
    return epsilon_of(value, grid, left)


def _before(after: Floats, choice: Floats, grid: Floats, h: float, m: int) -> Floats | None:
    """Return V_k from V_(k−1), improving `choice` in place; None: not solved (step 3).

    A choice is 0: V_(k−1), 1: r = e^−h, or 2: r = e^h.
    """
    s = h / m
    tail = 1 - (1 - after[-1]) * np.exp(-s * np.arange(1, m + 1))
    lower = np.append(np.full(m, after[0]), after[:-m])
    targets = np.stack([after, lower, np.append(after[m:], tail)])
    rates = [0.0, -np.expm1(-s) / np.expm1(h), np.expm1(s) / -np.expm1(-h)]
    weights = np.tile(rates, (len(grid), 1)).T
    weights[1, -1] = 1 / np.expm1(h)
    for _ in range(_ROUNDS):
        value = _solved(choice, weights, targets)
        neighbours = np.stack([np.append(value[1:], 1.0), np.append(targets[2, 0], value[:-1])])
        moves = (neighbours + weights[1:] * targets[1:]) / (1 + weights[1:])
        options = np.vstack([after, moves])
        better = options.max(axis=0) > value + _GAIN
        if not better.any():
            u = np.exp(-grid)
            chord = value[:-2] + (value[2:] - value[:-2]) * np.diff(u)[:-1] / (u[2:] - u[:-2])
            return value if (value[1:-1] <= chord + _GAIN).all() else None
        choice[better] = options.argmax(axis=0)[better]
    return None


def _solved(choice: Floats, weights: Floats, targets: Floats) -> Floats:
    """Return the V_k of one choice at each point: linear equations of neighbours."""
    from scipy.linalg import solve_banded  # takes a tenth of a second to import

    points = np.arange(len(choice))
    weight = weights[choice, points]
    target = targets[choice, points]
    bands = np.zeros((3, len(choice)))
    bands[0, 1:][choice[:-1] == 1] = -1
    bands[1] = 1 + weight
    bands[2, :-1][choice[1:] == 2] = -1
    right = np.where(choice == 0, target, weight * target)
    right[-1] += choice[-1] == 1  # its neighbour is u = 0
    if choice[0] == 2:
        bands[1, 0] = 1
        right[0] = target[0]
    return np.asarray(solve_banded((1, 1), bands, right))
