"""From Rényi costs to ε: the best order, against a dense grid of orders."""

import numpy as np
import pytest

import nzc
from nzc.accounting.data_independent import bounded_range_rdp, pure_rdp
from nzc.accounting.rdp import _LARGEST, ORDERS, cks, mironov, to_epsilon
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
    assert max(grid) > 1.02  # what the grid alone would give
    assert np.mean(calls) < 2.5 and max(calls) <= 6  # a call takes seconds at the votes of thousands of queries


def test_the_order_of_a_linear_cost_is_the_closed_form() -> None:
    """The optimum of ρα at δ = 1e-5 by Mironov's conversion, far beyond the grid and close to 1."""
    for rho in (1e-8, 1e-3, 1.0, 1e4):
        found, order = to_epsilon(lambda orders, rho=rho: rho * orders, 1e-5, convert=mironov)
        assert found == pytest.approx(rho + 2 * np.sqrt(rho * np.log(1e5)), rel=2e-3)
        assert order == pytest.approx(1 + np.sqrt(np.log(1e5) / rho), rel=0.2)
    assert (cks(ORDERS / 100, ORDERS, 1e-5) <= mironov(ORDERS / 100, ORDERS, 1e-5)).all()
    assert to_epsilon(lambda orders: np.full(len(orders), np.inf), 1e-5)[0] == np.inf


@pytest.mark.parametrize("seed", range(3))
def test_the_best_order_of_exact_costs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    votes = rng.multinomial(40, rng.dirichlet(np.ones(3)), 2)
    for mechanism in (nzc.GNMax(0.3), nzc.LNMax(0.2), nzc.Gumbel(3.0)):
        total = mechanism.pricing.exact(votes).total
        found, order = to_epsilon(total, 1e-6)
        near = 1 + (order - 1) * np.geomspace(0.5, 2, 200)
        assert found <= (1 + 1e-3) * max(0.0, cks(total(near), near, 1e-6).min())
