"""Bounds from public facts, each against a second route."""

from functools import partial

import mpmath as mp
import numpy as np
from conftest import parametrize
from dp_accounting.pld import privacy_loss_distribution as pld
from pytest import approx
from scipy.optimize import minimize_scalar

from nzc.accounting import data_independent
from nzc.accounting.data_independent import (
    bounded_range_rdp,
    optimal_pure,
    pure_rdp,
)
from nzc.accounting.rdp import to_epsilon
from nzc.mechanisms.presets import (
    NZC,
    Confident,
    Counts,
    CountsGaussian,
    NZCGaussian,
    Sums,
)


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


DELTA = 1e-5
gaussian = partial(pld.from_gaussian_mechanism, value_discretization_interval=1e-4)


def peer(*parts):
    """ε of so many releases of each distribution; its grid rounds losses up."""
    composed, *others = [release.self_compose(count) for release, count in parts]
    for other in others:
        composed = composed.compose(other)
    return float(composed.get_epsilon_for_delta(DELTA))


def test_gaussian_noise():
    """A moved vote changes two counts by one, and a screen's statistic by one."""
    counts = peer((gaussian(40, sensitivity=np.sqrt(2)), 100))
    for mechanism in (CountsGaussian(40), NZCGaussian(c=4, sigma=200)):
        assert mechanism.worst_case_epsilon(100, DELTA) == approx(counts, rel=1e-4)
    parts = Confident(200, 150, 40).promise(640, 286).worst_case
    noise = peer((gaussian(150), 640), (gaussian(40, sensitivity=np.sqrt(2)), 286))
    assert data_independent.compose_worst_cases(parts, DELTA, rough=True) == approx(noise, rel=1e-4)
    # One bit and one class tell less than the noisy numbers.
    assert data_independent.compose_worst_cases(parts, DELTA) < noise


def test_sums(sigma=3.0):
    """A replaced unit moves them by 2, in two releases that share the cost; labels are free."""
    mechanism = Sums(sigma)
    parts = [gaussian(sigma / share**0.5, sensitivity=2) for share in (0.05, 0.95)]
    found = mechanism.promise(5000, 5000).data_independent(DELTA)
    assert found == approx(peer((parts[0], 1), (parts[1], 1)), rel=1e-3)
    cost = mechanism.cost(np.zeros((9, 2)), np.zeros(50, np.int64))
    assert cost.epsilon(DELTA).exact == cost.data_independent(DELTA) == found


@parametrize("mechanism", [Counts(0.5), NZC(c=4, gamma=0.1)], ids=repr)
def test_laplace_noise(mechanism, gamma=0.5, releases=20):
    """Two counts change by one.

    nzc knows of each that it is pure; randomised response is the worst of what is.
    """
    found = mechanism.worst_case_epsilon(releases, DELTA)
    flip = 2 / (1 + np.exp(gamma))
    response = pld.from_randomized_response(flip, 2, value_discretization_interval=1e-4)
    laplace = pld.from_laplace_mechanism(1 / gamma, value_discretization_interval=1e-4)
    assert found == approx(peer((response, 2 * releases)), rel=4e-3)
    assert peer((laplace, 2 * releases)) < found
    assert found == data_independent.optimal_pure(gamma, 2 * releases, DELTA)
