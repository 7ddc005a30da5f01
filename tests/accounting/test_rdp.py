"""From Rényi costs to ε: against dp-accounting, and against dense grids of orders."""

import math
from itertools import product

import numpy as np
from conftest import parametrize
from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon
from pytest import approx

from nzc.accounting.data_independent import (
    WorstCaseCost,
    bounded_range_cost,
    gaussian_cost,
    pure_cost,
)
from nzc.accounting.rdp import _LARGEST, CHOICES, adaptive_epsilon, cks, to_epsilon

DELTAS = (1e-3, 1e-5, 1e-8)
FEW = np.array([1.02, 1.3, 1.75, 2, 3.25, 8, 31.5, 64, 500, 1024, 1e5])
DENSE = 1 + np.geomspace(0.011, 1e5, 4_001)


@parametrize("cost", [gaussian_cost(1 / 3), pure_cost(1.0), bounded_range_cost(0.5)])
def test_the_conversion_is_that_of_dp_accounting(cost: WorstCaseCost) -> None:
    """Which shares no code with nzc: order by order, and the smallest ε of all orders."""
    compared = 0
    for count, delta in product((1, 30, 1000), (*DELTAS, 0.1)):
        for order, spent in zip(FEW, count * cost.rdp(FEW), strict=True):
            if delta**2 < -math.expm1(-spent):  # else dp-accounting says 0, by another divergence
                peer, _ = compute_epsilon([order], [spent], delta)
                found = float(cks(spent, order, delta))
                assert max(0.0, found) == approx(peer, rel=1e-9, abs=1e-12)
                compared += 1
        if delta < 0.1:
            peer, _ = compute_epsilon(DENSE, count * cost.rdp(DENSE), delta)
            found, _ = to_epsilon(lambda orders, count=count: count * cost.rdp(orders), delta)
            assert found == approx(peer, rel=1e-3)
    assert compared > 80


def _settings(count: int):
    """Yield Rényi costs and δ: tiny costs, and costs that are infinite from some order on."""
    rng = np.random.default_rng(0)
    for number in range(count):
        delta = 10 ** rng.uniform(-12, -0.5)
        scale = 10 ** rng.uniform(-4, 1)
        times = int(10 ** rng.uniform(0, 3))
        finite_below = 1 + 10 ** rng.uniform(-2, 2.5)
        kinds = [
            WorstCaseCost(lambda orders, rho=scale**3: rho * orders),
            pure_cost(scale),
            bounded_range_cost(scale),
            WorstCaseCost(
                lambda orders, rho=scale, end=finite_below: np.where(
                    orders < end, rho * orders, np.inf
                )
            ),
        ]
        cost = kinds[number % len(kinds)]
        if number % len(kinds) == 0:
            times = 1
        yield (lambda orders, cost=cost, times=times: times * cost.rdp(orders)), delta


def test_the_best_order_is_found_to_a_thousandth() -> None:
    """Second route: the smallest of 40,001 orders over the whole range."""
    dense = 1 + np.geomspace(1e-4, _LARGEST, 40_001)
    for rdp, delta in _settings(200):
        true = max(0.0, float(cks(rdp(dense), dense, delta).min()))
        found, order = to_epsilon(rdp, delta)
        assert true * (1 - 1e-3) <= found <= true * (1 + 1e-3)
        # It is a bound: ε of one order.
        assert found == max(0.0, cks(rdp(np.array([order])), np.array([order]), delta)[0])
    assert to_epsilon(lambda orders: np.full(len(orders), np.inf), 1e-5)[0] == np.inf


def test_an_order_that_is_chosen_late_has_its_part_of_delta_only() -> None:
    """Second route: the conversion of one order, written out, at δ divided by their number."""
    for rho, delta in ((1e-4, 1e-5), (0.02, 1e-5), (0.5, 1e-9), (30.0, 1e-2)):
        part = delta / len(CHOICES)
        by_order = []
        for order in CHOICES.tolist():
            missed = math.log(part) + math.log(order)
            by_order.append(rho * order + math.log(1 - 1 / order) - missed / (order - 1))
        assert adaptive_epsilon(rho * CHOICES, delta) == approx(min(by_order), rel=1e-12)
