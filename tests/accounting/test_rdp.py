"""From Rényi costs to ε: against dp-accounting, and the best order against dense grids of orders."""

import math
from functools import partial
from itertools import product

import numpy as np
import pytest
from dp_accounting import (
    GaussianDpEvent,
    LaplaceDpEvent,
    NeighboringRelation,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
)
from dp_accounting.rdp import RdpAccountant
from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon
from scipy.special import gammaln, logsumexp, ndtri

import nzc
from nzc.accounting import sanitised
from nzc.accounting.data_dependent import gaussian_bound, laplace_bound
from nzc.accounting.data_independent import bounded_range_rdp, gaussian_cost, pure_cost, pure_rdp
from nzc.accounting.privacy_filter import renyi_filter
from nzc.accounting.rdp import _LARGEST, CHOICES, ORDERS, adaptive_epsilon, cks, to_epsilon
from nzc.labeling.ledger import Ledger
from nzc.labeling.ledger_entry import total_epsilon
from nzc.labeling.run_ledger import RunLedger
from nzc.mechanisms.sparse_vector import SparseScreen

DELTAS = (1e-3, 1e-5, 1e-8)


def _settings(count: int):
    """Yield costs, orders → [orders], and δ: tiny ones, and sharp ones, which are infinite from
    some order on.
    """
    rng = np.random.default_rng(0)
    for at in range(count):
        delta, scale, times = (
            10 ** rng.uniform(-12, -0.5),
            10 ** rng.uniform(-4, 1),
            int(10 ** rng.uniform(0, 3)),
        )
        sparse = SparseScreen(
            threshold=1e3, sigma1=10 ** rng.uniform(-0.6, 2.5), cutoff=times
        ).worst_case()
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
    assert (
        np.mean(calls) < 2.5 and max(calls) <= 6
    )  # a call takes seconds at the votes of thousands of queries


def test_an_order_that_is_chosen_late_has_its_part_of_delta_only() -> None:
    """Second route: the conversion of one order, written out, where each order may lose δ divided
    by their number.
    """
    for rho, delta in ((1e-4, 1e-5), (0.02, 1e-5), (0.5, 1e-9), (30.0, 1e-2)):
        part = delta / len(CHOICES)
        by_order = []
        for order in CHOICES.tolist():
            missed = math.log(part) + math.log(order)
            by_order.append(rho * order + math.log(1 - 1 / order) - missed / (order - 1))
        assert abs(adaptive_epsilon(rho * CHOICES, delta) / min(by_order) - 1) < 1e-12


# dp-accounting, which shares no code with nzc: the conversion of one order, and the smallest ε.


def _gaussian(orders: np.ndarray) -> np.ndarray:
    return gaussian_cost(1 / 3).rdp(orders)


def _laplace(orders: np.ndarray) -> np.ndarray:
    """Laplace noise of scale 2 on a count (Mironov 2017, Proposition 6)."""
    up, down = np.log(orders / (2 * orders - 1)), np.log((orders - 1) / (2 * orders - 1))
    return np.asarray(np.logaddexp(up + (orders - 1) / 2, down - orders / 2) / (orders - 1))


def _sampled(orders: np.ndarray) -> np.ndarray:
    """Gaussian noise of deviation 2 on a Poisson sample of 1 % (Mironov, Talwar, Zhang 2019), at
    whole orders.
    """
    costs = []
    for order in orders.tolist():
        k = np.arange(order + 1)
        choose = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
        costs.append(
            logsumexp(choose + (order - k) * np.log(0.99) + k * np.log(0.01) + k * (k - 1) / 8)
        )
    return np.array(costs) / (orders - 1)


WHOLE = np.array([2.0, 3, 5, 8, 17, 32, 64, 128, 256])
ANY = np.array([1.02, 1.3, 1.75, 2, 3.25, 8, 31.5, 64, 500, 1024, 1e5])
ONE, REPLACED = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
EVENTS = {
    "gaussian": (GaussianDpEvent(3), ONE, _gaussian, ANY),
    "laplace": (LaplaceDpEvent(2), ONE, _laplace, ANY),
    "response": (
        RandomizedResponseDpEvent(2 / (1 + math.e), 2),
        REPLACED,
        partial(pure_rdp, 1.0),
        ANY,
    ),
    "sampled": (PoissonSampledDpEvent(0.01, GaussianDpEvent(2)), ONE, _sampled, WHOLE),
}


@pytest.mark.parametrize("name", EVENTS)
def test_every_order_converts_as_in_dp_accounting(name: str) -> None:
    """And together they have its ε and its order."""
    event, relation, rdp, orders = EVENTS[name]
    compared = 0
    for count, delta in product((1, 30, 1000), (*DELTAS, 0.1)):
        costs = count * rdp(orders)
        found = cks(costs, orders, delta)
        for order, epsilon, cost in zip(
            orders.tolist(), found.tolist(), costs.tolist(), strict=True
        ):
            if delta**2 < -math.expm1(
                -cost
            ):  # else dp-accounting says 0, by the Kullback-Leibler divergence
                peer = RdpAccountant([order], relation).compose(event, count)
                assert max(0.0, epsilon) == pytest.approx(
                    peer.get_epsilon(delta), rel=1e-9, abs=1e-12
                )
                compared += 1
        if delta**2 < -math.expm1(-costs.min()):
            best = int(found.argmin())
            peer = RdpAccountant(orders.tolist(), relation).compose(event, count)
            assert peer.get_epsilon_and_optimal_order(delta) == (
                pytest.approx(max(0, found[best])),
                orders[best],
            )
    assert compared > 80


@pytest.mark.parametrize("name", ["gaussian", "laplace", "response"])
def test_the_smallest_epsilon_is_that_of_dp_accounting_on_dense_orders(name: str) -> None:
    """`to_epsilon` chooses orders by itself, and has them all: within a thousandth of 4,001 orders."""
    _, _, rdp, _ = EVENTS[name]
    dense = 1 + np.geomspace(0.011, 1e5, 4_001)
    for count, delta in product((1, 30, 1000), DELTAS):
        peer, _ = compute_epsilon(dense.tolist(), (count * rdp(dense)).tolist(), delta)
        found, _ = to_epsilon(lambda orders, times=count: times * rdp(orders), delta)
        assert found == pytest.approx(peer, rel=1e-3)


# How loose the bare grid may be, where costs are stored or chosen at its orders alone: ledger,
# filter and plan.

STEPS = 50
FINE = 1 + np.exp(
    np.interp(
        np.arange((len(ORDERS) - 1) * STEPS + 1) / STEPS, np.arange(len(ORDERS)), np.log(ORDERS - 1)
    )
)
#: By the best order of a 50 times finer grid, up to which the row holds: how much larger ε may be,
#: relatively.
LOOSE = {1.5: 0.003, 4.0: 0.013, 32.0: 0.003, 1024.0: 0.0015, math.inf: 0.0035}
COSTS = [gaussian_cost(mu) for mu in np.geomspace(1e-3, 15, 29)] + [
    pure_cost(eps) for eps in np.geomspace(1e-3, 2, 11)
]


def _loose(order: float) -> float:
    """How much larger ε may be by the bare grid than at the best order."""
    return next(loose for largest, loose in LOOSE.items() if order <= largest)


def _seen(orders: list[float]) -> bool:
    """Whether the best orders lie in all parts of the grid that usual runs meet."""
    return all(np.histogram(orders, [1, 4, 32, 1024, _LARGEST])[0] > 5)


def test_no_cost_of_the_ledger_is_looser_than_a_fine_grid_by_more_than_a_percent(tmp_path) -> None:
    ledger, orders = Ledger(tmp_path / "ledger.db"), []
    own = RunLedger(ledger.path, "run", None, "system", 0, 1, "one differs")
    for number, cost in enumerate(COSTS):
        own.add(str(number), cost, labels=b"")
    for number, (entry, cost) in enumerate(zip(ledger.entries("run"), COSTS, strict=True)):
        for delta in DELTAS:
            values = cks(cost.rdp(FINE), FINE, delta)
            best = float(values.min())
            if 0.005 < best < 200:
                orders.append(float(FINE[values.argmin()]))
                total = total_epsilon([entry], delta)
                assert best * (1 - 1e-9) <= total <= best * (1 + _loose(orders[-1])), (
                    number,
                    orders[-1],
                )
    assert _seen(orders)


def test_a_release_is_added_to_a_ledger_at_no_coarser_orders(tmp_path) -> None:
    """By `Ledger.add`, as a library has it."""
    ledger, orders = Ledger(tmp_path / "ledger.db"), []
    for sigma in (0.7, 3.0, 20.0, 90.0):
        mechanism, votes = nzc.CountsGaussian(sigma), np.array([[3, 2]])
        counts = mechanism.release(votes, rng=np.random.default_rng(0))
        ledger.add(str(sigma), mechanism.cost(votes, counts))
        values = cks(FINE / sigma**2, FINE, 1e-5)
        orders.append(float(FINE[values.argmin()]))
        assert (
            values.min() * (1 - 1e-9)
            <= ledger.total(str(sigma), 1e-5)
            <= values.min() * (1 + _loose(orders[-1]))
        )
    assert np.histogram(orders, [1, 4, 32, 1024])[0].all()


def test_orders_chosen_late_are_no_further_apart_than_four_percent_of_epsilon() -> None:
    for rho, delta in product(np.geomspace(1e-6, 3, 40), DELTAS):
        whole, part = (
            float(cks(rho * FINE, FINE, share).min()) for share in (delta, delta / len(CHOICES))
        )
        if 0.01 < whole < 30:
            found = adaptive_epsilon(rho * CHOICES, delta)
            assert part * (1 - 1e-9) <= found <= 1.04 * part
            assert found <= (2.1 if whole < 0.1 else 1.75 if whole < 1 else 1.4) * whole


def test_a_filter_admits_what_the_best_order_of_a_fine_grid_admits() -> None:
    orders = []
    for gamma, sigma1, delta, epsilon in product(
        np.geomspace(1e-4, 1, 23), (10, 1e4), DELTAS, (0.03, 0.3, 1, 8)
    ):
        chosen = renyi_filter(epsilon, delta, ORDERS / (2 * sigma1**2), pure_rdp(2 * gamma, ORDERS))
        price = FINE / (2 * sigma1**2) + pure_rdp(2 * gamma, FINE)
        room = (epsilon - cks(np.zeros(len(FINE)), FINE, delta)) / price
        most = float(room.max())
        if most > 1:
            orders.append(float(FINE[room.argmax()]))
            admitted = chosen.budget / (chosen.ask + chosen.answer)
            assert most * (1 - _loose(orders[-1])) <= admitted <= most * (1 + 1e-9), orders[-1]
    assert np.histogram(orders, [1.5, 4, 32, 1024, _LARGEST])[0].all()


def test_a_sanitised_plan_expects_no_more_than_the_best_of_fine_orders_and_noises() -> None:
    noises, fine, orders = np.geomspace(0.5, 50, 5 * 59 + 1)[:, None], FINE[::5], []
    bounds = [gaussian_bound(sigma) for sigma in (4.0, 20.0, 60.0, 150.0, 600.0, 1000.0)]
    bounds += [laplace_bound(0.05), laplace_bound(0.001)]
    for bound, queries, delta in product(bounds, (1, 100, 1000), DELTAS):
        chosen = sanitised.plan([(queries, bound)], delta)
        spent = 0.2 * queries * bound.worst_case(np.array([chosen.order]))[0]
        expected = chosen.convert(spent * np.exp(chosen.beta * chosen.margin), delta)
        released = (
            0.2
            * queries
            * bound.worst_case(fine)
            * np.exp(-chosen.beta * noises * ndtri(delta / 10))
        )
        values = cks(released + fine / (2 * noises**2), fine, 0.9 * delta)
        best = float(values.min())
        if best < 30:
            orders.append(float(fine[values.argmin() % len(fine)]))
            assert best * (1 - 1e-9) <= expected <= best * (1 + _loose(orders[-1])), orders[-1]
    assert np.histogram(orders, [1.5, 4, 32, 1024])[0].all()
