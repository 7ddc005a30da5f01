"""The exact ε of one round of queries, by composing privacy losses: an upper and a lower bound.

Proof: docs/proofs.md, "The exact cost of one round".
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.linalg.blas import daxpy

from nzc.accounting.exact import IMPOSSIBLE, Pairs, cores, error_of
from nzc.accounting.induction import LARGEST, after_all, chord, induced
from nzc.types import Floats, Ints

_KEPT = 12  # so many neighbours of a query are kept by each of two orders; `_dominating` stands for the others
_POINTS, _MOST = 800.0, 2000.0  # grid points per ε for 1,000 queries, and for any number at most
_FINER = 3  # how much finer the grid of the lower bound is
_ONE_THREAD = 8192  # OpenBLAS adds so many numbers in the calling thread; others only wait
_ROUNDING = 1e-6  # relative error allowed for the rounding of all laws and sums


@dataclass(frozen=True, repr=False)
class Neighbours:
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
    forth: list[Neighbours] = []
    back: list[Neighbours] = []
    for pairs, counts in laws:
        forth += _neighbours(pairs, pairs.here, pairs.there, counts)
        back += _neighbours(pairs, pairs.there, pairs.here, counts)
    if not forth:
        return 0.0, 0.0
    with ThreadPoolExecutor(min(2, cores())) as pool:
        bounds = list(
            pool.map(lambda laws: _one_direction(laws, delta, guess, order), (forth, back))
        )
    return max(low for low, _ in bounds), max(high for _, high in bounds)


def _neighbours(pairs: Pairs, log_p: Floats, log_q: Floats, counts: Ints) -> Iterator[Neighbours]:
    absent, error_p = (pairs.copies == 0) | (np.maximum(log_p, log_q) < IMPOSSIBLE), error_of(log_p)
    with np.errstate(invalid="ignore"):
        loss = np.where(absent, 0.0, log_p - log_q + error_p + error_of(log_q))
    p = np.where(absent, 0.0, np.exp(log_p + error_p) * pairs.copies)
    edges = np.searchsorted(pairs.query, np.arange(len(counts) + 1))
    for count, (start, end) in zip(counts.tolist(), pairwise(edges), strict=True):
        if end > start:
            yield Neighbours(count, p[start:end], loss[start:end])


def _one_direction(
    laws: list[Neighbours], delta: float, guess: float, order: float
) -> tuple[float, float]:
    certain = [(law.count, (law.p * np.isposinf(law.loss)).sum(axis=1).max()) for law in laws]
    if -np.expm1(sum(count * np.log1p(-min(p, 1 - 1e-16)) for count, p in certain)) >= delta:
        return np.inf, np.inf  # the loss is infinite with probability δ or more
    guess, order = (guess, order) if np.isfinite(guess) else (10.0, 2.0)
    queries = sum(law.count for law in laws)
    points = min(_POINTS * (queries / 1000) ** (1 / 3), _MOST)
    low, high = 0.0, np.inf
    while True:
        step = guess / points
        ends = -int(1.3 * guess / step) - 1, int((0.6 * guess + min(0.5, 4 * guess)) / step) + 1
        upper = _upper(laws, delta * (1 - _ROUNDING), order, step, ends)
        low = max(
            low,
            _lower(laws, delta * (1 + _ROUNDING), order, step / _FINER, int(1.8 * points) * _FINER),
        )
        high, before = min(upper, high), high
        if not 0 < upper < min(guess / 2, before):
            return low, high
        guess = upper


def _upper(
    laws: list[Neighbours], delta: float, order: float, step: float, ends: tuple[int, int]
) -> float:
    """Return the upper bound, from V on a grid of losses between the two ends, in steps."""
    grid: Floats = step * np.arange(ends[0], ends[1] + 1.0)
    value = after_all(grid)
    for law in laws:
        offsets, weights, infinite = _few(
            *_kernel(law, step, min(len(grid), int(LARGEST / step))), step, order
        )
        used = np.flatnonzero(weights.any(axis=0))
        offsets, weights = offsets[used], np.ascontiguousarray(weights[:, used])
        value = induced(
            value, law.count, [(int(offsets[0]), offsets - offsets[0], weights, infinite)]
        )
    at = int(np.searchsorted(value, delta))
    if at in (0, len(grid)):
        return 0.0 if at else np.inf
    share = (delta - value[at - 1]) / (value[at] - value[at - 1])
    return max(0.0, float(np.log(1 - share + share * np.exp(-step)) - grid[at - 1]))


def _kernel(law: Neighbours, step: float, far: int) -> tuple[Ints, Floats, Floats]:
    """Return the laws on the grid: offsets, weights, and those of infinite losses [neighbours]."""
    infinite = law.loss >= far * step
    p = np.where(infinite, 0.0, law.p)
    cell, share = chord(np.where(infinite, 0.0, np.maximum(law.loss, -far * step)), step)
    first = int(cell.min())
    width = int(cell.max()) + 2 - first
    at = (np.arange(len(p))[:, None] * width + cell - first).ravel()
    weights = np.zeros(len(p) * width)
    weights += np.bincount(at, (p * share).ravel(), len(weights))
    weights += np.bincount(at + 1, (p * (1 - share)).ravel(), len(weights))
    return first + np.arange(width), weights.reshape(len(p), width), (law.p * infinite).sum(axis=1)


def _few(
    offsets: Ints, weights: Floats, infinite: Floats, step: float, order: float
) -> tuple[Ints, Floats, Floats]:
    """Return the laws of the worst neighbours, and one law that dominates all others as the last."""
    if len(weights) <= 2 * _KEPT + 1:
        return offsets, weights, infinite
    x = np.exp(offsets * step)
    tilts = np.stack(
        [np.exp(np.minimum(order * offsets * step, LARGEST)), np.maximum(1 - 1 / x, 0.0)]
    )
    moments = weights @ tilts.T + infinite[:, None] * np.exp(LARGEST)
    kept = np.zeros(len(weights), dtype=bool)
    kept[np.argsort(-moments, axis=0)[:_KEPT]] = True
    rest = ~kept
    other = _dominating(
        _hockey_stick(weights[rest], x).max(axis=0), (weights[rest] / x).sum(axis=1).max(), x
    )
    return (
        offsets,
        np.vstack([weights[kept], other]),
        np.append(infinite[kept], infinite[rest].max()),
    )


def _hockey_stick(weights: Floats, x: Floats) -> Floats:
    """Return H(x) = Σ (p − x q)₊ of laws on the grid, at its points. All terms are added, so
    nothing cancels.
    """
    slopes, curves = np.cumsum((weights / x)[:, ::-1], axis=1)[:, ::-1], np.zeros_like(weights)
    curves[:, :-1] = np.cumsum((slopes[:, 1:] * (x[1:] - x[:-1]))[:, ::-1], axis=1)[:, ::-1]
    return curves


def _dominating(curve: Floats, total: float, x: Floats) -> Floats:
    """Return a law on the grid whose H is nowhere below `curve`, and whose q sum to `total` or
    more.
    """
    # Every V is a mixture of functions (1 − x u)₊, so a law with a larger H at every x has a larger
    # E_P V.
    slopes = np.append((curve[:-1] - curve[1:]) / np.diff(x), 0.0)
    q = np.maximum(np.append(total, slopes[:-1]) - slopes, 0.0)
    reached = _hockey_stick((q * x)[None], x)[0]
    short = np.divide(curve, reached, out=np.ones_like(curve), where=reached > 0).max()
    return np.asarray(q * x * max(1.0, short))


def _lower(laws: list[Neighbours], delta: float, order: float, step: float, cells: int) -> float:
    """Return the lower bound for one neighbour of each query, the one of the largest Rényi
    divergence at `order`.
    """
    mass, infinite = np.zeros((2, 2 * cells + 1)), 0.0  # under P and under Q
    mass[:, cells] = 1.0
    for law in laws:
        moments = (law.p * np.exp(np.minimum((order - 1) * law.loss, LARGEST))).sum(axis=1)
        own_p, loss = law.p[moments.argmax()], law.loss[moments.argmax()]
        finite = (own_p > 0) & (loss < np.inf)
        shifts, at = np.unique(
            np.clip(np.rint(loss[finite] / step), -cells, cells), return_inverse=True
        )
        # A p near the smallest float64 has few digits; its q is rounded up, which lowers δ.
        own_q = np.exp(np.log(own_p[finite]) - loss[finite]) * np.where(
            own_p[finite] < 1e-300, 1.01, 1.0
        )
        own = np.stack([np.bincount(at, weights) for weights in (own_p[finite], own_q)]).astype(
            np.float64
        )
        for _ in range(law.count):
            infinite += float(mass[0].sum() * own_p[~finite].sum())
            mass = _shifted(mass, shifts.astype(np.int64), own)
    p, q = mass[0], np.maximum(mass[1], 1e-300)  # a probability that underflows is rounded up
    worst = np.argsort(-p / q)
    # δ(ε) = Σ (p − e^ε q)₊ over the cells with p/q > e^ε: try each number of cells.
    more, less = infinite + np.cumsum(p[worst]), np.cumsum(q[worst])
    if infinite >= delta:
        return np.inf
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.nanmax(np.append(np.log(more - delta) - np.log(less), 0.0)))


def _shifted(mass: Floats, shifts: Ints, own: Floats) -> Floats:
    """Return Σ own[k] · mass moved up by shifts[k] cells, [2, cells]; the outermost cells collect
    what leaves.
    """
    cells, below, above = mass.shape[1], max(0, -int(shifts[0])), max(0, int(shifts[-1]))
    total = np.zeros((2, below + cells + above))
    for masses, weights, sums in zip(mass, own.tolist(), total, strict=True):
        for shift, weight in zip((shifts + below).tolist(), weights, strict=True):
            for at in range(
                0, cells, _ONE_THREAD
            ):  # sums[shift + at] += weight * masses[at], without a copy
                daxpy(
                    masses, sums, a=weight, n=min(_ONE_THREAD, cells - at), offx=at, offy=shift + at
                )
    total[:, below] += total[:, :below].sum(axis=1)
    total[:, below + cells - 1] += total[:, below + cells :].sum(axis=1)
    return total[:, below : below + cells]
