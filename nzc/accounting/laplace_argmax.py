"""Laws that dominate every label of an argmax with Laplace noise (LNMax), whatever the votes, for
`adaptive`.

Proof, and what its steps are: docs/proofs.md, "Labels with Laplace noise". Votes are in units of
1/γ, h = γ.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from nzc.accounting.induction import ROUNDING, Band, corners_of, curves_of, laws, merged
from nzc.types import Floats

LARGEST = 4.0  # larger h get another bound
#: What far pairs add to V per query (step 4).
FAR = 1e-15
_SMALL = 0.3  # up to this h the errors of cells follow from third derivatives alone
#: h up to which, in step 4, so far below R a class is rarely above it; the grid then ends at so
#: large d.
_GRIDS = {_SMALL: (3.0, 22.0), 2.0: (6.0, 25.5), LARGEST: (10.0, 28.5)}
_X, _W = np.polynomial.legendre.leggauss(64)
_TAIL_X, _TAIL_W = np.polynomial.legendre.leggauss(4)


@lru_cache(maxsize=8)
def bands(h: float, step: float, highest: float = np.inf) -> list[Band]:
    """Return laws on the grid that dominate all labels at inverse scale h."""
    reach = int(5 * h / step) + 2
    s = np.exp(step * np.arange(-reach, reach + 1))
    curves = np.concatenate([curves_of(*pair, s) for pair in (_corners(h), *_rare(h))])
    return [(-reach, slice(None), *laws(merged(curves, s, h * np.sqrt(np.pi / 2), highest), s))]


def _grid(h: float) -> tuple[float, float]:
    return next(grid for most, grid in _GRIDS.items() if h <= most)


def _corners(h: float) -> tuple[Floats, Floats]:
    """Return p and q of outcomes a, c and b [pairs, 3] at the corners of all cells, with e added."""
    below, last = _grid(h)
    d, v, *flat = _cells(below, last)
    p_a, p_b, p_c = _law(*np.meshgrid(d + h / 2, v, indexing="ij"))[:3]
    q_a, q_b, q_c = p_b[::-1], p_a[::-1], p_c[::-1]
    s_a = s_b = np.full_like(flat[0][0], np.exp(2 * h))
    plus = minus = flat
    if h > _SMALL:  # the largest s of line a, and of line b, in each cell; p/q falls as d grows
        most_a, most_c = p_a[:-1, 1:] / q_a[:-1, :-1], p_c[:-1, :-1] / q_c[:-1, 1:]
        s_a, s_b = most_a, np.minimum(most_a, most_c)
        plus, minus = ([_shifted(of, d, side * h / 2) for of in flat] for side in (1, -1))
    wide, tall = np.diff(d)[:, None] ** 2 / 8, _heights(v) ** 2 / 8

    def bent(outcome: int, s: Floats, mirrored: bool) -> Floats:
        """Return the error of p − s q of an outcome in the cells; F_b is F_a at −d."""
        at, ahead, behind = (each[outcome] for each in (flat, plus, minus))
        if mirrored:
            at, ahead, behind = (tuple(part[::-1] for part in of) for of in (at, behind, ahead))
        away, found = np.maximum(s - 1, -np.expm1(-2 * h)), np.zeros(s.shape)
        for size, second, third in ((wide, 0, 1), (tall, 2, 3)):
            error = np.exp(h) * (away * at[second] + s * h * at[third])
            if h > _SMALL:
                error = np.minimum(error, ahead[second] + s * behind[second])
            found += size * error
        return found

    # Line a is p_a − s q_a; in both lines a rarer pair of outcomes may stand for the other one.
    e_a = np.minimum(bent(0, s_a, False), bent(0, s_a, True) + bent(1, s_a, False))
    e_b = np.minimum(bent(0, s_b, True), bent(0, s_b, False) + bent(1, s_b, False))
    nearest = np.minimum(abs(d[1:]), abs(d[:-1]))[:, None]
    used = (v[1:] >= nearest - below) & (nearest < (41 + below) / 2)
    return corners_of((p_a, p_c, p_b), (q_a, q_c, q_b), e_a, e_b, used)


def _shifted(of: tuple[Floats, ...], d: Floats, shift: float) -> tuple[Floats, ...]:
    """Return bounds for cells where d is larger by `shift`: the largest of those of all cells that
    these reach.
    """
    first = np.clip(np.searchsorted(d, d[:-1] + shift, side="right") - 1, 0, len(d) - 2)
    last = np.clip(np.searchsorted(d, d[1:] + shift) - 1, 0, len(d) - 2)
    steps = np.arange((last - first).max() + 1)
    reached = np.minimum(first + steps[:, None], last)
    return tuple(part[reached].max(axis=0) for part in of)


@lru_cache(maxsize=3)
def _cells(
    below: float, last: float
) -> tuple[Floats, Floats, tuple[Floats, ...], tuple[Floats, ...]]:
    """Return the grid of d and v, and bounds on |F_dd|, |F_ddd|, |F_vv| and |F_vvd| of a and c in
    its cells.
    """
    ahead = _nodes(0.05, 0.03, 0.4, last)
    d = np.concatenate([-ahead[:0:-1], ahead])
    end = 39 + below / 3
    v = np.concatenate(
        [np.arange(-below, 1, 0.12), 1 + _nodes(0.12, 0.15, 0.6, end - 1), [end + 30]]
    )  # v = ∞
    tall, scale = _heights(v), np.exp(np.diff(d))[:, None]
    at, low = np.meshgrid((d[:-1] + d[1:]) / 2, v[:-1], indexing="ij")
    first, _, _, tie, _ = _law(at, low + tall)  # these grow with v
    third, corner = _law(at, low)[2], _cdf(-low - at) * _cdf(at - low)  # and these fall
    middle = low + tall / 2
    edge, rise = (
        np.exp(tall - abs(middle + at)) / 2 * _cdf(at - middle),
        np.exp(tall) * _law(at, middle)[4],
    )
    less, kink, atoms = (
        _cdf(2 * at),
        np.exp(-2 * abs(at)) / 2,
        1.5 * np.exp(-np.maximum(low + abs(at), 0.0)),
    )
    of_a = (
        np.maximum(first, less) + 3 * tie,
        first + 7 * tie + 5 * kink + less,
        np.maximum(edge, rise),
    )
    of_c = 4 * third, 8 * third + atoms, third + 3 * corner, 2 * third + 6 * corner
    return (
        d,
        v,
        tuple(scale * part for part in (*of_a, 2 * (edge + rise))),
        tuple(scale * part for part in of_c),
    )


def _heights(v: Floats) -> Floats:
    return np.append(np.diff(v)[:-1], 0.0)  # beyond the last but one v there are two classes


def _nodes(first: float, rate: float, widest: float, last: float) -> Floats:
    """Return 0 … last, at distances that grow from `first` by `rate` of where they are, up to
    `widest`.
    """
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
    """Return F_a, F_b, F_c, ∫ f f W, ∂F_a/∂v. No term is negative; between kinks 64 nodes suffice,
    above them 4.
    """
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
    return tuple(
        term.sum(axis=-1) for term in (*terms, at_a * at_b * sooner, at_a * under_b * later)
    )


def _rare(h: float) -> list[tuple[Floats, Floats]]:
    """Return p and q [pairs, 5] where a class is rarely above R: the bit, and how the other one
    does.
    """
    below = _grid(h)[0]
    up = _nodes(0.1, 0.05, 0.5, 39 + below / 3)
    x = np.concatenate([-up[:0:-1], up])

    def second(ends: Sequence[Floats], power: float = 1.5) -> Floats:
        """Return a bound on second derivatives of `does` between the ends, or for 2.5 on third
        ones.
        """
        low, high = ends
        nearest = np.maximum(np.maximum(low, -high), 0.0)
        return np.where(high <= 0, 0.25, nearest + power) * np.exp(-nearest)

    around = x[:-1] - h / 2, x[1:] + h / 2
    ahead, behind = (x[:-1] + h / 2, x[1:] + h / 2), (x[:-1] - h / 2, x[1:] - h / 2)
    smooth = np.expm1(h) * second(around) + h * np.exp(h) * second(around, 2.5)
    e = np.diff(x) ** 2 / 8 * np.minimum(smooth, second(ahead) + np.exp(h) * second(behind))
    e = np.maximum(np.append(e, 0.0), np.append(0.0, e))

    def does(x: Floats) -> tuple[Floats, Floats]:  # beats M and another Exp(1), and M
        tail, above = np.exp(np.minimum(x, 0.0)), np.maximum(x, 0.0)
        rest = np.exp(-above)
        both = np.where(x < 0, tail / 6, 1 - rest * (above + 0.5) - rest**2 / 3)
        return both, np.where(x < 0, tail / 4, 1 - rest * (above / 2 + 0.75))

    found = []
    for sign in (1, -1):  # b is rare, and a; then P and Q change places
        tables = []
        for side, error in ((sign, e), (-sign, np.zeros(len(x)))):
            bit = np.exp(-below - side * h / 2) / 2
            both, one = does(x + side * h / 2)
            both, one = both + sign * error, one + sign * error
            table = [
                (1 - bit) * one,
                (1 - bit) * (1 - one),
                bit * both,
                bit * (one - both),
                bit * (1 - one),
            ]
            tables.append(np.maximum(np.stack(table, axis=1), 0.0))
        found.append((tables[0] * (1 + ROUNDING), tables[1] * (1 - ROUNDING)))
    return found
