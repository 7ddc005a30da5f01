"""From Rényi divergence to (ε, δ): which ε does a total Rényi cost imply?"""

from collections.abc import Callable

import numpy as np

from nzc._types import Floats

_SMALLEST, _LARGEST = 1 + 1e-4, 1e7
#: The grid of orders α: fine where the optimum usually lies, and on to where log(1/δ)/α is nothing, for what is added
#: at these very orders (ledger, filter) and may cost next to nothing. `epsilon` extends it at either edge.
ORDERS: Floats = np.concatenate([
    1 + np.geomspace(0.01, 0.5, 20, endpoint=False), np.arange(1.5, 32, 0.25),
    np.geomspace(32, 1024, 120), np.geomspace(1024, _LARGEST, 81)[1:],
])  # fmt: skip
#: How ε follows from a Rényi cost: (rdp, orders, δ) → ε at each order.
Conversion = Callable[[Floats, Floats, float], Floats]


def mironov(rdp: Floats, orders: Floats, delta: float) -> Floats:
    """ε at each order: ρ(α) + log(1/δ)/(α − 1). Mironov 2017, Proposition 3."""
    return np.asarray(rdp - np.log(delta) / (orders - 1))


def cks(rdp: Floats, orders: Floats, delta: float) -> Floats:
    """ε at each order, never above Mironov's. Canonne, Kamath, Steinke 2020, Proposition 12."""
    return rdp + np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)


def epsilon(
    rdp: Callable[[Floats], Floats],
    delta: float,
    orders: Floats = ORDERS,
    convert: Conversion = cks,
) -> tuple[float, float]:
    """The smallest ε over orders, and its order.

    `rdp` gives the total cost at any orders; where the optimum sits at the edge of the grid, the grid is extended.
    Infinite cost at every order gives (inf, nan).
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
