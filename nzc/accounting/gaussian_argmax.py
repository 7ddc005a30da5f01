"""Laws that dominate every label of an argmax with Gaussian noise, whatever the votes, for
`adaptive`.

Proof, and what its steps are: docs/proofs.md, "Labels with Gaussian noise".
"""

from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from nzc.accounting.induction import Band, corners_of, curves_of, laws, merged
from nzc.types import Floats

LARGEST_MU = 0.5  # a larger μ gets the ε of the noisy histograms
#: Means this far below the threshold are censored; larger |d| and v are far away.
_BELOW, _END = 3.0, 8.0
#: What far pairs and rounded masses add to V per query: 2 (Φ(−7.75) + Φ(−8.1)) + Φ(−8) for μ ≤ 0.5,
#: and 1e-14.
FAR = 3e-14
_REACH = 9.5  # the largest finite loss in units of μ
#: Laws with losses up to these, in units of μ, are multiplied together.
_BANDS = (2.2, 4.5, np.inf)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_ROOT = float(np.sqrt(2))


@lru_cache(maxsize=8)
def bands(mu: float, step: float, highest: float = np.inf) -> list[Band]:
    """Return laws on the grid that dominate all queries; β up to `highest` decide how they are
    grouped.
    """
    reach = int(_REACH * mu / step)
    s = np.exp(step * np.arange(-reach, reach + 1))
    curves = merged(np.vstack([curves_of(*_corners(mu), s), _censored(mu, s)]), s, mu, highest)
    p, infinite = laws(curves, s)
    furthest = np.where(p > 0, abs(np.arange(-reach, reach + 1)), 0).max(axis=1)
    found: list[Band] = []
    before = -1
    for limit in _BANDS:
        now = reach if limit == np.inf else int(limit * mu / step)
        inside = (furthest > before) & (furthest <= now)
        own = np.ascontiguousarray(p[inside, reach - now : reach + now + 1])
        found += [(-now, slice(None), own, infinite[inside])] if len(own) else []
        before = now
    return found


def _corners(mu: float) -> tuple[Floats, Floats]:
    """Return p and q of outcomes a, c and b [pairs, 3] at the corners of all cells, with e added."""
    ahead = 5 * (np.sqrt(1 + 0.036 * np.arange(161)) - 1)  # 0, 0.09 … 7.97, 8
    up = np.concatenate([np.linspace(-_ROOT * _BELOW, 2.5, 34), np.geomspace(2.5, _END, 12)[1:]])
    d, v = np.concatenate([-ahead[:0:-1], ahead]), np.append(up, 40.0)  # 40 is ∞: Φ(−40) vanishes
    left, right, low, high = np.broadcast_arrays(
        d[:-1, None] - mu / 2, d[1:, None] + mu / 2, v[:-1], v[1:]
    )
    d_all, v_all = np.meshgrid(d, v, indexing="ij")
    p_a, q_a = _first(d_all + mu / 2, v_all), _first(d_all - mu / 2, v_all)
    p_b, q_b = q_a[::-1], p_a[::-1]  # F_b is F_a at −d, and d is symmetric
    of_a, rise = _derivatives(left, right, low, high), _derivatives(left, left, low, high)[4]
    of_b = (each[::-1] for each in of_a)
    above, below = (
        np.exp(mu * rise / q_a[:-1, :-1]),
        np.exp(-mu * rise[::-1] / p_b[1:, :-1]),
    )  # ends of p/q
    far = np.maximum(above - 1, 1 - below)
    wide, tall = (
        np.diff(d)[:, None] ** 2,
        np.append(np.diff(v)[:-1], 0.0) ** 2,
    )  # the last row is exact up to `FAR`
    used = high >= _nearest(left, right) - _ROOT * _BELOW
    e_a, e_b = (
        (wide * (far * dd + above * mu * ddd) + tall * (far * vv + above * mu * vvd)) / 8
        for dd, vv, ddd, vvd, _ in (of_a, of_b)
    )
    x, y, half = (v_all + d_all) / _ROOT, (v_all - d_all) / _ROOT, mu / _ROOT / 2
    p_c, q_c = ndtr(-x - half) * ndtr(-y + half), ndtr(-x + half) * ndtr(-y - half)
    return corners_of((p_a, p_c, p_b), (q_a, q_c, q_b), e_a, e_b, used)


def _nearest(start: Floats, end: Floats) -> Floats:
    """Return the smallest |z| of intervals."""
    return np.where((start <= 0) & (end >= 0), 0.0, np.minimum(abs(start), abs(end)))


def _density(z: Floats) -> Floats:
    return np.asarray(np.exp(-z * z / 2) / np.sqrt(2 * np.pi))


def _first(d: Floats, v: Floats) -> Floats:
    """Return F_a = ∫₀^∞ φ(s − x) Φ(s − y) ds; F_b is F_a at −d. No term is negative, so relative
    errors are small.
    """
    x, y = (v + d) / _ROOT, (v - d) / _ROOT
    peak = np.maximum(0.0, np.where(d > 0, x, v / _ROOT))
    start = np.maximum(0.0, peak - 9)
    half = (peak + 9 - start) / 2
    s = start[..., None] + half[..., None] * (_NODES + 1)
    return np.asarray(half * ((_density(s - x[..., None]) * ndtr(s - y[..., None])) @ _WEIGHTS))


def _derivatives(left: Floats, right: Floats, low: Floats, high: Floats) -> tuple[Floats, ...]:
    """Return bounds on |F_dd|, |F_vv|, |F_ddd|, |F_vvd| and F_d of F_a in cells: each factor of a
    term is bounded.
    """

    def curved(least: Floats, most: Floats) -> Floats:
        return np.maximum(abs(1 - least**2), abs(1 - most**2))

    least_d, most_d = _nearest(left, right), np.maximum(abs(left), abs(right))
    x = (low + left) / _ROOT, (high + right) / _ROOT
    y = (low - right) / _ROOT, (high - left) / _ROOT
    least_x, most_x = _nearest(*x), np.maximum(abs(x[0]), abs(x[1]))
    bell, edge = _density(least_d) * ndtr(high), _density(least_x) * ndtr(-y[0])
    both = np.minimum(
        _density(least_d) * _density(_nearest(low, high)),
        _density(least_x) * _density(_nearest(*y)),
    )
    second = (most_x * edge + both) / 2
    third = ((curved(least_x, most_x) * edge + most_x * both) / _ROOT + most_d * both) / 2
    return (
        most_d * bell + second,
        second,
        curved(least_d, most_d) * bell + third,
        third,
        bell + edge / _ROOT,
    )


def _censored(mu: float, s: Floats) -> Floats:
    """Return H(s) − (1 − s)₊ of Gaussian noise with another Gaussian censored below 0, of mean x <
    −3 or y < −3.
    """
    shift, z, curves = mu / _ROOT, np.linspace(_BELOW, 9.0, 150), []
    for sign in (1, -1):
        p, q = ndtr(sign * shift / 2 - z), ndtr(-sign * shift / 2 - z)
        ends = np.exp(sign * shift * z)
        # Inside an interval p/q is between its values at the ends: two outcomes there tell more.
        q_in = -np.diff(q)
        q_end = (-np.diff(p) - ends[:-1] * q_in) / np.diff(ends)
        q_all = np.concatenate([[1 - q[0]], q_in - q_end, q_end])
        p_all = np.concatenate([[1 - p[0]], (q_in - q_end) * ends[:-1], q_end * ends[1:]])
        scaled = s[:, None] * q_all / p_all
        h = ndtr(shift / 2 - np.log(scaled) / shift) - scaled * ndtr(
            -shift / 2 - np.log(scaled) / shift
        )
        curves.append(
            np.maximum((h * p_all).sum(axis=1) - np.maximum(1 - s, 0.0), 0.0) + (p[-1] + q[-1])
        )
    return np.array(curves)
