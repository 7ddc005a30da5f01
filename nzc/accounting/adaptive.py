"""ε of adaptive bits and labels, whatever the votes.

Bits and labels are what a screen, its labels, or the exponential mechanism show.
Proofs: docs/proofs.md, "Labels with exponential noise" and "Bits, screens with their labels, and
blocks".
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.special import ndtr

from nzc.accounting import gaussian_argmax, laplace_argmax
from nzc.accounting.dominating import laws_of, ratios, rounded
from nzc.accounting.gaussian import gaussian
from nzc.accounting.induction import (
    LARGEST,
    NO_LIMIT,
    OF_DELTA,
    Bit,
    Laws,
    Limit,
    after_all,
    chord,
    epsilon_of,
    extended,
    induced,
)
from nzc.accounting.kinds import Hint, Kind
from nzc.types import Floats, FloatsPair

#: A block has at most so many queries, fewer where shifts are above 2. Its law keeps losses up to ε
#: at this share of δ, divided by the blocks, and adds so much to V by rounding.
_BLOCK = 200
_SHARE = 1e-3
_OF_BLOCK = 1e-12
#: Queries, and screens, get a grid of their own where others have so much larger shifts.
_LESS, _LESS_SCREENED = 2, 10
_LEAST = 1e-6  # of the largest shift: smaller ones are raised to it, which reveals more
#: So many labels alone are composed without blocks, more than _BLOCK of them on a coarser grid.
_ALONE = 2_000
_MOST = 100_000  # more queries get another bound
#: Up to so many pairs of a query and an answer, answers are counted one by one. For more, V is
#: multiplied by e^−penalty in all, shared equally by the answers, and the best penalty is taken.
_COUNTED = 1_000
_PENALTIES = 3.5, 6.0
#: Where tangents touch the Gaussian curve, besides the ends, and how many touch the other one.
_Z = np.concatenate([np.arange(-7.0, -4), np.arange(-4, -2, 0.5), np.arange(-2, 0.1, 0.25)])
_TANGENTS = 25
_TIE = float(np.sqrt(2 / np.pi))  # the loss of a bit at a tie, in units of μ


class _Bound(NamedTuple):
    """What is known of releases of one kind."""

    unit: float  # the size at which a bit at a tie has the loss of Gaussian noise at μ = 1
    largest: float  # larger sizes get another bound
    far: float  # what one adds to V at most, beside the laws that stand for it
    bands: Callable[[float, float, float], list[Laws]] | None = None  # laws of labels; None: a bit


_GAUSSIAN = _Bound(
    1.0, gaussian_argmax.LARGEST_MU, gaussian_argmax.FAR, gaussian_argmax.gaussian_bands
)
_BOUNDS = {
    Kind.LABEL: _GAUSSIAN,
    Kind.SCREENED: _GAUSSIAN,
    Kind.LAPLACE: _Bound(
        _TIE, laplace_argmax.LARGEST, laplace_argmax.FAR, laplace_argmax.laplace_bands
    ),
    Kind.BIT: _Bound(1.0, 2.0, 4 * 7e-16),  # step 1
    Kind.FLIP: _Bound(_TIE / 2, 14 * _TIE, 4 * 7e-16),
    Kind.RANGE: _Bound(2 * _TIE, 12 * _TIE, 4 * 7e-16),
}

#: So many queries, and what each shows: a bit, a label, or a bit and a label where that passes.
Queries = tuple[int, tuple[Hint, ...]]
_Groups = tuple[Queries, ...]
#: The laws of a label on a grid, and the bit before it, for `induced`.
_Query = tuple[list[Laws], Bit | None]


@lru_cache(maxsize=256)  # a run asks for the same ε several times
def epsilon(
    groups: _Groups,
    delta: float,
    known: float = np.inf,
    limit: Limit = NO_LIMIT,
) -> float:
    """Return an upper bound on ε at δ of all queries in any order, for any votes; inf: unknown.

    known  an ε that is not below it, which sets the grid
    limit  of a single group: see `induced`
    """
    queries = 0
    variance = 0.0
    far = 0.0
    largest = 0.2
    for count, releases in groups:
        far_of_query = 0.0
        for hint in releases:
            bound = _BOUNDS[hint.kind]
            if hint.size > bound.largest:
                return np.inf
            far_of_query += bound.far
        queries += count
        shifts = _shifts(releases)
        variance += count * np.sum(np.square(shifts))
        largest = max(largest, *shifts)
        far += count * far_of_query
    blocks = _blocks(groups, limit)
    left = delta * (1 - OF_DELTA) - far
    if blocks != [1]:
        left -= sum(blocks) * _OF_BLOCK
    if queries > _MOST or left < delta / 2:
        return np.inf
    known = min(known, gaussian(float(np.sqrt(variance)), delta))
    if not 0 < known <= LARGEST * 5 * largest:
        return np.inf
    return _by_induction(groups, blocks, known, delta, left, limit)


def together(parts: Sequence[tuple[int, Hint]], delta: float) -> float:
    """Return an upper bound on ε at δ of so many releases in any order; inf: none found."""
    counts: Counter[Hint] = Counter()
    for count, hint in parts:
        counts[hint] += count
    groups = {hint: (count, (hint,)) for hint, count in counts.items()}
    found = epsilon(tuple(groups.values()), delta)
    bits = [hint for hint in counts if hint.kind is Kind.BIT]
    labels = [hint for hint in counts if hint.kind is Kind.SCREENED]
    if len(bits) == len(labels) == 1:
        bit, label = *bits, *labels
        screens = groups.pop(bit)[0], (bit, label)
        answers = groups.pop(label)[0]
        found = min(found, epsilon((screens, *groups.values()), delta))
        if 4 * answers < screens[0] and not groups:
            found = min(found, _limited(screens, answers, delta, found))
    return found


def _limited(screens: Queries, answers: int, delta: float, known: float) -> float:
    """Return ε at δ of screens that end with so many answers; `known` is an ε above it."""
    if screens[0] * answers <= _COUNTED:
        return epsilon((screens,), delta, known, (answers, 0.0))
    bounds = []
    for penalty in _PENALTIES:
        discount = float(np.exp(-penalty / answers))
        left = delta * float(np.exp(-penalty))
        bounds.append(epsilon((screens,), left, known, (0, discount)))
    return min(bounds)


def _shifts(releases: tuple[Hint, ...]) -> list[float]:
    """Return mean shifts of Gaussian noise whose bits at a tie have the losses of these."""
    return [hint.size / _BOUNDS[hint.kind].unit for hint in releases]


def _is_whole(groups: _Groups, limit: Limit) -> bool:
    """Return whether these are labels alone, or a limit, few enough to do without blocks."""
    count, (hint, *_) = groups[0]
    labels = limit != NO_LIMIT or hint.kind in (Kind.LABEL, Kind.LAPLACE)
    few = 0
    if labels:
        few = _ALONE
    elif hint.kind is Kind.FLIP:
        few = _BLOCK
    return len(groups) == 1 and count <= few


def _blocks(groups: _Groups, limit: Limit) -> list[int]:
    """Return into how many blocks each group is divided; [1]: all are composed query by query."""
    if _is_whole(groups, limit):
        return [1]
    return [
        ceil(count / _BLOCK * max(2.0, *_shifts(releases)) ** 2 / 4) for count, releases in groups
    ]


def _by_induction(
    groups: _Groups,
    blocks: list[int],
    known: float,
    delta: float,
    left: float,
    limit: Limit,
) -> float:
    """Return ε at what is `left` of δ; `known` is an upper bound, which sets the grid."""
    largest = max(max(_shifts(releases)) for _, releases in groups)
    cells = 8  # so many steps of the grid are the largest loss at a tie
    highest = np.inf
    if _is_whole(groups, limit):
        queries = groups[0][0]
        cells = 5 if queries > _BLOCK else 8
        if limit == NO_LIMIT:
            highest = max(0.4, 15 / queries**0.5)
    step = _TIE * largest / cells
    below = int((1.25 * known + 2 * largest) / step)
    above = int((0.35 * known + 4 * largest) / step)
    grid = step * np.arange(-below, above + 1.0)
    value = after_all(grid)
    for (count, releases), number in zip(groups, blocks, strict=True):
        # Queries that show much less than others become laws on a grid of their own.
        shifts = _shifts(releases)
        less = _LESS_SCREENED if releases[0].kind in (Kind.BIT, Kind.SCREENED) else _LESS
        scale = max(*shifts, _LEAST * largest)
        if scale >= largest / less:
            scale = largest
        own_step = _TIE * scale / cells
        laws, bit = _query(releases, scale, own_step, highest)
        if blocks != [1]:
            size = ceil(count / number)
            mu = np.hypot.reduce(shifts) * np.sqrt(size)
            reach = min(gaussian(mu, delta * _SHARE / sum(blocks)), LARGEST) + 2 * scale
            block = _block(size, (laws, bit), limit, own_step, int(reach / own_step), step)
            value = induced(value, number, [block])
        else:
            value = induced(value, count, laws, bit, limit)
    return epsilon_of(value, grid, left) * (1 + 1e-9)


def _query(releases: tuple[Hint, ...], scale: float, step: float, highest: float) -> _Query:
    """Return the laws of a label on a grid, and the bit, for `induced`.

    Sizes that are tiny beside the shift `scale` are raised, so that they show on the grid: more is
    revealed. `highest` is as for `dominating.merged`.
    """
    laws: list[Laws] = []
    bit = None
    for hint in releases:
        bound = _BOUNDS[hint.kind]
        if bound.bands is None:
            bit = _bit(hint.kind, max(hint.size, scale / 1e3), step)
        else:
            laws = bound.bands(max(hint.size, scale / 10 * bound.unit), step, highest)
    return laws, bit


def _block(
    queries: int,
    query: _Query,
    limit: Limit,
    own: float,
    reach: int,
    step: float,
) -> Laws:
    """Return the law that dominates so many queries, made on a grid of steps `own`.

    It is put on a grid of steps `step`, by chords in s.
    """
    below = int(1.3 * reach)
    value = induced(after_all(own * np.arange(-below, 2 * reach + 1.0)), queries, *query, limit)
    s = ratios(own, reach)
    curve = value[below - reach : below + reach + 1][::-1] - np.maximum(1 - s, 0.0)
    if own < step:  # beyond the ends the curve is below its value there
        wide = ratios(step, ceil(reach * own / step))
        curve = np.interp(wide, s, curve)
        s = wide
    return laws_of(curve[None], s)


@lru_cache(maxsize=8)
def _bit(kind: Kind, size: float, step: float) -> Bit:
    """Return V before a bit, from V after a label and V without one."""
    p, q = _corners(kind, size)
    offsets, share = chord(np.log(p / q), step)
    low = (p * share)[..., None]
    high = (p * (1 - share))[..., None]
    pad = int(np.abs(offsets).max()) + 1

    def before(answered: Floats, abstained: Floats) -> Floats:
        total = np.zeros((1, 1))
        for outcome, value in enumerate((answered, abstained)):
            windows = sliding_window_view(extended(value, pad, pad), len(value))
            cells = offsets[outcome] + pad
            total = total + low[outcome] * windows[cells] + high[outcome] * windows[cells + 1]
        return np.max([total.max(axis=0), answered, abstained], axis=0)

    return before


def _corners(kind: Kind, size: float) -> FloatsPair:
    """Return p and q [outcomes, corners] of the corners that enclose a curve and its mirror image.

    The outcomes are the bit and its complement.
    """
    if kind is Kind.FLIP:
        loser = np.exp([0.0, -size, -2 * size]) / 2
        winner = 1 - loser
        return rounded(np.stack([winner, loser]), np.stack([loser[::-1], winner[::-1]]))
    if kind is Kind.RANGE:
        t = np.linspace(size, 0, _TANGENTS)
        slope = np.exp(2 * t - size)
        whole = -np.expm1(-size)
        first = -np.expm1(t - size)
        curve = np.stack([first, np.exp(-t) * first]) / whole
        rest = np.stack([np.exp(-size) * np.expm1(t), -np.expm1(-t)]) / whole
    else:
        z = np.concatenate([[-8 - size / 2], _Z, -_Z[-2::-1], [8 + size / 2]])
        slope = np.exp(-size * z)
        means = np.stack([z + size / 2, z - size / 2])
        curve = ndtr(means)
        rest = ndtr(-means)
    fall_p, fall_q = np.where(curve[:, 1:] < 0.5, np.diff(curve), -np.diff(rest))
    # Between two points of the curve their tangents meet where q has fallen by `first`.
    first = np.clip((fall_p - slope[1:] * fall_q) / (slope[:-1] - slope[1:]), 0.0, fall_q)
    inside = curve[:, :-1] + [slope[:-1] * first, first]
    outside = [rest[0, 1:] + slope[1:] * (fall_q - first), rest[1, 1:] + fall_q - first]
    corners = np.stack([inside, outside])
    return rounded(corners.reshape(2, -1), corners[:, ::-1].reshape(2, -1))
