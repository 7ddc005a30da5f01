"""Laws that dominate every label of an argmax with Gaussian noise, whatever the votes (GNMax).

Proof, and what its steps are: docs/proofs.md, "Labels with Gaussian noise". Noise is divided by σ.
"""

from functools import lru_cache, partial

import numpy as np
from scipy.special import ndtr

from nzc.accounting.dominating import (
    bent,
    corners_of,
    heights,
    laws_of,
    merged,
    mirrored,
    ratios,
    tradeoff_curves,
)
from nzc.accounting.induction import Laws
from nzc.types import Floats, FloatsPair

_SMALL = 0.3  # up to this μ the errors of cells follow from third derivatives alone
LARGEST_MU = 4.0  # a larger μ gets the ε of the noisy histograms
#: Means this far below the threshold are censored; larger |d| and v are far away.
_BELOW = 3.0
_END = 8.0
#: What far pairs and rounded masses add to V per query: 2 (Φ(−7.75) + Φ(−8.1)) + Φ(−8), and 1e-14.
FAR = 3e-14
_REACH = 9.5  # the largest finite loss in units of μ
#: Laws with losses up to these, in units of μ, are multiplied together.
_BANDS = np.array([2.2, 4.5, np.inf])
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_ROOT = float(np.sqrt(2))


@lru_cache(maxsize=8)
def gaussian_bands(mu: float, step: float, highest: float = np.inf) -> list[Laws]:
    """Return laws on the grid that dominate all queries, in bands of the largest loss.

    `highest` is the largest β that decides how they are grouped (`merged`).
    """
    reach = int(_REACH * mu / step)
    s = ratios(step, reach)
    curves = np.vstack([tradeoff_curves(*_corners(mu), s), _censored(mu, s)])
    offsets, p, infinite, _ = laws_of(merged(curves, s, mu, highest), s)
    furthest = np.where(p > 0, abs(offsets), 0).max(axis=1)
    ends = np.minimum(_BANDS * mu / step, reach)
    band_of = np.searchsorted(ends, furthest)
    found = []
    for band in np.unique(band_of):
        inside = band_of == band
        short = np.abs(offsets) <= ends[band]
        found.append(Laws(offsets[short], p[inside].compress(short, axis=1), infinite[inside]))
    return found


def _corners(mu: float) -> FloatsPair:
    """Return p and q of outcomes a, c and b [pairs, 3] at the corners of all cells, with e added.

    Step 4 of the proof says what e is. F_b is F_a at −d, and d is symmetric.
    """
    nodes = 161 + int(25 * max(0.0, mu - 0.5))
    d = mirrored(5 * (np.sqrt(1 + 0.036 * np.arange(nodes)) - 1))  # 0, 0.09 … 7.97, 8 …
    low_v = np.linspace(-_ROOT * _BELOW, 2.5, 34)
    v = np.concatenate([low_v, np.geomspace(2.5, _END, 12)[1:], [30.0]])  # 30 is ∞: Φ(−12) vanishes
    all_d, all_v = np.meshgrid(d, v, indexing="ij")
    x = (all_v + all_d) / _ROOT
    half = mu / 2
    p_c = ndtr(-x - half / _ROOT) * ndtr(half / _ROOT - x[::-1])
    below = np.searchsorted(d, half, side="right")
    p_a = _first(all_d[:below] + half, all_v[:below])
    q_a = _first(all_d[:below] - half, all_v[:below])
    # All outcomes sum to 1. For d > μ/2, both F_a are above 1e-3, and b is known from −d.
    above = len(d) - below
    over_p = 1 - p_c[below:] - q_a[:above][::-1]
    over_q = 1 - p_c[:above][::-1] - p_a[:above][::-1]
    p_a = np.vstack([p_a, over_p])
    q_a = np.vstack([q_a, over_q])

    left = d[:-1, None]
    right = d[1:, None]
    both = _derivatives(left - half, right + half, v)
    ahead = behind = np.full(both.shape, np.inf)
    if mu <= _SMALL:
        log_ratio = mu * _derivatives(left - half, left - half, v)[4] / q_a[:-1, :-1]
        s_a = s_b = np.exp(log_ratio)  # p/q is at most this
    else:  # the largest s of line a, and of line b, in each cell
        s_a = (p_a / q_a)[:-1, :-1]
        s_c = (p_c / p_c[::-1])[:-1]
        s_b = np.minimum(s_a, np.maximum(s_c[:, :-1], s_c[:, 1:]))
        ahead = _derivatives(left + half, right + half, v)
        behind = _derivatives(left - half, right - half, v)
    bounds = np.stack([both, ahead, behind])[:, :4]
    wide = (right - left) ** 2 / 8
    tall = heights(v) ** 2 / 8
    error = partial(bent, mu, 1 - 1 / s_a[::-1], wide, tall)
    e_a = error(bounds, s_a)
    e_b = error(bounds[[0, 2, 1], :, ::-1], s_b)
    used = v[1:] >= _nearest(left - half, right + half) - _ROOT * _BELOW
    return corners_of(np.stack([p_a, p_c, q_a[::-1]]), e_a, e_b, used)


def _nearest(start: Floats, end: Floats) -> Floats:
    """Return the smallest |z| of intervals."""
    return np.where((start <= 0) & (end >= 0), 0.0, np.minimum(abs(start), abs(end)))


def _density(z: Floats) -> Floats:
    return np.exp(-z * z / 2) / np.sqrt(2 * np.pi)


def _first(d: Floats, v: Floats) -> Floats:
    """Return F_a = ∫₀^∞ φ(s − x) Φ(s − y) ds. No term is negative, so relative errors are small."""
    x = (v + d) / _ROOT
    y = (v - d) / _ROOT
    peak = np.maximum(0.0, np.where(d > 0, x, v / _ROOT))
    start = np.maximum(0.0, peak - 9)
    half = (peak + 9 - start) / 2
    s = start[..., None] + half[..., None] * (_NODES + 1)
    return half * ((_density(s - x[..., None]) * ndtr(s - y[..., None])) @ _WEIGHTS)


def _derivatives(left: Floats, right: Floats, v: Floats) -> Floats:
    """Return bounds on |F_dd|, |F_ddd|, |F_vv|, |F_vvd| and F_d of F_a in cells [5, d, v].

    They follow from the derivatives of step 3 of the proof; each factor of a term is bounded.
    """
    low = v[:-1]
    high = v[1:]
    x = (low + left) / _ROOT, (high + right) / _ROOT
    y = (low - right) / _ROOT, (high - left) / _ROOT
    least_d, most_d = _nearest(left, right), np.maximum(abs(left), abs(right))
    least_x, most_x = _nearest(*x), np.maximum(abs(x[0]), abs(x[1]))
    bell = _density(least_d) * ndtr(high)
    edge = _density(least_x) * ndtr(-y[0])
    both = np.minimum(
        _density(least_d) * _density(_nearest(low, high)),
        _density(least_x) * _density(_nearest(*y)),
    )
    second = (most_x * edge + both) / 2

    def curved(least: Floats, most: Floats) -> Floats:
        return np.maximum(abs(1 - least**2), abs(1 - most**2))

    third = ((curved(least_x, most_x) * edge + most_x * both) / _ROOT + most_d * both) / 2
    third_d = curved(least_d, most_d) * bell + third
    slope = bell + edge / _ROOT
    return np.stack([most_d * bell + second, third_d, second, third, slope])


def _censored(mu: float, s: Floats) -> Floats:
    """Return the curves of Gaussian noise with another Gaussian, censored below 0 (step 5).

    Its mean is x < −3, or y < −3.
    """
    shift = mu / _ROOT
    z = np.linspace(_BELOW, 9.0, 150)
    curves = []
    for side in (shift / 2, -shift / 2):
        p = ndtr(side - z)
        q = ndtr(-side - z)
        ends = np.exp(2 * side * z)
        # Inside an interval p/q is between its values at the ends: two outcomes there tell more.
        q_in = -np.diff(q)
        q_end = (-np.diff(p) - ends[:-1] * q_in) / np.diff(ends)
        q_all = np.concatenate([[1 - q[0]], q_in - q_end, q_end])
        p_all = np.concatenate([[1 - p[0]], (q_in - q_end) * ends[:-1], q_end * ends[1:]])
        scaled = s[:, None] * q_all / p_all
        loss = np.log(scaled) / shift
        h = ndtr(shift / 2 - loss) - scaled * ndtr(-shift / 2 - loss)
        curve = (h * p_all).sum(axis=1) - np.maximum(1 - s, 0.0)
        curves.append(np.maximum(curve, 0.0) + (p[-1] + q[-1]))
    return np.array(curves)
