"""ε of adaptive bits and labels, whatever the votes: what a screen, its labels, or the exponential
mechanism show.

Proof: docs/proofs.md, "Bits, screens with their labels, and blocks".
"""

from collections.abc import Sequence
from functools import lru_cache
from math import ceil

import numpy as np
from scipy.special import ndtr

from nzc.accounting import gaussian_argmax, laplace_argmax, sparse_reports
from nzc.accounting.induction import (
    LARGEST,
    OF_DELTA,
    ROUNDING,
    Band,
    Bit,
    after_all,
    by_moments,
    epsilon_of,
    induced,
    laws,
)
from nzc.accounting.shown import Kind, Shown, gaussian
from nzc.types import Floats

#: A block has at most so many queries. Its law keeps losses up to ε at this share of δ, divided by
#: the blocks.
_BLOCK, _SHARE = 200, 1e-3
#: So many labels alone are composed without blocks, more than _BLOCK of them on a coarser grid.
_ALONE = 2_000
#: What a bit adds to V at most (step 1), and what a block adds by rounding.
_FAR, _OF_BLOCK = 4 * 7e-16, 1e-12
#: Larger shifts, ranges, or numbers of queries get another bound.
_LARGEST, _MOST = 2.0, 100_000
#: Where tangents touch the Gaussian curve, besides the ends, and how many touch the other one.
_Z, _TANGENTS = (
    np.concatenate([np.arange(-7.0, -4), np.arange(-4, -2, 0.5), np.arange(-2, 0.1, 0.25)]),
    25,
)
_TIE = float(np.sqrt(2 / np.pi))  # the loss of a bit at a tie, in units of μ
_BITS = (Kind.BIT, Kind.RANGE)

#: So many queries, each with a bit, and a label where that passes; None: without.
Queries = tuple[int, Shown | None, Shown | None]


@lru_cache(maxsize=256)  # a run asks for the same ε several times
def epsilon(groups: tuple[Queries, ...], delta: float) -> float:
    """Return an upper bound on ε at δ of all queries in any order, for any votes; inf where it is
    not known.
    """
    alone = (
        len(groups) == 1
        and groups[0][2] is not None
        and groups[0][2].kind in (Kind.LABEL, Kind.LAPLACE)
        and groups[0][0] <= _ALONE
    )
    blocks = [1 if alone else ceil(count / _BLOCK) for count, _, _ in groups]
    sizes = [(_size(bit), _size(label)) for _, bit, label in groups]
    queries, largest = sum(count for count, _, _ in groups), max(map(max, sizes))
    mu = float(
        np.sqrt(
            sum(
                group[0] * np.sum(np.square(size))
                for group, size in zip(groups, sizes, strict=True)
            )
        )
    )
    left = delta * (1 - OF_DELTA) - sum(count * _far(bit, label) for count, bit, label in groups)
    left -= 0 if blocks == [1] else sum(blocks) * _OF_BLOCK
    if (
        queries > _MOST
        or left < delta / 2
        or not all(_may(shown) for group in groups for shown in group[1:])
    ):
        return np.inf
    known = gaussian(mu, delta)
    (_, bit, label), *others = groups
    if known > LARGEST and not others and bit is None and label is not None:
        step = _TIE * largest / 8
        return by_moments(_labels(label, 0.0, step, np.inf), queries, step, left)
    if not 0 < known <= LARGEST:
        return np.inf
    step = _TIE * largest / (5 if alone and queries > _BLOCK else 8)
    grid = step * np.arange(
        -int((1.25 * known + 2 * largest) / step), int((0.35 * known + 4 * largest) / step) + 1.0
    )
    value, highest = (
        after_all(grid),
        max(0.4, 15 / queries**0.5) if alone else np.inf,
    )  # which β matter
    for (count, bit, label), number, size in zip(groups, blocks, sizes, strict=True):
        # Queries that show much less than others become laws on a grid of their own.
        apart = max(size) < largest / 10
        scale, own_step = (max(size), _TIE * max(size) / 8) if apart else (largest, step)
        # Tiny shifts are raised, so that they show on the grid: more is revealed.
        of_labels = (
            ()
            if label is None
            else _labels(label, scale / 10 * label.size / size[1], own_step, highest)
        )
        of_bit = None if bit is None else _bit(bit.kind, max(bit.size, scale / 1e3), own_step)
        if blocks == [1]:
            value = induced(value, count, of_labels, of_bit)
            continue
        each = ceil(count / number)
        reach = (
            gaussian(float(np.hypot(*size) * np.sqrt(each)), delta * _SHARE / sum(blocks))
            + 2 * scale
        )
        law = _block(each, of_labels, of_bit, own_step, int(reach / own_step), step)
        value = induced(value, number, [law])
    return epsilon_of(value, grid, left)


def together(parts: Sequence[tuple[int, Shown]], delta: float, known: float) -> float:
    """Return an upper bound on ε at δ of so many releases in any order; inf: none found. `known` is
    another one.
    """
    counts: dict[Shown, int] = {}
    for count, shown in parts:
        counts[shown] = counts.get(shown, 0) + count
    if any(shown.kind is Kind.REPORT for shown in counts):
        (first, count), *others = counts.items()
        return np.inf if others else sparse_reports.epsilon(count, first.size, delta, known)
    is_bit = {shown: shown.kind in _BITS for shown in counts}
    apart = {
        shown: (count, shown, None) if is_bit[shown] else (count, None, shown)
        for shown, count in counts.items()
    }
    found = [epsilon(tuple(apart.values()), delta)]
    bits, labels = (
        [shown for shown in counts if shown.kind is kind] for kind in (Kind.BIT, Kind.SCREENED)
    )
    if len(bits) == len(labels) == 1:
        (bit,), (label,) = bits, labels
        behind = [
            (counts[bit], bit, label),
            *(group for shown, group in apart.items() if shown not in (bit, label)),
        ]
        found.append(epsilon(tuple(behind), delta))
    return min(found)


def _size(shown: Shown | None) -> float:
    """Return the mean shift of Gaussian noise whose bit at a tie has this loss."""
    if shown is None:
        return 0.0
    return shown.size / {Kind.RANGE: 2 * _TIE, Kind.LAPLACE: _TIE}.get(shown.kind, 1.0)


def _may(shown: Shown | None) -> bool:
    """Return whether V is known for releases of this size."""
    if shown is None or shown.kind is Kind.LAPLACE:
        return shown is None or shown.size <= laplace_argmax.LARGEST
    return _size(shown) <= (_LARGEST if shown.kind in _BITS else gaussian_argmax.LARGEST_MU)


def _far(bit: Shown | None, label: Shown | None) -> float:
    """Return what a query adds to V beside the laws that stand for it."""
    far = 0.0 if label is None else gaussian_argmax.FAR
    if label is not None and label.kind is Kind.LAPLACE:
        far = laplace_argmax.FAR
    return far if bit is None else far + _FAR


def _labels(label: Shown, least: float, step: float, highest: float) -> Sequence[Band]:
    bands = laplace_argmax.bands if label.kind is Kind.LAPLACE else gaussian_argmax.bands
    return bands(max(label.size, least), step, highest)


def _block(
    queries: int, of_labels: Sequence[Band], bit: Bit | None, own: float, reach: int, step: float
) -> Band:
    """Return the law that dominates so many queries, made on a grid of steps `own` and put on one
    of steps `step`.
    """
    grid = np.asarray(own * np.arange(-int(1.3 * reach), 2 * reach + 1), dtype=np.float64)
    value = induced(after_all(grid), queries, of_labels, bit)
    at = slice(int(1.3 * reach) - reach, int(1.3 * reach) + reach + 1)
    s = np.exp(-grid[at][::-1])
    curve = value[at][::-1] - np.maximum(1 - s, 0.0)
    if own < step:  # a chord in s; beyond the ends the curve is below its value there
        reach = ceil(reach * own / step)
        wide = np.exp(step * np.arange(-reach, reach + 1))
        curve, s = np.interp(wide, s, curve), wide
    p, infinite = laws(curve[None], s)
    return -reach, slice(None), p, infinite


@lru_cache(maxsize=8)
def _bit(kind: Kind, size: float, step: float) -> Bit:
    """Return V before a bit, from V after a label and V without one."""
    inside, outside = _corners(kind, size)
    terms = []
    for p, q in (inside, outside):
        loss = np.log(p / q) / step
        offset = np.floor(loss).astype(np.int64)
        upward = -np.expm1((offset - loss) * step) / -np.expm1(-step)  # a chord in e^−ℓ
        terms.append((offset, (p * (1 - upward))[:, None], (p * upward)[:, None]))
    pad = int(max(np.abs(offset).max() for offset, _, _ in terms)) + 1

    def before(answered: Floats, abstained: Floats) -> Floats:
        total = np.zeros((1, 1))
        for value, (offset, low, high) in zip((answered, abstained), terms, strict=True):
            padded = np.concatenate([np.full(pad, value[0]), value, np.ones(pad)])
            windows = np.lib.stride_tricks.sliding_window_view(padded, len(value))
            total = total + low * windows[offset + pad] + high * windows[offset + pad + 1]
        return np.asarray(np.maximum(total.max(axis=0), answered))

    return before


def _corners(kind: Kind, size: float) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    """Return p and q of the corners [corners] that enclose a curve and its mirror image; and 1 − p
    and 1 − q.
    """
    if kind is Kind.RANGE:
        t = np.linspace(size, 0, _TANGENTS)
        whole, slope = -np.expm1(-size), np.exp(2 * t - size)
        p, q = -np.expm1(t - size) / whole, np.exp(-t) * -np.expm1(t - size) / whole
        rest_p, rest_q = np.exp(-size) * np.expm1(t) / whole, -np.expm1(-t) / whole
    else:
        z = np.concatenate([[-8 - size / 2], _Z, -_Z[-2::-1], [8 + size / 2]])
        slope = np.exp(-size * z)
        p, q, rest_p, rest_q = (
            ndtr(at) for at in (z + size / 2, z - size / 2, -z - size / 2, size / 2 - z)
        )
    fall_p, fall_q = (
        np.where(low[1:] < 0.5, np.diff(low), -np.diff(high))
        for low, high in ((p, rest_p), (q, rest_q))
    )
    first = np.clip((fall_p - slope[1:] * fall_q) / (slope[:-1] - slope[1:]), 0.0, fall_q)
    p, q = p[:-1] + slope[:-1] * first, q[:-1] + first
    rest_p, rest_q = rest_p[1:] + slope[1:] * (fall_q - first), rest_q[1:] + fall_q - first
    inside, outside = (
        (np.append(one, other) * (1 + ROUNDING), np.append(other, one) * (1 - ROUNDING))
        for one, other in ((p, q), (rest_p, rest_q))
    )
    return inside, outside
