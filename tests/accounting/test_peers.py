"""Compositions against dp-accounting's privacy loss distributions, which share no code with nzc."""

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from nzc.accounting import data_independent
from nzc.mechanisms import NoisyArgmax
from nzc.mechanisms.presets import Confident, Counts, CountsGaussian, GNMax, Gumbel, LNMax

DELTA = 1e-5


def peer(*parts: tuple[pld.PrivacyLossDistribution, int]) -> float:
    """ε of so many releases of each distribution; its grid rounds losses up."""
    first, *others = [one.self_compose(count) for one, count in parts]
    for other in others:
        first = first.compose(other)
    return float(first.get_epsilon_for_delta(DELTA))


def gaussian(sigma: float, moved: float) -> pld.PrivacyLossDistribution:
    return pld.from_gaussian_mechanism(sigma, sensitivity=moved, value_discretization_interval=1e-4)


def test_gaussian_noise() -> None:
    """A moved vote changes two counts by one, and a screen's statistic by one."""
    counts = CountsGaussian(40).promise(1000, 1000).data_independent(DELTA)
    assert counts == pytest.approx(peer((gaussian(40, np.sqrt(2)), 1000)), rel=1e-4)
    parts = Confident(200, 150, 40).promise(640, 286).worst_case
    noise = peer((gaussian(150, 1), 640), (gaussian(40, np.sqrt(2)), 286))
    assert data_independent.compose(parts, DELTA, rough=True) == pytest.approx(noise, rel=1e-4)
    assert (
        data_independent.compose(parts, DELTA) < noise
    )  # one bit and one class tell less than the noisy numbers


@pytest.mark.parametrize(("gamma", "releases"), [(0.05, 100), (0.05, 1000), (0.5, 20)])
def test_laplace_noise(gamma: float, releases: int) -> None:
    """Two counts change by one. nzc knows of each that it is pure; randomised response is the worst
    of what is.
    """
    found = Counts(gamma).promise(releases, releases).data_independent(DELTA)
    response = pld.from_randomized_response(
        2 / (1 + np.exp(gamma)), 2, value_discretization_interval=1e-5
    )
    laplace = pld.from_laplace_mechanism(1 / gamma, value_discretization_interval=1e-5)
    assert (
        peer((laplace, 2 * releases))
        < found
        == pytest.approx(peer((response, 2 * releases)), rel=4e-3)
    )
    assert found == data_independent.optimal_pure(gamma, 2 * releases, DELTA)


@pytest.mark.parametrize(("gamma", "releases"), [(0.05, 100), (0.02, 1000)])
def test_labels_with_laplace_noise(gamma: float, releases: int) -> None:
    """Two classes at a tie tell about most."""
    one, other = (
        np.exp(LNMax(gamma).log_law(np.array([votes]))[0, :2]) for votes in ((50, 50), (49, 51))
    )
    tie = pld.from_two_probability_mass_functions(
        *(dict(enumerate(np.log(law))) for law in (one, other)), value_discretization_interval=1e-5
    )
    label = LNMax(gamma).promise(releases, releases).data_independent(DELTA)
    assert peer((tie, releases)) <= label <= 1.05 * peer((tie, releases))


@pytest.mark.parametrize(
    "mechanism", [LNMax(0.05), GNMax(40), Gumbel(0.05)], ids=["laplace", "gaussian", "gumbel"]
)
@pytest.mark.parametrize(("votes", "queries"), [((140, 110), 300), ((180, 70), 1000)])
def test_exact_composition(mechanism: NoisyArgmax, votes: tuple[int, int], queries: int) -> None:
    """Of queries with equal votes, between their two neighbours: ε lies between nzc's bounds, 1.5 %
    apart.
    """
    epsilon = mechanism.cost(np.tile(votes, (queries, 1)), np.zeros(queries, int)).epsilon(DELTA)

    def law(first: int) -> dict[int, float]:
        return dict(enumerate(mechanism.log_law(np.array([[first, sum(votes) - first]]))[0, :2]))

    pairs = [(law(votes[0]), law(votes[0] + moved)) for moved in (-1, 1)]
    worst = max(
        peer(
            (
                pld.from_two_probability_mass_functions(*pair, value_discretization_interval=1e-5),
                queries,
            )
        )
        for pair in pairs
    )
    assert epsilon.exact is not None and epsilon.exact_lower is not None
    assert epsilon.exact_lower <= worst <= epsilon.exact < 1.02 * epsilon.exact_lower
