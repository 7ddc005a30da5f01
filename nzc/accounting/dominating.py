"""Few laws on a grid that dominate many pairs of laws P and Q, such as all labels of a noise.

A pair has the curve H(s) = Σ (p − s q)₊, s = e^ℓ. A law whose curve is nowhere below that of a pair
costs no less (docs/proofs.md, "Labels with Gaussian noise", steps 2 and 6). Curves are kept less
that of no release, (1 − s)₊, at the points of a grid, and chords between them are upper bounds.
"""

import numpy as np

from nzc.accounting.induction import ONE_THREAD, ROUNDING, Laws
from nzc.types import AnyArray, Bools, Floats, FloatsPair, OneOrMore

#: Laws are grouped by their moments E (p/q)^(β/μ). For Q queries, β up to 15/√Q or 0.4 matter.
_BETAS = np.array(
    [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6]
)
_AT_ONCE = 2**15  # so many points of curves are computed at once: they stay in the cache
_SLACK = 0.002  # a group of `merged` may have this much larger moments than the worst curve


def ratios(step: float, reach: int) -> Floats:
    """Return the points s = e^ℓ of the grid, from −reach to reach steps."""
    return np.exp(step * np.arange(-reach, reach + 1))


def mirrored(positive: Floats) -> Floats:
    """Return points from 0 on, after their mirror images."""
    return np.concatenate([-positive[:0:-1], positive])


def heights(v: Floats) -> Floats:
    """Return the heights of cells between points of v; the last row is exact, and has height 0."""
    return np.append(np.diff(v)[:-1], 0.0)


def rounded(p: Floats, q: Floats) -> FloatsPair:
    """Return p rounded up and q rounded down, by the error allowed: more is revealed."""
    return p * (1 + ROUNDING), q * (1 - ROUNDING)


def tradeoff_curves(p: Floats, q: Floats, s: Floats) -> Floats:
    """Return the curves [pairs, points] of laws P and Q [pairs, outcomes]."""
    below = s < 1
    sign = np.where(below, -1.0, 1.0)
    curves = np.zeros((len(p), len(s)))
    rows = max(1, _AT_ONCE // len(s))
    for start in range(0, len(p), rows):
        some = slice(start, start + rows)
        # If the p sum to more than 1 or the q to less, H is larger below 1 by this.
        excess = p[some].sum(axis=1)[:, None] - 1 - s * (q[some].sum(axis=1)[:, None] - 1)
        curves[some] = below * np.maximum(excess, 0.0)
        for outcome in range(p.shape[1]):
            gaps = p[some, outcome, None] - q[some, outcome, None] * s
            curves[some] += np.maximum(sign * gaps, 0.0)
    return curves


def laws_of(curves: Floats, s: Floats) -> Laws:
    """Return the laws of curves [laws, points]."""
    # H = `infinite` + Σ q (s_j − s)₊ has these slopes; the first one leads to H(0) ≥ 1.
    infinite = curves[:, -1:]
    first = 1 - (curves[:, :1] - infinite) / s[0]
    slopes = -np.diff(curves, axis=1) / np.diff(s) + (s[:-1] < 1)
    q = np.maximum(-np.diff(slopes, axis=1, prepend=first, append=0.0), 0.0)
    p = q * s * (1 + ROUNDING)
    p[p < 1e-18] = 0.0
    offsets = np.arange(len(s)) - len(s) // 2
    return Laws(offsets, p, infinite[:, 0] + 1e-15)  # at most 1,000 offsets of 1e-18 each


def merged(curves: Floats, s: Floats, mu: float, highest: float) -> Floats:
    """Return fewer curves that together dominate all: each group becomes its largest curve.

    First neighbours join, then each curve the group that then grows least. `highest` is the largest
    β whose moments decide that.
    """
    orders = _BETAS[highest >= _BETAS] / mu
    slopes = np.diff(s ** (orders[:, None] + 1), axis=1) / np.diff(s)
    tilts = np.diff(slopes, axis=1, prepend=0.0, append=0.0).T

    def moments(curves: Floats) -> Floats:  # in blocks, as larger products wait for other threads
        rows = ONE_THREAD // tilts.size
        starts = range(0, len(curves) or 1, rows)
        return np.concatenate([curves[start : start + rows] @ tilts for start in starts])

    tilts /= moments(curves).max(axis=0)
    for first in (0, 1) * 6:
        joined = np.maximum(curves[first:-1:2], curves[first + 1 :: 2])
        fine = moments(joined).max(axis=1) <= 1 + _SLACK / 2
        alone = np.ones(len(curves), dtype=bool)
        alone[first + 1 :: 2] = ~fine
        curves = curves.copy()
        curves[first:-1:2][fine] = joined[fine]
        curves = curves[alone]
    groups = curves[:0]
    sizes = moments(groups)
    for curve in curves[np.argsort(-moments(curves).max(axis=1))]:
        joined = np.maximum(groups, curve)
        grown = moments(joined)
        growth = np.where(grown.max(axis=1) <= 1 + _SLACK, (grown - sizes).sum(axis=1), np.inf)
        if growth.min(initial=np.inf) < np.inf:
            best = growth.argmin()
            groups[best] = joined[best]
            sizes[best] = grown[best]
        else:
            groups = np.vstack([groups, curve])
            sizes = np.vstack([sizes, moments(curve[None])])
    return groups


def corners_of(p: Floats, e_a: Floats, e_b: Floats, used: Bools) -> FloatsPair:
    """Return p and q of outcomes a, c and b [pairs, 3] at the corners of the cells that are used.

    The probabilities p are [3, d, v], where d is symmetric. To swap P and Q is to swap a and b, and
    the sign of d; so q follows from p. H in a cell is at most the mean of those of its corners if
    there line a, p_a − s q_a, is raised by the e_a of the cell, and line b, 1 − p_b − s (1 − q_b),
    by its e_b.
    """
    p_a, p_c, p_b = p
    e_a = _at_corners(np.where(used, e_a, 0.0))
    e_b = _at_corners(np.where(used, e_b, 0.0))
    # p_c becomes p_c + e_b − e_a. Where c is the rarer outcome, the smaller of both is raised
    # instead.
    larger = np.maximum(e_a, e_b)
    e_a = np.where(p_c > p_a, e_a, larger)
    e_b = np.where(p_c > p_b, e_b, larger)
    raised = np.maximum([p_a + e_a, p_c + e_b - e_a, p_b - e_b], 0.0)
    needed = _at_corners(used)
    return rounded(raised[:, needed].T, p[::-1, ::-1][:, needed].T)


def bent(
    h: float, least: OneOrMore, wide: Floats, tall: Floats, bounds: Floats, s: Floats
) -> Floats:
    """Return by how much p − s q exceeds its bilinear mean in cells, at most.

    h        what p and q are apart in d
    least    the largest 1 − s of each cell, and `s` its largest s
    wide     Δd²/8 of each cell, and `tall` its Δv²/8
    bounds   |F_dd|, |F_ddd|, |F_vv| and |F_vvd|: of all of it, where p is taken, and where q is
    """
    both, p, q = bounds[:, ::2]
    error = np.maximum(s - 1, least) * both + s * h * bounds[0, 1::2]
    in_d, in_v = np.minimum(error, p + s * q)
    return wide * in_d + tall * in_v


def _at_corners(cells: AnyArray) -> AnyArray:
    """Return for each corner the largest value of its cells."""
    padded = np.pad(cells, 1)
    rows = np.maximum(padded[:-1], padded[1:])
    return np.maximum(rows[:, :-1], rows[:, 1:])
