"""Bounds from public facts, each against a second route."""

import mpmath as mp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from nzc.accounting import data_independent as di
from nzc.accounting.data_independent import compose, gaussian, pure_rdp
from nzc.accounting.rdp import ORDERS, to_epsilon


@pytest.mark.parametrize(
    ("epsilon0", "releases", "delta"),
    [(0.1, 30, 1e-5), (0.5, 7, 1e-3), (2.0, 3, 0.01), (0.1, 400, 1e-6)],
)
def test_optimal_composition_spends_exactly_delta(epsilon0, releases, delta):
    """δ of k-fold randomised response at the ε found, summed in 40 digits: at most δ, and no
    smaller ε would do.
    """

    def delta_at(eps):
        e = mp.exp(mp.mpf(epsilon0))
        terms = (
            mp.binomial(releases, k) * max(0, e ** (releases - k) - mp.exp(eps) * e**k)
            for k in range(releases + 1)
        )
        return mp.fsum(terms) / (1 + e) ** releases

    found = di.optimal_pure(epsilon0, releases, delta)
    assert delta_at(found) <= delta < delta_at(found * (1 - 1e-7))
    assert found <= min(
        releases * epsilon0,
        to_epsilon(lambda orders: releases * pure_rdp(epsilon0, orders), delta)[0],
    )


@pytest.mark.parametrize("epsilon0", [1e-100, 1e-10, 0.1, 1.0, 600.0])
def test_pure_privacy_costs_what_randomised_response_does(epsilon0):
    """In digits enough for what is left of e^ε₀ − 1."""
    with mp.workdps(250):
        e = mp.exp(mp.mpf(epsilon0))
        p, q = e / (1 + e), 1 / (1 + e)
        for order, found in zip(
            (1.01, 2.0, 10.0, 1e6),
            pure_rdp(epsilon0, np.array([1.01, 2.0, 10.0, 1e6])),
            strict=True,
        ):
            a = mp.mpf(order)
            true = mp.log(p**a * q ** (1 - a) + q**a * p ** (1 - a)) / (a - 1)
            assert true <= found <= true * (1 + 1e-11) + mp.mpf("1e-300")


@pytest.mark.parametrize(
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
        eps, m = mp.mpf(gaussian(mu, delta)), mp.mpf(mu)

        def delta_at(eps):
            return mp.ncdf(-eps / m + m / 2) - mp.exp(eps) * mp.ncdf(-eps / m - m / 2)

        assert delta_at(eps) <= delta < delta_at(eps * (1 - mp.mpf("1e-3")))
        assert mu < 1e-3 or delta_at(eps) >= delta * (1 - mp.mpf("1e-6"))


def test_published_figures_of_exact_gaussian_composition():
    """GNMax, σ = 40, δ = 1e-5: 1, 10, 100, 1,000 queries, to one unit of the last printed digit."""
    for queries, printed in ((1, 0.110), (10, 0.385), (100, 1.357), (1000, 4.983)):
        assert gaussian(np.sqrt(2 * queries) / 40, 1e-5) == pytest.approx(printed, abs=1e-3)


@pytest.mark.parametrize("eta", [1e-4, 0.01, 0.1, 1.0, 5.0])
def test_bounded_range_is_the_worst_of_two_outcomes(eta):
    for order in (1.01, 1.5, 2.0, 10.0, 200.0):
        # Losses t with probability q under the second law and t − η else, so that the first law
        # sums to one.
        def log_moment(t, order=order):
            q = np.expm1(eta - t) / np.expm1(eta)
            return np.logaddexp(np.log(q) + order * t, np.log1p(-q) + order * (t - eta))

        at = minimize_scalar(
            lambda t: -log_moment(t),
            bounds=(0, eta),
            method="bounded",
            options={"xatol": 1e-12 * eta},
        )
        worst, found = -at.fun / (order - 1), di.bounded_range_rdp(eta, np.array([order]))[0]
        assert found >= worst - 1e-15 / (order - 1)
        assert found <= max(worst * 1.0001, worst + 1e-11) or order * eta**2 / 8 == found
        assert found <= pure_rdp(eta, np.array([order]))[0] * (1 + 1e-12) + 1e-11


def test_composition_takes_the_best_that_applies_and_refuses_the_rest():
    assert compose([(0, di.UNBOUNDED)], 1e-5) == 0
    assert compose([(5, di.gaussian_cost(1)), (1, di.UNBOUNDED)], 1e-5) == np.inf
    mixed = compose([(100, di.gaussian_cost(0.01)), (100, di.pure_cost(0.1))], 1e-5)
    apart = to_epsilon(lambda orders: 100 * (orders * 0.01**2 / 2 + pure_rdp(0.1, orders)), 1e-5)[0]
    assert mixed == apart
    assert compose([(1000, di.bounded_range_cost(0.1))], 1e-5) < compose(
        [(1000, di.pure_cost(0.1))], 1e-5
    )
    for release in (di.gaussian_cost, di.pure_cost, di.bounded_range_cost):
        assert np.isinf(release(np.inf).rdp(ORDERS)).all()
        assert compose([(1, release(1e100))], 1e-5) == np.inf
