"""Rényi differential privacy: the grid of orders, and conversion of a Rényi cost to (ε, δ)."""

from collections.abc import Callable

import numpy as np

from nzc.types import Floats

_SMALLEST, _LARGEST = 1 + 1e-4, 1e7
#: The grid of Rényi orders α. It is dense where the best order usually lies. It extends to 1e7, because the ledger and
#: the privacy filter add costs at these orders only, and a very small cost is best converted at a very large order.
ORDERS: Floats = np.concatenate([
    1 + np.geomspace(0.01, 0.5, 20, endpoint=False), np.arange(1.5, 32, 0.25),
    np.geomspace(32, 1024, 120), np.geomspace(1024, _LARGEST, 81)[1:],
])  # fmt: skip
#: A conversion: (rdp [..., orders], orders, δ) → ε at each order.
Conversion = Callable[[Floats, Floats, float], Floats]


def mironov(rdp: Floats, orders: Floats, delta: float) -> Floats:
    """Return ρ(α) + log(1/δ)/(α − 1) for each order (Mironov 2017, Proposition 3)."""
    return np.asarray(rdp - np.log(delta) / (orders - 1))


def cks(rdp: Floats, orders: Floats, delta: float) -> Floats:
    """Return ε for each order; never above `mironov` (Canonne, Kamath, Steinke 2020, Proposition 12)."""
    return rdp + np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)


#: The orders among which `adaptive_epsilon` chooses, about a factor 1.5 apart in α − 1.
CHOICES: Floats = ORDERS[np.searchsorted(ORDERS, 1 + 1.5 ** np.arange(-2, 19))]


def adaptive_epsilon(rdp: Floats, delta: float) -> float:
    """Return ε at δ of releases that were chosen one after another, from their total Rényi cost [len(CHOICES)].

    The total depends on the labels released before, so the best order does, too. Each order α holds by itself at its
    part of δ: E exp((α − 1)(L − Σρ(α))) ≤ 1 for the privacy loss L (Feldman and Zrnic 2021), and the parts add up to δ
    however an order is chosen.
    """
    return max(0.0, float(cks(rdp, CHOICES, delta / len(CHOICES)).min()))


def to_epsilon(
    rdp: Callable[[Floats], Floats], delta: float, orders: Floats = ORDERS, convert: Conversion = cks
) -> tuple[float, float]:
    """Return the smallest ε over all orders, and the order at which it is reached.

    `rdp` maps orders to the total Rényi cost, [orders]. The grid is extended where the best order is at its edge.
    A cost that is infinite at every order gives (inf, nan).
    """
    best, at = _best(rdp(orders), orders, delta, convert)
    while np.isfinite(best) and at == orders[-1] < _LARGEST:
        orders = np.geomspace(orders[-1], orders[-1] * 32, 120)
        best, at = min((best, at), _best(rdp(orders), orders, delta, convert))
    while np.isfinite(best) and at == orders[0] > _SMALLEST:
        orders = 1 + np.geomspace((orders[0] - 1) / 32, orders[0] - 1, 60)
        best, at = min((best, at), _best(rdp(orders), orders, delta, convert))
    return max(best, 0.0), at


def _best(rdp: Floats, orders: Floats, delta: float, convert: Conversion) -> tuple[float, float]:
    values = convert(rdp, orders, delta)
    k = int(np.argmin(values))
    return (float(values[k]), float(orders[k])) if np.isfinite(values[k]) else (np.inf, np.nan)
