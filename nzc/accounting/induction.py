"""Backward induction over the privacy loss: V on a grid, for adaptive queries of which a few laws
dominate each.

`gaussian_argmax` says what V is (step 2). Between two points of the grid a chord in e^−ℓ is an
upper bound; below the grid V is at most V at its lowest point, and above it at most 1. A law is
given by its losses on the grid.
"""

from collections.abc import Callable, Sequence

import numpy as np

from nzc.types import Bools, Floats, Ints

#: Laws: the offset of the first loss, in grid points; which offsets from there on have a weight;
#: the weights [laws, offsets]; and those of infinite losses [laws].
Band = tuple[int, Ints | slice, Floats, Floats]
#: A bit that decides whether there is a label: V after a label, and V without one, to V before the
#: bit.
Bit = Callable[[Floats, Floats], Floats]
#: Relative error allowed for the rounding of probabilities, and of δ.
ROUNDING, OF_DELTA = 1e-11, 1e-6
LARGEST = 300.0  # larger total losses count as infinite
_ONE_THREAD = (
    2**18
)  # OpenBLAS computes products of so many multiplications in the calling thread; others only wait
#: Laws are grouped by their moments E (p/q)^(β/μ). For Q queries, β up to 15/√Q or 0.4 matter.
_BETAS = np.array(
    [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6]
)
_SLACK = 0.002  # a group of `merged` may have this much larger moments than the worst curve


def chord(loss: Floats, step: float, lowest: float = -np.inf) -> tuple[Ints, Floats]:
    """Return the grid point below each loss, from `lowest` on, and its share; the rest is that of
    the point above.
    """
    cell = np.maximum(np.floor(loss / step), lowest)
    return cell.astype(np.int64), np.clip(
        np.expm1(np.minimum(step, cell * step + step - loss)) / np.expm1(step), 0, 1
    )


def after_all(grid: Floats) -> Floats:
    """Return V when no query is left: (1 − e^−ℓ)₊."""
    return np.asarray(-np.expm1(-np.maximum(grid, 0.0)))


def induced(value: Floats, queries: int, bands: Sequence[Band], bit: Bit | None = None) -> Floats:
    """Return V before so many queries, each the worst of all laws, and behind a bit."""
    for _ in range(queries):
        largest = _earlier(value, bands) if bands else value
        value = largest if bit is None else np.minimum(bit(largest, value), 1.0)
    return value


def _earlier(value: Floats, bands: Sequence[Band]) -> Floats:
    """Return V_(t−1) from V_t, both [points]."""
    points = len(value)
    widths = [max(2, min(points, _ONE_THREAD // weights.size)) for *_, weights, _ in bands]
    spans = [
        weights.shape[1] if isinstance(used, slice) else int(used[-1]) + 1
        for _, used, weights, _ in bands
    ]
    below = max(0, max(-start for start, *_ in bands))
    above = max(start + span for (start, *_), span in zip(bands, spans, strict=True))
    padded = np.ones(below + points + max(above, 0) + max(widths))
    padded[:below], padded[below : below + points] = value[0], value
    largest, item = np.zeros(points), padded.itemsize
    for (start, used, weights, infinite), width, span in zip(bands, widths, spans, strict=True):
        first, blocks = below + start, -(-points // width)
        if len(weights) == 1 and isinstance(
            used, slice
        ):  # a long law, whose windows would be slow to copy
            means = np.correlate(padded[first : first + points + span - 1], weights[0])[None]
        else:
            windows = np.lib.stride_tricks.as_strided(
                padded[first:], (span, blocks * width), (item, item)
            )
            copied = np.ascontiguousarray(windows[used]).reshape(-1, blocks, width)
            means = weights @ copied.transpose(1, 0, 2)
        means += infinite[:, None]
        np.maximum(largest, means.max(axis=-2).ravel()[:points], out=largest)
    return np.minimum(largest, 1.0, out=largest)


def epsilon_of(value: Floats, grid: Floats, delta: float) -> float:
    """Return ε with V(−ε) ≤ δ; inf: it is not on the grid."""
    at = int(np.searchsorted(value, delta))
    if at in (0, len(grid)):
        return np.inf
    share = (delta - value[at - 1]) / (value[at] - value[at - 1])
    return max(
        0.0,
        float(np.log((1 - share) * np.exp(-grid[at - 1]) + share * np.exp(-grid[at]))) * (1 + 1e-9),
    )


def by_moments(bands: Sequence[Band], queries: int, step: float, delta: float) -> float:
    """Return ε at δ of so many queries from the largest moments of their laws: nearly tight where ε
    is large.
    """
    # V_T(ℓ) = (1 − e^−ℓ)₊ is at most c e^(tℓ), c = t^t/(1 + t)^(1 + t), which is convex and
    # decreasing in e^−ℓ. So V before all queries is at most c E^Q e^(tℓ), E being the largest E_P
    # e^(tL), and infinite losses are a part of δ.
    t = np.geomspace(1e-3, 30, 200)
    log_most, infinite = np.zeros(len(t)), 0.0
    for start, used, weights, of_infinite in bands:
        losses = step * (
            start + np.arange(weights.shape[1]) if isinstance(used, slice) else start + used
        )
        log_most = np.maximum(log_most, np.log(weights @ np.exp(np.outer(losses, t))).max(axis=0))
        infinite = max(infinite, float(of_infinite.max()))
    left = delta - queries * infinite
    if left <= 0:
        return np.inf
    log_c = t * np.log(t) - (1 + t) * np.log1p(t)
    return float(((queries * log_most + log_c - np.log(left)) / t).min()) * (1 + 1e-9)


def curves_of(p: Floats, q: Floats, s: Floats) -> Floats:
    """Return H(s) − (1 − s)₊ [pairs, points]."""
    curves = np.zeros((len(p), len(s)))
    for own_p, own_q in zip(p.T[..., None], q.T[..., None], strict=True):
        gaps = own_p - own_q * s
        curves += np.maximum(np.negative(gaps, out=gaps, where=s < 1), 0.0)
    # If the p sum to more than 1 or the q to less, H is larger below 1 by this.
    return np.asarray(
        curves + (s < 1) * np.maximum(p.sum(axis=1) - 1 - s[:, None] * (q.sum(axis=1) - 1), 0.0).T
    )


def laws(curves: Floats, s: Floats) -> tuple[Floats, Floats]:
    """Return probabilities [laws, points] and those of infinite losses [laws] of curves H(s) − (1 −
    s)₊ on the grid.
    """
    # H = `infinite` + Σ q (s_j − s)₊ has these slopes; the first one leads to H(0) ≥ 1.
    infinite = curves[:, -1]
    slopes = -np.diff(curves, axis=1) / np.diff(s) + (s[:-1] < 1)
    slopes = np.column_stack([1 - (curves[:, 0] - infinite) / s[0], slopes, np.zeros(len(curves))])
    p = np.maximum(slopes[:, :-1] - slopes[:, 1:], 0.0) * s * (1 + ROUNDING)
    p[p < 1e-18] = 0.0
    return p, infinite + 1e-15  # at most 1,000 offsets of 1e-18 each


def merged(curves: Floats, s: Floats, mu: float, highest: float) -> Floats:
    """Return curves that together dominate all: first neighbours join, then each the group that
    then grows least.
    """
    orders = _BETAS[highest >= _BETAS] / mu
    slopes = np.diff(s ** (orders[:, None] + 1), axis=1) / np.diff(s)
    moments = (np.pad(slopes, ((0, 0), (0, 1))) - np.pad(slopes, ((0, 0), (1, 0)))).T

    def of(curves: Floats) -> Floats:  # in blocks, as larger products wait for other threads
        rows = _ONE_THREAD // moments.size
        blocks = (curves[at : at + rows] @ moments for at in range(0, len(curves), rows))
        return np.concatenate([np.zeros((0, len(orders))), *blocks])

    moments /= of(curves).max(axis=0)
    for first in (0, 1) * 6:
        joined = np.maximum(curves[first:-1:2], curves[first + 1 :: 2])
        fine = of(joined).max(axis=1) <= 1 + _SLACK / 2
        kept = np.ones(len(curves), dtype=bool)
        kept[first + 1 :: 2] = ~fine
        curves = curves.copy()
        curves[first:-1:2][fine] = joined[fine]
        curves = curves[kept]
    groups, sizes = np.zeros((0, len(s))), np.zeros((0, len(orders)))
    for curve in curves[np.argsort(-of(curves).max(axis=1))]:
        joined = np.maximum(groups, curve)
        grown = of(joined)
        growth = np.where(grown.max(axis=1) <= 1 + _SLACK, (grown - sizes).sum(axis=1), np.inf)
        if growth.min(initial=np.inf) < np.inf:
            at = growth.argmin()
            groups[at], sizes[at] = joined[at], grown[at]
        else:
            groups, sizes = np.vstack([groups, curve]), np.vstack([sizes, of(curve[None])])
    return groups


def corners_of(
    p: tuple[Floats, ...], q: tuple[Floats, ...], e_a: Floats, e_b: Floats, used: Bools
) -> tuple[Floats, Floats]:
    """Return p and q of outcomes a, c and b [pairs, 3] at the corners of the cells that are used.

    H in a cell is at most the mean of those of its corners if there line a, p_a − s q_a, is raised
    by the e_a of the cell, and line b, 1 − p_b − s (1 − q_b), by its e_b.
    """
    p_a, p_c, p_b = p
    e_a, e_b = (_at_corners(np.where(used, e, 0.0)) for e in (e_a, e_b))
    # p_c becomes p_c + e_b − e_a. Where c is the rarer outcome, the smaller of both is raised
    # instead.
    e_a, e_b = (
        np.where(p_c > p_a, e_a, np.maximum(e_a, e_b)),
        np.where(p_c > p_b, e_b, np.maximum(e_a, e_b)),
    )
    raised = np.stack(
        [p_a + e_a, np.maximum(p_c + e_b - e_a, 0.0), np.maximum(p_b - e_b, 0.0)], axis=-1
    )
    needed = _at_corners(np.where(used, 1.0, 0.0)) > 0
    return raised[needed] * (1 + ROUNDING), np.stack(q, axis=-1)[needed] * (1 - ROUNDING)


def _at_corners(cells: Floats) -> Floats:
    """Return for each corner the largest value of its cells."""
    padded = np.pad(cells, 1)
    rows = np.maximum(padded[:-1], padded[1:])
    return np.asarray(np.maximum(rows[:, :-1], rows[:, 1:]))
