"""Laws that dominate every label of an argmax with Laplace noise (LNMax), whatever the votes, for `adaptive`.

Proof, and what its steps are: docs/proofs.md, "Labels with Laplace noise". Votes are in units of 1/γ, h = γ.
"""

from functools import lru_cache

import numpy as np

from nzc.accounting.induction import ROUNDING, Band, corners_of, curves_of, laws, merged
from nzc.types import Floats

LARGEST = 1.0  # larger h get another bound
_BELOW, _D, _V, _TWO = 3.0, 22.0, 40.0, 70.0  # the ends of step 4; v = 70 stands for ∞
_X, _W = np.polynomial.legendre.leggauss(64)
_TAIL_X, _TAIL_W = np.polynomial.legendre.leggauss(4)


@lru_cache(maxsize=8)
def bands(h: float, step: float, highest: float = np.inf) -> list[Band]:
    """Return laws on the grid that dominate all labels at inverse scale h."""
    reach = int(5 * h / step) + 2
    s = np.exp(step * np.arange(-reach, reach + 1))
    curves = np.concatenate([curves_of(*pair, s) for pair in (_corners(h), *_rare(h))])
    return [(-reach, slice(None), *laws(merged(curves, s, h * np.sqrt(np.pi / 2), highest), s))]


def _corners(h: float) -> tuple[Floats, Floats]:
    """Return p and q of outcomes a, c and b [pairs, 3] at the corners of all cells, with e added."""
    d, v, of_a, of_c = _cells()
    wide, tall, more, most = np.diff(d)[:, None], _heights(v), np.expm1(2 * h), h * np.exp(2 * h)
    own_a, own_c = (
        np.exp(wide + h) / 8 * (wide**2 * (more * dd + most * ddd) + tall**2 * (more * vv + most * vvd))
        for dd, ddd, vv, vvd in (of_a, of_c)
    )
    # Line a is p_a − s q_a; in line b, b may be replaced by a and c, of which the rarer ones have the smaller error.
    e_a = np.minimum(own_a, own_a[::-1] + own_c)
    used = v[1:] >= np.minimum(abs(d[1:]), abs(d[:-1]))[:, None] - _BELOW
    p_a, p_b, p_c = _law(*np.meshgrid(d + h / 2, v, indexing="ij"))[:3]
    return corners_of((p_a, p_c, p_b), (p_b[::-1], p_c[::-1], p_a[::-1]), e_a, e_a[::-1], used)


@lru_cache(maxsize=1)
def _cells() -> tuple[Floats, Floats, tuple[Floats, ...], tuple[Floats, ...]]:
    """Return the grid of d and v, and bounds on |F_dd|, |F_ddd|, |F_vv| and |F_vvd| of a and c in its cells."""
    ahead = _nodes(0.05, 0.03, 0.4, _D)
    d = np.concatenate([-ahead[:0:-1], ahead])
    v = np.concatenate([np.arange(-_BELOW, 1, 0.12), 1 + _nodes(0.12, 0.15, 0.6, _V - 1), [_TWO]])
    tall = _heights(v)
    at, low = np.meshgrid((d[:-1] + d[1:]) / 2, v[:-1], indexing="ij")
    first, _, _, tie, _ = _law(at, low + tall)  # these grow with v
    third, corner = _law(at, low)[2], _cdf(-low - at) * _cdf(at - low)  # and these fall
    middle = low + tall / 2
    edge, rise = np.exp(tall - abs(middle + at)) / 2 * _cdf(at - middle), np.exp(tall) * _law(at, middle)[4]
    below, kink, atoms = _cdf(2 * at), np.exp(-2 * abs(at)) / 2, 1.5 * np.exp(-np.maximum(low + abs(at), 0.0))
    of_a = np.maximum(first, below) + 3 * tie, first + 7 * tie + 5 * kink + below, np.maximum(edge, rise)
    return d, v, (*of_a, 2 * (edge + rise)), (4 * third, 8 * third + atoms, third + 3 * corner, 2 * third + 6 * corner)


def _heights(v: Floats) -> Floats:
    return np.append(np.diff(v)[:-1], 0.0)  # beyond the last but one v there are two classes


def _nodes(first: float, rate: float, widest: float, last: float) -> Floats:
    """Return 0 … last, at distances that grow from `first` by `rate` of where they are, up to `widest`."""
    found = [0.0]
    while found[-1] < last:
        found.append(found[-1] + min(first + rate * found[-1], widest))
    return np.array(found)


def _laplace(z: Floats) -> tuple[Floats, Floats]:
    """Return f(z) and G(z), the density and the distribution function of Lap(1)."""
    half = np.exp(-abs(z)) / 2
    return half, np.where(z < 0, half, 1 - half)


def _cdf(z: Floats) -> Floats:
    return _laplace(z)[1]


def _law(d: Floats, v: Floats) -> tuple[Floats, ...]:
    """Return F_a, F_b, F_c, ∫ f f W, ∂F_a/∂v. No term is negative; between kinks 64 nodes suffice, above them 4."""
    x, y = v + d, v - d
    ends = np.sort([np.zeros(d.shape), np.maximum(x, 0.0), np.maximum(y, 0.0)], axis=0)
    half = np.diff(ends, axis=0) / 2
    inside = ends[:-1, ..., None] + half[..., None] * (_X + 1)
    s = np.concatenate([*inside, ends[-1][..., None] - np.log((_TAIL_X + 1) / 2)], axis=-1)
    weights = np.concatenate(
        [*(half[..., None] * _W), np.broadcast_to(_TAIL_W / (_TAIL_X + 1), (*d.shape, 4))], axis=-1
    )
    (at_a, under_a), (at_b, under_b) = (_laplace(s - mean[..., None]) for mean in (x, y))
    later, sooner = np.exp(-s) * weights, -np.expm1(-s) * weights
    terms = at_a * under_b * sooner, at_b * under_a * sooner, under_a * under_b * later
    return tuple(term.sum(axis=-1) for term in (*terms, at_a * at_b * sooner, at_a * under_b * later))


def _rare(h: float) -> list[tuple[Floats, Floats]]:
    """Return p and q [pairs, 5] where a class is rarely above R: the bit, and how the other one does."""
    up = _nodes(0.1, 0.05, 0.5, _V)
    x = np.concatenate([-up[:0:-1], up])
    nearest = np.maximum(np.minimum(abs(x[:-1]), abs(x[1:])) - h / 2, 0.0)
    more = np.exp(h) - 1, h * np.exp(h)
    second, third = (np.where(x[1:] + h / 2 <= 0, 0.25, nearest + most) for most in (1.5, 2.5))
    e = np.diff(x) ** 2 / 8 * np.exp(-nearest) * (more[0] * second + more[1] * third)
    e = np.maximum(np.append(e, 0.0), np.append(0.0, e))

    def does(x: Floats) -> tuple[Floats, Floats]:  # beats M and another Exp(1), and M
        below, above = np.exp(np.minimum(x, 0.0)), np.maximum(x, 0.0)
        rest = np.exp(-above)
        both = np.where(x < 0, below / 6, 1 - rest * (above + 0.5) - rest**2 / 3)
        return both, np.where(x < 0, below / 4, 1 - rest * (above / 2 + 0.75))

    found = []
    for sign in (1, -1):  # b is rare, and a; then P and Q change places
        tables = []
        for side, error in ((sign, e), (-sign, np.zeros(len(x)))):
            bit = np.exp(-_BELOW - side * h / 2) / 2
            both, one = does(x + side * h / 2)
            both, one = both + sign * error, one + sign * error
            table = [(1 - bit) * one, (1 - bit) * (1 - one), bit * both, bit * (one - both), bit * (1 - one)]
            tables.append(np.maximum(np.stack(table, axis=1), 0.0))
        found.append((tables[0] * (1 + ROUNDING), tables[1] * (1 - ROUNDING)))
    return found
