"""Continuous noise of one's own costs what its law says."""

import numpy as np
from conftest import parametrize
from own_noise import UNIT, Own, pure
from pytest import approx, raises
from scipy import stats

from nzc.accounting.exact import error_of
from nzc.mechanisms import NoisyArgmax
from nzc.mechanisms.noise import ExponentialNoise, GaussianNoise, GumbelNoise, LaplaceNoise
from nzc.validation import InputError


@parametrize(
    ("law", "ours"),
    [
        (stats.norm(), GaussianNoise(UNIT)),
        (stats.laplace(), LaplaceNoise(1 / UNIT)),
        (stats.gumbel_r(), GumbelNoise(1 / UNIT)),
        (stats.expon(), ExponentialNoise(1 / UNIT)),
    ],
)
def test_a_law_of_ones_own_costs_what_is_known_of_it(law, ours):
    votes = np.array([[84, 83, 83], [250, 0, 0], [60, 40, 20]])
    orders = np.array([1.5, 2.0, 8.0, 64.0])
    own = NoisyArgmax(Own(law))
    found = own.log_law(votes)[:, :-1]
    true = NoisyArgmax(ours).log_law(votes)[:, :-1]
    assert (np.abs(found - true) <= 2 * error_of(true)).all()
    cost = np.minimum(own.exact(votes).per_query(orders), ours.worst_case(1).rdp(orders))
    expected = NoisyArgmax(ours).exact(votes).per_query(orders)
    np.testing.assert_allclose(cost, expected, rtol=1e-6)


@parametrize("gap", [0, 5000])
def test_a_law_with_heavy_tails(gap):
    """The difference of two Cauchy variables is another of twice the scale."""
    found = NoisyArgmax(Own(stats.cauchy())).log_law(np.array([[gap, 0]]))[0, 1]
    assert found == approx(stats.cauchy.logsf(gap, scale=2 * UNIT), rel=1e-12)


def test_a_law_that_does_not_sum_to_one_is_refused(monkeypatch):
    monkeypatch.setattr(Own, "log_density", lambda noise, x: noise.law.logpdf(x) + 1e-4)
    with raises(InputError, match="must have a law that sums to one"):
        NoisyArgmax(Own(stats.norm())).cost([[120, 100, 30]], [0]).epsilon(1e-5)


@parametrize("guard", [0.0, 1e-300])
def test_a_guarded_logarithm_does_not_lower_the_cost(guard):
    mechanism = NoisyArgmax(Own(stats.expon(), pure(1.0), guard=guard))
    epsilon = mechanism.cost(np.array([[130, 120, 0]] * 20), np.zeros(20, int)).epsilon(1e-5)
    # With a guard of 1e-300 it was 1.201.
    assert 1.2308 < epsilon.exact_lower <= epsilon.exact < 1.2332
