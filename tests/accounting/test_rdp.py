"""From Rényi costs to ε: against dp-accounting, and against dense grids of orders."""

import math
from itertools import product

import numpy as np
import pytest
from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon
from scipy.special import ndtri

from nzc.accounting import sanitised
from nzc.accounting.data_dependent import gaussian_bound, laplace_bound
from nzc.accounting.data_independent import (
    WorstCaseCost,
    bounded_range_cost,
    gaussian_cost,
    pure_cost,
)
from nzc.accounting.rdp import _LARGEST, CHOICES, ORDERS, adaptive_epsilon, cks, to_epsilon
from nzc.labeling.ledger import Ledger
from nzc.labeling.ledger_entry import total_epsilon
from nzc.labeling.run_ledger import RunLedger

DELTAS = (1e-3, 1e-5, 1e-8)
FEW = np.array([1.02, 1.3, 1.75, 2, 3.25, 8, 31.5, 64, 500, 1024, 1e5])
DENSE = 1 + np.geomspace(0.011, 1e5, 4_001)


@pytest.mark.parametrize("cost", [gaussian_cost(1 / 3), pure_cost(1.0), bounded_range_cost(0.5)])
def test_the_conversion_is_that_of_dp_accounting(cost: WorstCaseCost) -> None:
    """Which shares no code with nzc: order by order, and the smallest ε of all orders."""
    compared = 0
    for count, delta in product((1, 30, 1000), (*DELTAS, 0.1)):
        for order, spent in zip(FEW, count * cost.rdp(FEW), strict=True):
            if delta**2 < -math.expm1(-spent):  # else dp-accounting says 0, by another divergence
                peer, _ = compute_epsilon([order], [spent], delta)
                found = float(cks(spent, order, delta))
                assert max(0.0, found) == pytest.approx(peer, rel=1e-9, abs=1e-12)
                compared += 1
        if delta < 0.1:
            peer, _ = compute_epsilon(DENSE, count * cost.rdp(DENSE), delta)
            found, _ = to_epsilon(lambda orders, count=count: count * cost.rdp(orders), delta)
            assert found == pytest.approx(peer, rel=1e-3)
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
    calls = []
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
    assert to_epsilon(lambda orders: np.full(len(orders), np.inf), 1e-5)[0] == np.inf
    # A call takes seconds at the votes of thousands of queries.
    assert np.mean(calls) < 2.5
    assert max(calls) <= 6


def test_an_order_that_is_chosen_late_has_its_part_of_delta_only() -> None:
    """Second route: the conversion of one order, written out, at δ divided by their number."""
    for rho, delta in ((1e-4, 1e-5), (0.02, 1e-5), (0.5, 1e-9), (30.0, 1e-2)):
        part = delta / len(CHOICES)
        by_order = []
        for order in CHOICES.tolist():
            missed = math.log(part) + math.log(order)
            by_order.append(rho * order + math.log(1 - 1 / order) - missed / (order - 1))
        assert adaptive_epsilon(rho * CHOICES, delta) == pytest.approx(min(by_order), rel=1e-12)


# How loose the bare grid may be, where costs are stored or chosen at its orders alone: ledger,
# filter and plan.

STEPS = 50
_PLACES = np.arange((len(ORDERS) - 1) * STEPS + 1) / STEPS
FINE = 1 + np.exp(np.interp(_PLACES, np.arange(len(ORDERS)), np.log(ORDERS - 1)))
#: How much larger ε may be by the bare grid than at the best order of a 50 times finer one.
LOOSE = 1.013


def test_no_cost_of_the_ledger_is_looser_than_a_fine_grid_by_more_than_a_percent(tmp_path) -> None:
    run = RunLedger(tmp_path / "ledger.db", "run", None, "system", 0, 1, "one differs")
    costs = [gaussian_cost(mu) for mu in np.geomspace(1e-3, 15, 29)]
    costs += [pure_cost(epsilon) for epsilon in np.geomspace(1e-3, 2, 11)]
    for number, cost in enumerate(costs):
        run.add(str(number), cost, labels=b"")
    entries = Ledger(tmp_path / "ledger.db").entries("run")
    for (entry, cost), delta in product(zip(entries, costs, strict=True), DELTAS):
        best = float(cks(cost.rdp(FINE), FINE, delta).min())
        if 0.005 < best < 200:
            assert best * (1 - 1e-9) <= total_epsilon([entry], delta) <= best * LOOSE


def test_orders_chosen_late_are_no_further_apart_than_four_percent_of_epsilon() -> None:
    for rho, delta in product(np.geomspace(1e-6, 3, 40), DELTAS):
        whole = cks(rho * FINE, FINE, delta).min()
        part = cks(rho * FINE, FINE, delta / len(CHOICES)).min()
        if 0.01 < whole < 30:
            found = adaptive_epsilon(rho * CHOICES, delta)
            assert part * (1 - 1e-9) <= found <= 1.04 * part
            assert found <= np.interp(np.log(whole), np.log([0.1, 1]), [2.1, 1.75]) * whole


def test_a_sanitised_plan_expects_no_more_than_the_best_of_fine_orders_and_noises() -> None:
    noises = np.geomspace(0.5, 50, 5 * 59 + 1)[:, None]
    fine = FINE[::5]
    bounds = (gaussian_bound(20.0), gaussian_bound(600.0), laplace_bound(0.05))
    for bound, queries, delta in product(bounds, (1, 100, 1000), DELTAS):
        chosen = sanitised.plan([(queries, bound)], delta)
        spent = 0.2 * queries * bound.worst_case(np.array([chosen.order]))[0]
        expected = chosen.convert(spent * np.exp(chosen.beta * chosen.margin), delta)
        growth = np.exp(-chosen.beta * noises * ndtri(delta / 10))
        released = 0.2 * queries * bound.worst_case(fine) * growth
        best = float(cks(released + fine / (2 * noises**2), fine, 0.9 * delta).min())
        if best < 30:
            assert best * (1 - 1e-9) <= expected <= best * LOOSE
