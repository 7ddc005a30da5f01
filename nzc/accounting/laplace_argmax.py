"""Laws that dominate every label of an argmax with Laplace noise, whatever the votes (LNMax).

Proof, and what its steps are: docs/proofs.md, "Labels with Laplace noise". Votes are in units of
1/γ, h = γ.
"""

from functools import lru_cache, partial, reduce
from itertools import pairwise, product
from math import prod

import numpy as np

from nzc.accounting.dominating import (
    bent,
    corners_of,
    heights,
    laws_of,
    merged,
    mirrored,
    ratios,
    rounded,
    tradeoff_curves,
)
from nzc.accounting.induction import Laws
from nzc.types import Floats, FloatsPair, OneOrMore

LARGEST = 4.0  # larger h get another bound
FAR = 1e-15  # what far pairs add to V per query (step 4)
_SMALL = 0.3  # up to this h the errors of cells follow from third derivatives alone
#: h up to which, in step 4, so far below R a class is rarely above it; the grid then ends at so
#: large d.
_GRIDS = {_SMALL: (3.0, 22.0), 2.0: (6.0, 25.5), LARGEST: (10.0, 28.5)}
#: A sum of terms scale·e^(shift + rate·s).
_Sum = list[tuple[float, OneOrMore, int]]


@lru_cache(maxsize=8)
def laplace_bands(h: float, step: float, highest: float = np.inf) -> list[Laws]:
    """Return laws on the grid that dominate all labels at inverse scale h, in one band.

    `highest` is the largest β that decides how they are grouped (`merged`).
    """
    s = ratios(step, int(5 * h / step) + 2)
    curves = np.concatenate([tradeoff_curves(p, q, s) for p, q in (_corners(h), *_rare(h))])
    return [laws_of(merged(curves, s, h * np.sqrt(np.pi / 2), highest), s)]


def _grid(h: float) -> tuple[float, float]:
    return next(grid for most, grid in _GRIDS.items() if h <= most)


def _corners(h: float) -> FloatsPair:
    """Return p and q of outcomes a, c and b [pairs, 3] at the corners of all cells, with e added.

    Step 3 of the proof says what e is. F_b is F_a at −d, and d is symmetric.
    """
    below, last = _grid(h)
    d, v, here = _cells(below, last)
    p_a, p_b, p_c, *_ = _law(*np.meshgrid(d + h / 2, v, indexing="ij"))
    ahead = behind = np.full(here.shape, np.inf)
    s_a = s_b = np.full(here.shape[2:], np.exp(2 * h))
    if h > _SMALL:  # the largest s of line a, and of line b, in each cell; p/q falls as d grows
        s_a = p_a[:-1, 1:] / p_b[:0:-1, :-1]
        s_b = np.minimum(s_a, p_c[:-1, :-1] / p_c[:0:-1, 1:])
        ahead = _shifted(here, d, h / 2)
        behind = _shifted(here, d, -h / 2)
    a, c = np.stack([np.exp(h) * here, ahead, behind], axis=1)
    b = a[[0, 2, 1], :, ::-1]
    wide = np.diff(d)[:, None] ** 2 / 8
    tall = heights(v) ** 2 / 8

    error = partial(bent, h, -np.expm1(-2 * h), wide, tall)
    # Line a is p_a − s q_a; in both lines a rarer pair of outcomes may stand for the other one.
    e_a = np.minimum(error(a, s_a), error(b, s_a) + error(c, s_a))
    e_b = np.minimum(error(b, s_b), error(a, s_b) + error(c, s_b))
    nearest = np.minimum(abs(d[1:]), abs(d[:-1]))[:, None]
    used = (v[1:] >= nearest - below) & (nearest < (41 + below) / 2)
    return corners_of(np.stack([p_a, p_c, p_b]), e_a, e_b, used)


def _shifted(bounds: Floats, d: Floats, shift: float) -> Floats:
    """Return bounds for cells where d is larger by `shift`: the largest of all cells reached."""
    first = np.clip(np.searchsorted(d, d[:-1] + shift, side="right") - 1, 0, len(d) - 2)
    last = np.clip(np.searchsorted(d, d[1:] + shift) - 1, 0, len(d) - 2)
    steps = range((last - first).max() + 1)
    return reduce(np.maximum, (bounds[:, :, np.minimum(first + step, last)] for step in steps))


@lru_cache(maxsize=3)
def _cells(below: float, last: float) -> tuple[Floats, Floats, Floats]:
    """Return the grid of d and v, and bounds on derivatives in its cells [2, 4, d, v].

    They are |F_dd|, |F_ddd|, |F_vv| and |F_vvd|, of a and of c.
    """
    d = mirrored(_nodes(0.05, 0.03, 0.4, last))
    end = 39 + below / 3
    near = np.arange(-below, 1, 0.12)
    v = np.concatenate([near, 1 + _nodes(0.12, 0.15, 0.6, end - 1), [end + 30]])  # v = ∞
    tall = heights(v)
    at, low = np.meshgrid((d[:-1] + d[1:]) / 2, v[:-1], indexing="ij")
    middle = low + tall / 2
    first, _, _, tie, _ = _law(at, low + tall)  # these grow with v
    third = _law(at, low)[2]  # and these fall
    corner = _cdf(-low - at) * _cdf(at - low)
    edge = np.exp(tall - abs(middle + at)) / 2 * _cdf(at - middle)
    rise = np.exp(tall) * _law(at, middle)[4]
    less = _cdf(2 * at)
    kink = np.exp(-2 * abs(at)) / 2
    atoms = 1.5 * np.exp(-np.maximum(low + abs(at), 0.0))
    a_dd = np.maximum(first, less) + 3 * tie
    a_ddd = first + 7 * tie + 5 * kink + less
    of_a = a_dd, a_ddd, np.maximum(edge, rise), 2 * (edge + rise)
    of_c = 4 * third, 8 * third + atoms, third + 3 * corner, 2 * third + 6 * corner
    return d, v, np.exp(np.diff(d))[:, None] * np.array([of_a, of_c])


def _nodes(first: float, rate: float, widest: float, last: float) -> Floats:
    """Return 0 … last, at distances that grow from `first` by `rate` of where they are."""
    nodes = [0.0]
    while nodes[-1] < last:
        nodes.append(nodes[-1] + min(first + rate * nodes[-1], widest))
    return np.array(nodes)


def _laplace(z: Floats) -> FloatsPair:
    """Return f(z) and G(z), the density and the distribution function of Lap(1)."""
    half = np.exp(-abs(z)) / 2
    return half, np.where(z < 0, half, 1 - half)


def _cdf(z: Floats) -> Floats:
    return _laplace(z)[1]


def _law(d: Floats, v: Floats) -> tuple[Floats, ...]:
    """Return F_a, F_b, F_c, ∫ f f W, ∂F_a/∂v, in closed form.

    Between kinks each factor is an exponential, or 1 less an exponential. The latter is below 1/2
    only where little of the integral is. So no sum is much smaller than its terms, and relative
    errors are small.
    """
    x = v + d
    y = v - d
    low = np.minimum(x, y)
    high = np.maximum(x, y)
    kinks = [0 * d, np.maximum(low, 0.0), np.maximum(high, 0.0), np.full(d.shape, np.inf)]
    later: _Sum = [(1.0, 0.0, -1)]
    sooner: _Sum = [(1.0, 0.0, 0), (-1.0, 0.0, -1)]
    totals = np.zeros((6, *d.shape))
    for piece, (start, end) in enumerate(pairwise(kinks)):
        at_low, under_low = _sides(low, piece > 0)
        at_high, under_high = _sides(high, piece > 1)
        integrands = [
            (at_low, under_high, sooner),
            (at_high, under_low, sooner),
            (at_low, under_high, later),
            (at_high, under_low, later),
            (under_low, under_high, later),
            (at_low, at_high, sooner),
        ]
        wide = [end - start, *(np.expm1(rate * (start - end)) / -rate for rate in (1, 2, 3))]
        for total, factors in zip(totals, integrands, strict=True):
            for terms in product(*factors):
                scale = prod(term[0] for term in terms)
                shift = sum(term[1] for term in terms)
                rate = sum(term[2] for term in terms)
                most = np.exp(shift + rate * (end if rate > 0 else start))
                total += scale * most * wide[abs(rate)]
    wins, rises = np.where(x < y, totals[:4], totals[[1, 0, 3, 2]]).reshape(2, 2, *d.shape)
    return *wins, totals[4], totals[5], rises[0]


def _sides(kink: Floats, above: bool) -> tuple[_Sum, _Sum]:
    """Return f(s − kink) and G(s − kink) on one side of the kink."""
    if above:
        return [(0.5, kink, -1)], [(1.0, 0.0, 0), (-0.5, kink, -1)]
    half: _Sum = [(0.5, -kink, 1)]
    return half, half


def _rare(h: float) -> list[FloatsPair]:
    """Return p and q [pairs, 5] where a class is rarely above R, b and then a (step 4)."""
    below = _grid(h)[0]
    x = mirrored(_nodes(0.1, 0.05, 0.5, 39 + below / 3))

    def bend(before: float, after: float, power: float = 1.5) -> Floats:
        """Return a bound on second derivatives of `_wins` in intervals, or for 2.5 on third ones.

        The ends of the intervals of x are moved by so much.
        """
        low = x[:-1] + before
        high = x[1:] + after
        nearest = np.maximum(np.maximum(low, -high), 0.0)
        return np.where(high <= 0, 0.25, nearest + power) * np.exp(-nearest)

    half = h / 2
    smooth = np.expm1(h) * bend(-half, half) + h * np.exp(h) * bend(-half, half, 2.5)
    both_ends = bend(half, half) + np.exp(h) * bend(-half, -half)
    e = np.diff(x) ** 2 / 8 * np.minimum(smooth, both_ends)
    e = np.maximum(np.append(e, 0.0), np.append(0.0, e))
    found = []
    for side in (half, -half):  # b is rare, and a; then P and Q change places
        p = _given_rare(x + side, below + side, np.sign(side) * e)
        q = _given_rare(x - side, below - side, np.zeros(len(x)))
        found.append(rounded(p, q))
    return found


def _given_rare(x: Floats, below: float, error: Floats) -> Floats:
    """Return probabilities [pairs, 5]: is the rare class above R, and what does the other beat?"""
    bit = np.exp(-below) / 2
    beats_both, beats_one = (wins + error for wins in _wins(x))
    outcomes = [
        (1 - bit) * beats_one,
        (1 - bit) * (1 - beats_one),
        bit * beats_both,
        bit * (beats_one - beats_both),
        bit * (1 - beats_one),
    ]
    return np.stack(outcomes, axis=1).clip(0.0)


def _wins(x: Floats) -> FloatsPair:
    """Return how likely a class at x beats M and another Exp(1), and M alone."""
    tail = np.exp(np.minimum(x, 0.0))
    above = np.maximum(x, 0.0)
    rest = np.exp(-above)
    both = np.where(x < 0, tail / 6, 1 - rest * (above + 0.5) - rest**2 / 3)
    return both, np.where(x < 0, tail / 4, 1 - rest * (above / 2 + 0.75))
