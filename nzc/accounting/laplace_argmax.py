"""Laws that dominate every label of an argmax with Laplace noise (LNMax), whatever the votes, for `adaptive`.

A query releases argmax_j (n_j + Lap(1/γ)); one voter moves a vote from class a to b, or the reverse. What V and H are,
and why few curves H may stand for all pairs, is in `gaussian_argmax`, steps 2 and 6. Votes are in units of 1/γ, h = γ.

1. Three outcomes. Laplace noise is E − E′, both of the law Exp(1). Reveal E′ of all classes but a and b, which of them
is largest, and the second largest score. Exp(1) forgets: the largest is then M = R + Exp(1), with R revealed and the
same at both neighbours. So a query is a mixture of pairs with outcomes a, b and c (M is above both), at x = n_a − R,
y = n_b − R, under P at (x + h/2, y − h/2) and under Q at (x − h/2, y + h/2). Two classes are R = −∞. To reveal M itself
would cost a sixth more; now two classes at a tie tell most.

2. Order. Let d = (x − y)/2 and v = (x + y)/2, let M have density w = e^−s and distribution W = 1 − e^−s, and let t_ab
be the density of a tie of a and b above M, t_ac and t_bc alike. ∂F_c/∂d = t_bc − t_ac is at most F_c, by parts, and
≤ 0 for x ≥ y. ∂F_a/∂d = 2 t_ab + t_ac ≥ 0 is at least F_a for x < y: where x ≤ 0, F_a = t_ab + t_ac by parts; else it
exceeds F_a by the integral of f(s − x) (2 f(s − y) W + w G(s − y) − G(s − y) W), which is
e^−y (e^(x−y)/6 − e^−x/8 + e^x (y − x)/4) > 0. So F_a/F_c grows with d, F_c/F_b too by symmetry, and
H(s) = max(0, 1 − s, p_a − s q_a, 1 − p_b − s (1 − q_b)).

3. Cells. In a rectangle of d and v the last two are at most the bilinear mean of their corners plus
  e = (Δd² (R sup|F_dd| + s h sup|F_ddd|) + Δv² (R sup|F_vv| + s h sup|F_vvd|))/8,  R = e^2h − 1,  s ≤ e^2h.
Since f″ = f − δ and |f′| = f ≤ G, the derivatives are at most sums of F, of integrals of f f W and f G w,
and of atoms at kinks (`_cells`). Each of these changes by a factor e^(2|Δ|) at most where d or v changes by Δ.

4. Far away. Let y < −3. Reveal whether b is above R, a bit of probability e^y/2: thin the one at y = −3 to it. If it
is, b is R + Exp(1): reveal whether a beats M, and whether it beats both (`_rare`). The same for x. If v > 40, the label
is that of two classes unless M is above both; if |d| > 22, |x| > 40 or |y| > 40, one outcome is nearly certain. In all,
V grows by less than 1e-14 for each query.
"""

from functools import lru_cache

import numpy as np

from nzc.accounting.induction import ROUNDING, Band, at_corners, curves_of, laws, merged
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
    e_a, e_b, needed = (at_corners(np.where(used, e, 0.0)) for e in (e_a, e_a[::-1], np.ones(used.shape)))
    p_a, p_b, p_c = _law(*np.meshgrid(d + h / 2, v, indexing="ij"))[:3]
    q = np.stack([p_b[::-1], p_c[::-1], p_a[::-1]], axis=-1)
    e_a, e_b = np.where(p_c > p_a, e_a, np.maximum(e_a, e_b)), np.where(p_c > p_b, e_b, np.maximum(e_a, e_b))
    p = np.stack([p_a + e_a, np.maximum(p_c + e_b - e_a, 0.0), np.maximum(p_b - e_b, 0.0)], axis=-1)
    return p[needed > 0] * (1 + ROUNDING), q[needed > 0] * (1 - ROUNDING)


@lru_cache(maxsize=1)
def _cells() -> tuple[Floats, Floats, tuple[Floats, ...], tuple[Floats, ...]]:
    """Return the grid of d and v, and bounds on |F_dd|, |F_ddd|, |F_vv| and |F_vvd| of a and c in its cells."""
    ahead = _nodes(0.05, 0.03, 0.4, _D)
    d = np.concatenate([-ahead[:0:-1], ahead])
    v = np.concatenate([np.arange(-_BELOW, 1, 0.12), 1 + _nodes(0.12, 0.15, 0.6, _V - 1), [_TWO]])
    tall = _heights(v)
    at, low = np.meshgrid((d[:-1] + d[1:]) / 2, v[:-1], indexing="ij")
    first, _, _, tie, _ = _law(at, low + tall)  # these grow with v
    third, corner = _law(at, low)[2], _below(-low - at) * _below(at - low)  # and these fall
    middle = low + tall / 2
    edge, rise = np.exp(tall - abs(middle + at)) / 2 * _below(at - middle), np.exp(tall) * _law(at, middle)[4]
    below, kink, atoms = _below(2 * at), np.exp(-2 * abs(at)) / 2, 1.5 * np.exp(-np.maximum(low + abs(at), 0.0))
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


def _below(z: Floats) -> Floats:
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
        rest = np.exp(-np.maximum(x, 0.0))
        both = np.where(x < 0, np.exp(np.minimum(x, 0.0)) / 6, 1 - rest * (np.maximum(x, 0.0) + 0.5) - rest**2 / 3)
        return both, np.where(x < 0, np.exp(np.minimum(x, 0.0)) / 4, 1 - rest * (np.maximum(x, 0.0) / 2 + 0.75))

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
