"""Compositions against dp-accounting's privacy loss distributions, which share no code with nzc."""

from functools import partial

import numpy as np
from conftest import parametrize
from dp_accounting.pld import privacy_loss_distribution as pld
from pytest import approx

from nzc.accounting import data_independent
from nzc.mechanisms import NoisyArgmax
from nzc.mechanisms.presets import (
    NZC,
    Confident,
    Counts,
    CountsGaussian,
    GNMax,
    Gumbel,
    LNMax,
    NZCGaussian,
    Sums,
)

DELTA = 1e-5
gaussian = partial(pld.from_gaussian_mechanism, value_discretization_interval=1e-4)


def peer(*parts: tuple[pld.PrivacyLossDistribution, int]) -> float:
    """ε of so many releases of each distribution; its grid rounds losses up."""
    composed, *others = [release.self_compose(count) for release, count in parts]
    for other in others:
        composed = composed.compose(other)
    return float(composed.get_epsilon_for_delta(DELTA))


def labels(
    mechanism: NoisyArgmax, here: list[int], there: list[int]
) -> pld.PrivacyLossDistribution:
    """The loss of one label of two classes."""
    laws = [dict(enumerate(mechanism.log_law(np.array([votes]))[0, :2])) for votes in (here, there)]
    return pld.from_two_probability_mass_functions(*laws, value_discretization_interval=1e-5)


def test_gaussian_noise() -> None:
    """A moved vote changes two counts by one, and a screen's statistic by one."""
    counts = peer((gaussian(40, sensitivity=np.sqrt(2)), 100))
    for mechanism in (CountsGaussian(40), NZCGaussian(c=4, sigma=200)):
        assert mechanism.worst_case_epsilon(100, DELTA) == approx(counts, rel=1e-4)
    parts = Confident(200, 150, 40).promise(640, 286).worst_case
    noise = peer((gaussian(150), 640), (gaussian(40, sensitivity=np.sqrt(2)), 286))
    assert data_independent.compose_worst_cases(parts, DELTA, rough=True) == approx(noise, rel=1e-4)
    # One bit and one class tell less than the noisy numbers.
    assert data_independent.compose_worst_cases(parts, DELTA) < noise


@parametrize("sigma", [3.0])
def test_sums(sigma: float) -> None:
    """A replaced unit moves them by 2, in two releases that share the cost; labels are free."""
    mechanism = Sums(sigma)
    parts = [gaussian(sigma / share**0.5, sensitivity=2) for share in (0.05, 0.95)]
    found = mechanism.promise(5000, 5000).data_independent(DELTA)
    assert found == approx(peer((parts[0], 1), (parts[1], 1)), rel=1e-3)
    cost = mechanism.cost(np.zeros((9, 2)), np.zeros(50, np.int64))
    assert cost.epsilon(DELTA).exact == cost.data_independent(DELTA) == found


@parametrize("mechanism", [Counts(0.5), NZC(c=4, gamma=0.1)], ids=repr)
def test_laplace_noise(mechanism: NoisyArgmax, gamma: float = 0.5, releases: int = 20) -> None:
    """Two counts change by one.

    nzc knows of each that it is pure; randomised response is the worst of what is.
    """
    found = mechanism.worst_case_epsilon(releases, DELTA)
    flip = 2 / (1 + np.exp(gamma))
    response = pld.from_randomized_response(flip, 2, value_discretization_interval=1e-5)
    laplace = pld.from_laplace_mechanism(1 / gamma, value_discretization_interval=1e-5)
    assert found == approx(peer((response, 2 * releases)), rel=4e-3)
    assert peer((laplace, 2 * releases)) < found
    assert found == data_independent.optimal_pure(gamma, 2 * releases, DELTA)


@parametrize(
    ("mechanism", "first", "second", "queries"),
    [(LNMax(0.05), 140, 110, 20), (GNMax(40), 180, 70, 30), (Gumbel(0.05), 140, 110, 100)],
)
def test_exact_composition(mechanism: NoisyArgmax, first: int, second: int, queries: int) -> None:
    """Of queries with equal votes, between their two neighbours: ε lies between nzc's bounds."""
    votes = np.tile([first, second], (queries, 1))
    epsilon = mechanism.cost(votes, np.zeros(queries, int)).epsilon(DELTA)
    worst = max(
        peer((labels(mechanism, [first, second], [first + moved, second - moved]), queries))
        for moved in (-1, 1)
    )
    assert epsilon.exact is not None
    assert epsilon.exact_lower is not None
    assert epsilon.exact_lower <= worst <= epsilon.exact < 1.02 * epsilon.exact_lower
