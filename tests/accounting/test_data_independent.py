"""Bounds from public facts, each against a second route."""

import mpmath as mp
import numpy as np
from conftest import parametrize
from scipy.optimize import minimize_scalar

from nzc.accounting.cost import Cost
from nzc.accounting.data_independent import (
    bounded_range_rdp,
    gaussian_cost,
    optimal_pure,
    pure_rdp,
)
from nzc.accounting.gaussian import gaussian
from nzc.accounting.rdp import to_epsilon


@parametrize(
    ("epsilon0", "releases", "delta"),
    [(0.1, 30, 1e-5), (0.5, 7, 1e-3), (2.0, 3, 0.01), (0.1, 400, 1e-6)],
)
def test_optimal_composition_spends_exactly_delta(epsilon0, releases, delta):
    """δ of k-fold randomised response in 40 digits: at most δ, and no smaller ε would do."""

    def delta_at(epsilon):
        e = mp.exp(mp.mpf(epsilon0))
        terms = (
            mp.binomial(releases, k) * max(0, e ** (releases - k) - mp.exp(epsilon) * e**k)
            for k in range(releases + 1)
        )
        return mp.fsum(terms) / (1 + e) ** releases

    found = optimal_pure(epsilon0, releases, delta)
    by_renyi, _ = to_epsilon(lambda orders: releases * pure_rdp(epsilon0, orders), delta)
    assert found <= min(releases * epsilon0, by_renyi)
    with mp.workdps(40):
        assert delta_at(found) <= delta < delta_at(found * (1 - 1e-7))


@parametrize("order", [1.01, 2.0, 10.0, 1e6])
@parametrize("epsilon0", [1e-100, 1e-10, 0.1, 1.0, 600.0])
def test_pure_privacy_costs_what_randomised_response_does(epsilon0, order):
    """In digits enough for what is left of e^ε₀ − 1."""
    found = pure_rdp(epsilon0, np.array([order]))[0]
    with mp.workdps(250):
        e = mp.exp(mp.mpf(epsilon0))
        p = e / (1 + e)
        q = 1 / (1 + e)
        a = mp.mpf(order)
        true = mp.log(p**a * q ** (1 - a) + q**a * p ** (1 - a)) / (a - 1)
        assert true <= found <= true * (1 + 1e-11) + mp.mpf("1e-300")


@parametrize(
    ("mu", "delta"),
    [
        (1e-9, 1e-11),
        (1e-9, 1e-100),
        (1e-3, 1e-5),
        (0.1, 1e-8),
        (0.3, 1e-80),
        (1.0, 1e-5),
        (5.0, 1e-8),
        (40.0, 1e-5),
    ],
)
def test_gaussian_noise_leaks_no_more_than_delta(mu, delta):
    """Balle and Wang's δ(ε) in 60 digits, at the ε found."""
    with mp.workdps(60):
        epsilon = mp.mpf(gaussian(mu, delta))
        m = mp.mpf(mu)

        def delta_at(eps):
            return mp.ncdf(-eps / m + m / 2) - mp.exp(eps) * mp.ncdf(-eps / m - m / 2)

        assert delta_at(epsilon) <= delta < delta_at(epsilon * (1 - mp.mpf("1e-3")))
        assert mu < 1e-3 or delta_at(epsilon) >= delta * (1 - mp.mpf("1e-6"))
        cost = Cost(10, None, (), ((1, gaussian_cost(mu / 10**0.5)),)) * 10
        assert mu < 1e-3 or 0 <= cost.delta(epsilon).data_independent / delta_at(epsilon) - 1 < 2e-4


@parametrize("eta", [1e-4, 0.01, 0.1, 1.0, 5.0])
@parametrize("order", [1.01, 1.5, 2.0, 10.0, 200.0])
def test_bounded_range_is_the_worst_of_two_outcomes(eta, order):
    def log_moment(t):
        """Losses t with probability q under the second law and t − η else."""
        q = np.expm1(eta - t) / np.expm1(eta)  # so that the first law sums to one
        return np.logaddexp(np.log(q) + order * t, np.log1p(-q) + order * (t - eta))

    options = {"xatol": 1e-12 * eta}
    best = minimize_scalar(
        lambda t: -log_moment(t), bounds=(0, eta), method="bounded", options=options
    )
    worst = -best.fun / (order - 1)
    found = bounded_range_rdp(eta, np.array([order]))[0]
    assert found >= worst - 1e-15 / (order - 1)
    assert found <= max(worst * 1.0001, worst + 1e-11) or order * eta**2 / 8 == found
    assert found <= pure_rdp(eta, np.array([order]))[0] * (1 + 1e-12) + 1e-11
