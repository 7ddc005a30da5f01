"""The exact ε of one round of queries, by composing privacy losses: an upper and a lower bound.

Proof: docs/proofs.md, "The exact cost of one round".
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.linalg.blas import daxpy

from nzc.accounting.exact import IMPOSSIBLE, Pairs, cores, error_of
from nzc.accounting.induction import (
    LARGEST,
    Laws,
    after_all,
    chord,
    epsilon_of,
    induced,
    tails,
)
from nzc.types import Floats, Ints

#: So many neighbours of a query are kept by each of two orders; one law dominates the others.
_KEPT = 12
#: Grid points per ε for 1,000 queries, and for any number at most.
_POINTS = 800.0
_MOST = 2000.0
_FINER = 3  # how much finer the grid of the lower bound is
_ONE_THREAD = 8192  # OpenBLAS adds so many numbers in the calling thread; others only wait
_ROUNDING = 1e-6  # relative error allowed for the rounding of all laws and sums


@dataclass(frozen=True, repr=False)
class _Neighbours:
    """The laws of all neighbours of one histogram, in one direction."""

    count: int  # how many queries share the histogram
    p: Floats  # [neighbours, outcomes] probabilities
    loss: Floats  # [neighbours, outcomes] privacy losses; inf where q = 0


def compose(
    laws: Iterable[tuple[Pairs, Ints]], delta: float, guess: float, order: float
) -> tuple[float, float]:
    """Return a lower and an upper bound on ε at δ.

    laws   of distinct histograms and their neighbours, and how many queries share each histogram,
           [histograms]
    guess  an ε of the same size, which sets the grid; inf: unknown
    order  the Rényi order at which the guess was found; it ranks neighbours
    """
    forth: list[_Neighbours] = []
    back: list[_Neighbours] = []
    for pairs, counts in laws:
        forth += _neighbours(pairs, pairs.here, pairs.there, counts)
        back += _neighbours(pairs, pairs.there, pairs.here, counts)
    if not forth:
        return 0.0, 0.0
    if not np.isfinite(guess):
        guess = 10.0
        order = 2.0
    bounds = partial(_one_direction, delta=delta, guess=guess, order=order)
    with ThreadPoolExecutor(min(2, cores())) as pool:
        lower, upper = zip(*pool.map(bounds, (forth, back)), strict=True)
    return max(lower), max(upper)


def _neighbours(pairs: Pairs, log_p: Floats, log_q: Floats, counts: Ints) -> Iterator[_Neighbours]:
    absent = (pairs.copies == 0) | (np.maximum(log_p, log_q) < IMPOSSIBLE)
    error_p = error_of(log_p)
    with np.errstate(invalid="ignore"):
        loss = np.where(absent, 0.0, log_p - log_q + error_p + error_of(log_q))
    p = np.where(absent, 0.0, np.exp(log_p + error_p) * pairs.copies)
    for query, count in enumerate(counts.tolist()):
        start, end = np.searchsorted(pairs.query, [query, query + 1])
        if end > start:
            yield _Neighbours(count, p[start:end], loss[start:end])


def _one_direction(
    laws: list[_Neighbours], delta: float, guess: float, order: float
) -> tuple[float, float]:
    """Return both bounds where P is at one side of all pairs, refining the grid."""
    log_finite = 0.0
    for law in laws:
        infinite = (law.p * np.isposinf(law.loss)).sum(axis=1).max()
        log_finite += law.count * np.log1p(-min(infinite, 1 - 1e-16))
    if -np.expm1(log_finite) >= delta:  # the loss is infinite with probability δ or more
        return np.inf, np.inf
    queries = sum(law.count for law in laws)
    points = min(_POINTS * (queries / 1000) ** (1 / 3), _MOST)
    low = 0.0
    high = np.inf
    while True:
        step = guess / points
        below = int(1.3 * guess / step) + 1
        above = int((0.6 * guess + min(0.5, 4 * guess)) / step) + 1
        grid = step * np.arange(-below, above + 1.0)
        upper = _upper(laws, delta * (1 - _ROUNDING), order, step, grid)
        cells = int(1.8 * points) * _FINER
        low = max(low, _lower(laws, delta * (1 + _ROUNDING), order, step / _FINER, cells))
        is_near = not 0 < upper < min(guess / 2, high)
        high = min(upper, high)
        if is_near:
            return low, high
        guess = upper


def _upper(laws: list[_Neighbours], delta: float, order: float, step: float, grid: Floats) -> float:
    """Return the upper bound, from V on a grid of losses."""
    value = after_all(grid)
    for law in laws:
        few = _few(_on_grid(law, step, min(len(grid), int(LARGEST / step))), step, order)
        value = induced(value, law.count, [few])
    return epsilon_of(value, grid, delta)


def _on_grid(law: _Neighbours, step: float, far: int) -> Laws:
    """Return the laws on a grid; losses from `far` steps on are infinite."""
    infinite = law.loss >= far * step
    p = np.where(infinite, 0.0, law.p)
    cell, share = chord(np.where(infinite, 0.0, np.maximum(law.loss, -far * step)), step)
    first = cell.min()
    width = cell.max() + 2 - first
    place = (np.arange(len(p))[:, None] * width + cell - first).ravel()
    weights = np.zeros(len(p) * width)
    weights += np.bincount(place, (p * share).ravel(), len(weights))
    weights += np.bincount(place + 1, (p * (1 - share)).ravel(), len(weights))
    offsets = first + np.arange(width)
    return Laws(offsets, weights.reshape(len(p), width), (law.p * infinite).sum(axis=1))


def _few(laws: Laws, step: float, order: float) -> Laws:
    """Return the laws of the worst neighbours, and one law that dominates all others as the last.

    Offsets without a weight are left out.
    """
    offsets, weights, infinite, _ = laws
    if len(weights) > 2 * _KEPT + 1:
        s = np.exp(offsets * step)
        tilt = np.exp(np.minimum(order * offsets * step, LARGEST))
        tilts = np.stack([tilt, np.maximum(1 - 1 / s, 0.0)])
        moments = weights @ tilts.T + infinite[:, None] * np.exp(LARGEST)
        kept = np.zeros(len(weights), dtype=bool)
        kept[np.argsort(-moments, axis=0)[:_KEPT]] = True
        rest = weights[~kept]
        largest = (rest / s).sum(axis=1).max()
        other = _dominating(_hockey_stick(rest, s).max(axis=0), largest, s)
        weights = np.vstack([weights[kept], other])
        infinite = np.append(infinite[kept], infinite[~kept].max())
    used = weights.any(axis=0)
    return Laws(offsets[used], weights.compress(used, axis=1), infinite, dense=False)


def _hockey_stick(weights: Floats, s: Floats) -> Floats:
    """Return H(s) = Σ (p − s q)₊ of laws on the grid, at its points.

    All terms are added, so nothing cancels.
    """
    slopes = tails(weights / s)
    curves = np.zeros_like(weights)
    curves[:, :-1] = tails(slopes[:, 1:] * np.diff(s))
    return curves


def _dominating(curve: Floats, total: float, s: Floats) -> Floats:
    """Return a law on the grid whose H is nowhere below `curve`, and whose q sum to `total`.

    They may sum to more. Every V is a mixture of functions (1 − s u)₊, u = e^−ℓ, so a law with a
    larger H at every s has a larger E_P V.
    """
    slopes = np.append(-np.diff(curve) / np.diff(s), 0.0)
    q = np.maximum(-np.diff(slopes, prepend=total), 0.0)
    reached = _hockey_stick((q * s)[None], s)[0]
    short = np.divide(curve, reached, out=np.ones_like(curve), where=reached > 0).max()
    return q * s * max(1.0, short)


def _lower(laws: list[_Neighbours], delta: float, order: float, step: float, cells: int) -> float:
    """Return the lower bound, for one neighbour of each query.

    It is the one of the largest Rényi divergence at `order`. Its losses are rounded to a grid.
    """
    mass = np.zeros((2, 2 * cells + 1))  # under P and under Q
    mass[:, cells] = 1.0
    infinite = 0.0
    for law in laws:
        moments = (law.p * np.exp(np.minimum((order - 1) * law.loss, LARGEST))).sum(axis=1)
        worst = moments.argmax()
        finite = (law.p[worst] > 0) & (law.loss[worst] < np.inf)
        p = law.p[worst][finite]
        loss = law.loss[worst][finite]
        infinite_p = law.p[worst][~finite].sum()
        # A p near the smallest float64 has few digits; its q is rounded up, which lowers δ.
        q = np.exp(np.log(p) - loss) * np.where(p < 1e-300, 1.01, 1.0)
        places = np.clip(np.rint(loss / step), -cells, cells)
        shifts, number = np.unique(places.astype(np.int64), return_inverse=True)
        weights = np.array([np.bincount(number, p), np.bincount(number, q)], dtype=np.float64)
        for _ in range(law.count):
            infinite += float(mass[0].sum() * infinite_p)
            mass = _shifted(mass, shifts, weights)
    if infinite >= delta:
        return np.inf
    # δ(ε) = Σ (p − e^ε q)₊ over the cells with p/q > e^ε: try each number of cells.
    p = mass[0]
    q = np.maximum(mass[1], 1e-300)  # a probability that underflows is rounded up
    worst_cells = np.argsort(-p / q)
    more = infinite + np.cumsum(p[worst_cells])
    with np.errstate(divide="ignore", invalid="ignore"):
        bounds = np.log(more - delta) - np.log(np.cumsum(q[worst_cells]))
    return float(np.nanmax(np.append(bounds, 0.0)))


def _shifted(mass: Floats, shifts: Ints, weights: Floats) -> Floats:
    """Return Σ weights[k] · mass moved up by shifts[k] cells, [2, cells].

    The outermost cells collect what leaves.
    """
    cells = mass.shape[1]
    below = max(0, -int(shifts[0]))
    above = max(0, int(shifts[-1]))
    total = np.zeros((2, below + cells + above))
    for side in range(2):
        for shift, weight in zip((shifts + below).tolist(), weights[side].tolist(), strict=True):
            for at in range(0, cells, _ONE_THREAD):  # total += weight * mass, without a copy
                n = min(_ONE_THREAD, cells - at)
                daxpy(mass[side], total[side], a=weight, n=n, offx=at, offy=shift + at)
    total[:, below] += total[:, :below].sum(axis=1)
    total[:, below + cells - 1] += total[:, below + cells :].sum(axis=1)
    return total[:, below : below + cells]
