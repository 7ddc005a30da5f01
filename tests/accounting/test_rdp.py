"""From Rényi costs to ε: the best order, against a dense grid of orders."""

import math

import numpy as np

from nzc.accounting.data_independent import bounded_range_rdp, pure_rdp
from nzc.accounting.rdp import _LARGEST, CHOICES, ORDERS, adaptive_epsilon, cks, to_epsilon
from nzc.mechanisms.sparse_vector import SparseScreen


def _settings(count: int):
    """Yield costs, orders → [orders], and δ: tiny ones, and sharp ones, which are infinite from some order on."""
    rng = np.random.default_rng(0)
    for at in range(count):
        delta, scale, times = 10 ** rng.uniform(-12, -0.5), 10 ** rng.uniform(-4, 1), int(10 ** rng.uniform(0, 3))
        sparse = SparseScreen(threshold=1e3, sigma1=10 ** rng.uniform(-0.6, 2.5), cutoff=times).worst_case()
        kinds = [
            lambda orders, rho=scale**3: rho * orders,
            lambda orders, eps=scale, times=times: times * pure_rdp(eps, orders),
            lambda orders, eta=scale, times=times: times * bounded_range_rdp(eta, orders),
            lambda orders, sparse=sparse, times=times: times * sparse.rdp(orders),
        ]
        yield kinds[at % len(kinds)], delta


def test_the_best_order_is_found_to_a_thousandth() -> None:
    """Second route: the smallest of 40,001 orders over the whole range."""
    dense, grid, calls = 1 + np.geomspace(1e-4, _LARGEST, 40_001), [], []
    for rdp, delta in _settings(200):
        true = max(0.0, float(cks(rdp(dense), dense, delta).min()))
        calls.append(0)

        def counted(orders: np.ndarray, rdp=rdp) -> np.ndarray:
            calls[-1] += 1
            return rdp(orders)

        found, order = to_epsilon(counted, delta)
        assert true * (1 - 1e-3) <= found <= true * (1 + 1e-3)
        # It is a bound: ε of one order.
        assert found == max(0.0, cks(rdp(np.array([order])), np.array([order]), delta)[0])
        if 0 < true < np.inf:
            grid.append(cks(rdp(ORDERS), ORDERS, delta).min() / true)
    assert to_epsilon(lambda orders: np.full(len(orders), np.inf), 1e-5)[0] == np.inf
    assert max(grid) > 1.02  # what the grid alone would give
    assert np.mean(calls) < 2.5 and max(calls) <= 6  # a call takes seconds at the votes of thousands of queries


def test_an_order_that_is_chosen_late_has_its_part_of_delta_only() -> None:
    """Second route: the conversion of one order, written out, where each order may lose δ divided by their number."""
    for rho, delta in ((1e-4, 1e-5), (0.02, 1e-5), (0.5, 1e-9), (30.0, 1e-2)):
        part = delta / len(CHOICES)
        by_order = []
        for order in CHOICES.tolist():
            missed = math.log(part) + math.log(order)
            by_order.append(rho * order + math.log(1 - 1 / order) - missed / (order - 1))
        assert abs(adaptive_epsilon(rho * CHOICES, delta) / min(by_order) - 1) < 1e-12
