"""Rényi differential privacy: the grid of orders, and conversion of a Rényi cost to (ε, δ)."""

from collections.abc import Callable

import numpy as np

from nzc.types import Floats

#: Maps orders to a Rényi cost at them, [orders].
RenyiCost = Callable[[Floats], Floats]

_SMALLEST = 1 + 1e-4
_LARGEST = 1e7
#: The grid of Rényi orders α, dense where the best one usually lies. The ledger and the privacy
#: filter add costs at these orders only, and a very small cost is best converted at a very large
#: order.
ORDERS: Floats = np.concatenate(
    [
        1 + np.geomspace(0.01, 0.5, 20, endpoint=False),
        np.arange(1.5, 32, 0.25),
        np.geomspace(32, 1024, 120),
        np.geomspace(1024, _LARGEST, 81)[1:],
    ]
)
_ENOUGH = 1e-3  # `to_epsilon` stops so near the smallest ε, relatively
_ROUNDS = 12  # or after so many refinements
_SPREAD = 1 + 1.5 ** np.arange(-2, 19)
#: The orders among which `adaptive_epsilon` chooses, about a factor 1.5 apart in α − 1.
CHOICES: Floats = ORDERS[np.searchsorted(ORDERS[:-1], _SPREAD)]


def cks(rdp: Floats, orders: Floats, delta: float | Floats) -> Floats:
    """Return ε at δ for each order (Canonne, Kamath, Steinke 2020, Proposition 12)."""
    return rdp + np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)


def adaptive_epsilon(rdp: Floats, delta: float) -> float:
    """Return ε at δ of releases that were chosen one after another.

    `rdp` is their total Rényi cost, [len(CHOICES)].
    """
    # The best order then depends on labels released before. Each order α holds by itself at its
    # part of δ: E exp((α − 1)(L − Σρ(α))) ≤ 1 for the privacy loss L (Feldman and Zrnic 2021); the
    # parts add up to δ.
    return max(0.0, float(cks(rdp, CHOICES, delta / len(CHOICES)).min()))


def to_epsilon(rdp: RenyiCost, delta: float, orders: Floats = ORDERS) -> tuple[float, float]:
    """Return the smallest ε over all orders, to 0.1 %, and its order.

    The grid is extended and refined; every order gives a bound. (inf, nan): all costs are infinite.
    """
    values = cks(rdp(orders), orders, delta)
    for _ in range(_ROUNDS):
        more = _further_orders(orders, values)
        if not len(more):
            break
        places = np.searchsorted(orders, more)
        orders = np.insert(orders, places, more)
        values = np.insert(values, places, cks(rdp(more), more, delta))
    best = int(np.argmin(values))
    if not np.isfinite(values[best]):
        return np.inf, np.nan
    return max(float(values[best]), 0.0), float(orders[best])


def _further_orders(orders: Floats, values: Floats) -> Floats:
    """Return the orders that may have a smaller ε than all `values`; none: it is near enough."""
    ahead = orders - 1
    best = int(np.argmin(values))
    if not 0 < values[best] < np.inf:
        return ahead[:0]
    if best == len(orders) - 1 and orders[-1] < _LARGEST:
        return np.geomspace(orders[-1], orders[-1] * 32, 120)[1:]
    if best == 0 and orders[0] > _SMALLEST:
        return 1 + np.geomspace(ahead[0] / 32, ahead[0], 60)[:-1]
    places = range(max(best - 1, 0), min(best + 1, len(orders) - 1))
    lowest = min(_lowest_between(ahead, values, place) for place in places)
    if values[best] <= (1 + _ENOUGH) * lowest:
        return ahead[:0]
    between = [np.geomspace(ahead[place], ahead[place + 1], 5)[1:-1] for place in places]
    return 1 + np.concatenate(between)


def _lowest_between(ahead: Floats, values: Floats, place: int) -> float:
    """Return a lower bound on ε between the orders `place` and `place + 1`; `ahead` is α − 1."""
    # (α − 1) ε(α) is convex, and so above the lines through the two orders before and the two
    # orders after.
    lines = []
    for first in (place - 1, place + 1):
        t = ahead[first : first + 2]
        height = t * values[first : first + 2]
        if first >= 0 and len(t) == 2 and np.isfinite(height).all():
            slope = float((height[1] - height[0]) / (t[1] - t[0]))
            lines.append((slope, float(height[0] - slope * t[0])))
    low, high = points = ahead[place : place + 2].tolist()
    if len(lines) == 2 and lines[0][0] != lines[1][0]:
        (slope, offset), (other, shift) = lines
        points.append(min(max((offset - shift) / (other - slope), low), high))
    highest = np.full(len(points), -np.inf)
    for slope, offset in lines:
        highest = np.maximum(highest, slope + offset / np.array(points))
    return float(highest.min())
