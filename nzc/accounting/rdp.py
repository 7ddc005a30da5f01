"""Rényi differential privacy: the grid of orders, and conversion of a Rényi cost to (ε, δ)."""

from collections.abc import Callable

import numpy as np

from nzc.types import Floats

_SMALLEST, _LARGEST = 1 + 1e-4, 1e7
#: The grid of Rényi orders α, dense where the best one usually lies. The ledger and the privacy
#: filter add costs at these orders only, and a very small cost is best converted at a very large
#: order.
ORDERS: Floats = np.concatenate([
    1 + np.geomspace(0.01, 0.5, 20, endpoint=False), np.arange(1.5, 32, 0.25),
    np.geomspace(32, 1024, 120), np.geomspace(1024, _LARGEST, 81)[1:],
])  # fmt: skip
_ENOUGH, _ROUNDS = (
    1e-3,
    12,
)  # `to_epsilon` stops so near the smallest ε, relatively, or after so many refinements


def cks(rdp: Floats, orders: Floats, delta: float) -> Floats:
    """Return ε at δ for each order (Canonne, Kamath, Steinke 2020, Proposition 12)."""
    return rdp + np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)


#: The orders among which `adaptive_epsilon` chooses, about a factor 1.5 apart in α − 1.
CHOICES: Floats = ORDERS[np.searchsorted(ORDERS, 1 + 1.5 ** np.arange(-2, 19))]


def adaptive_epsilon(rdp: Floats, delta: float) -> float:
    """Return ε at δ of releases that were chosen one after another, from their total Rényi cost
    [len(CHOICES)].
    """
    # The best order then depends on labels released before. Each order α holds by itself at its
    # part of δ: E exp((α − 1)(L − Σρ(α))) ≤ 1 for the privacy loss L (Feldman and Zrnic 2021); the
    # parts add up to δ.
    return max(0.0, float(cks(rdp, CHOICES, delta / len(CHOICES)).min()))


def to_epsilon(
    rdp: Callable[[Floats], Floats], delta: float, orders: Floats = ORDERS
) -> tuple[float, float]:
    """Return the smallest ε over all orders, to 0.1 %, and its order; (inf, nan) where all costs
    are infinite.

    `rdp` maps orders to the total Rényi cost, [orders]. The grid is extended and refined; every
    order gives a bound.
    """
    values = cks(rdp(orders), orders, delta)
    for _ in range(_ROUNDS):
        best = int(np.argmin(values))
        if not 0 < values[best] < np.inf:
            break
        if best == len(orders) - 1 and orders[-1] < _LARGEST:
            more = np.geomspace(orders[-1], orders[-1] * 32, 120)[1:]
        elif best == 0 and orders[0] > _SMALLEST:
            more = 1 + np.geomspace((orders[0] - 1) / 32, orders[0] - 1, 60)[:-1]
        else:
            edges = [at for at in (best - 1, best) if 0 <= at < len(orders) - 1]
            if values[best] <= (1 + _ENOUGH) * min(_lowest(orders - 1, values, at) for at in edges):
                break
            more = 1 + np.concatenate(
                [np.geomspace(orders[at] - 1, orders[at + 1] - 1, 5)[1:-1] for at in edges]
            )
        where = np.searchsorted(orders, more)
        orders, values = (
            np.insert(orders, where, more),
            np.insert(values, where, cks(rdp(more), more, delta)),
        )
    best = int(np.argmin(values))
    return (
        (max(float(values[best]), 0.0), float(orders[best]))
        if np.isfinite(values[best])
        else (np.inf, np.nan)
    )


def _lowest(ahead: Floats, values: Floats, at: int) -> float:
    """Return a lower bound on ε between the orders `at` and `at + 1`; `ahead` is α − 1."""
    # (α − 1) ε(α) is convex, and so above the lines through the two orders before and the two
    # orders after.
    lines = []
    for first in (at - 1, at + 1):
        t, g = ahead[first : first + 2], (ahead * values)[first : first + 2]
        if first >= 0 and len(t) == 2 and np.isfinite(g).all():
            slope = float((g[1] - g[0]) / (t[1] - t[0]))
            lines.append((slope, float(g[0] - slope * t[0])))
    ends = ahead[at : at + 2].tolist()
    if len(lines) == 2 and lines[0][0] != lines[1][0]:
        (slope, offset), (other, shift) = lines
        ends.append(min(max((offset - shift) / (other - slope), ends[0]), ends[1]))
    return min(max((slope + offset / t for slope, offset in lines), default=-np.inf) for t in ends)
