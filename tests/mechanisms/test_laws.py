"""Laws against mpmath, samplers against laws; boosts, ties, extremes."""

from itertools import permutations

import brute
import numpy as np
import presets
import pytest
import yaml
from scipy.stats import chi2

import nzc
from nzc.accounting.exact import IMPOSSIBLE, error_of
from nzc.accounting.exact_noise import ExactGenerator
from nzc.mechanisms import (
    Boost,
    ExponentialNoise,
    GaussianNoise,
    GroundTruth,
    GumbelNoise,
    LaplaceNoise,
    NoisyArgmax,
    NoNoise,
)  # fmt: skip

VOTES = [
    [5000, 0],
    [2500, 2500],
    [250, 0, 0],
    [84, 83, 83],
    [160, 60, 30],
    [0, 1, 12],
    [40, 40, 40, 40, 40],
]
LAWS = [
    *(NoisyArgmax(GaussianNoise(s)) for s in (0.1, 40, 1e6)),
    *(NoisyArgmax(kind(g)) for kind in (LaplaceNoise, ExponentialNoise) for g in (10, 0.05, 1e-6)),
    *(NoisyArgmax(GumbelNoise(g)) for g in (1, 0.05)),
    NoisyArgmax(GaussianNoise(40), Boost(c=20)),
]


@pytest.mark.parametrize("mechanism", LAWS, ids=str)
def test_the_law_is_within_its_stated_error(mechanism):
    for votes in VOTES:
        found, true = (
            mechanism.log_law(np.array([votes]))[0],
            brute.logs(brute.law(mechanism, votes)),
        )
        possible = true > IMPOSSIBLE
        assert (possible == (found > IMPOSSIBLE)).all(), votes
        assert (np.abs(found[possible] - true[possible]) <= error_of(true[possible])).all(), (
            votes,
            found,
            true,
        )


@pytest.mark.parametrize("name", presets.MECHANISMS)
def test_a_mechanism_describes_itself_with_all_its_parameters(name):
    """Second route: Python builds the same mechanism of the description, with the library's names
    alone.
    """
    mechanism = presets.build(name)
    known = {key: getattr(nzc, key) for key in nzc.__all__} | {"NoNoise": NoNoise}
    assert eval(repr(mechanism), known) == mechanism
    preset = yaml.safe_load((presets.FOLDER / f"{name}.yaml").read_text())["_target_"].removeprefix(
        "nzc."
    )
    assert repr(mechanism).startswith(f"{preset}(") or name == "sparse_stable"


def test_parts_that_change_the_law_are_never_left_out_of_a_description():
    scaled = nzc.NZC(c=0, gamma=1, sensitivity="smooth")
    assert repr(scaled) == "NZC(c=0, sensitivity='smooth', beta=1.0, gamma=1)"
    assert repr(nzc.NZC(c=0, gamma=1)) == repr(nzc.LNMax(1)) == "LNMax(gamma=1)"
    assert (
        repr(nzc.GNMax(3).between(nzc.OwnCells(2)))
        == "GNMax(sigma=3, adjacency=OwnCells(records=2))"
    )
    assert repr(NoisyArgmax(OwnGaussian(3))) == "NoisyArgmax(noise=OwnGaussian(sigma=3))"
    assert (
        repr(nzc.CountsGaussian(3)) == "CountsGaussian(sigma=3)"
        and repr(GroundTruth()) == "GroundTruth()"
    )
    screened = NoisyArgmax(GumbelNoise(0.5), screen=nzc.ThresholdScreen(4, 1))
    assert repr(screened) == (
        "NoisyArgmax(screen=ThresholdScreen(threshold=4, sigma1=1), noise=GumbelNoise(gamma=0.5))"
    )


class OwnGaussian(GaussianNoise):
    """A noise whose class is not nzc's."""


@pytest.mark.parametrize("name", presets.MECHANISMS)
def test_every_law_sums_to_one(name):
    votes = np.random.default_rng(1).multinomial(250, [0.6, 0.2, 0.1, 0.06, 0.04], size=20)
    law = presets.build(name).log_law(votes)
    assert law.shape == (20, 6)
    np.testing.assert_allclose(np.exp(law).sum(axis=1), 1, rtol=1e-13)


def test_ties_break_to_the_lowest_class():
    votes = np.array([[5, 8, 8], [7, 7, 7], [0, 0, 21]])
    boosted = NoisyArgmax(NoNoise(), Boost(c=10))
    for mechanism in (
        NoisyArgmax(NoNoise()),
        boosted,
        presets.build("nzc"),
        presets.build("nzc_gaussian"),
    ):
        assert mechanism.log_law(votes)[:, :3].argmax(axis=1).tolist() == [1, 0, 2]
        assert np.isin(mechanism.log_law(votes), [0, -np.inf]).all()
        assert mechanism.release(votes, np.random.default_rng(0)).tolist() == [1, 0, 2]


@pytest.mark.parametrize("generator", [np.random.Generator, ExactGenerator])
@pytest.mark.parametrize("name", presets.MECHANISMS)
def test_the_sampler_follows_the_law(name, generator):
    """Labels and abstentions, with float64 noise and with exact noise."""
    draws, rng = 20_000, generator(np.random.PCG64(7))
    for votes in ([120, 90, 30, 10], [238, 4, 4, 4], [11, 10, 10, 9]):
        mechanism = presets.build(name)
        if mechanism.screen is not None:
            knobs = {"threshold": 0.8 * sum(votes), "sigma1": 0.3 * sum(votes)}
            if mechanism.one_round:  # no draw may come after the end of the run
                knobs = {"teachers": sum(votes), "cutoff": 2 * draws}
            mechanism = presets.build(name, **knobs)
        student_probs = np.tile([0.4, 0.3, 0.2, 0.1], (draws, 1))
        labels = mechanism.release(np.tile(votes, (draws, 1)), rng, student_probs)
        law = np.exp(mechanism.log_law(np.array([votes]), student_probs[:1])[0])
        seen = np.bincount(np.where(labels < 0, len(votes), labels), minlength=len(law))
        assert (seen[law == 0] == 0).all()
        expected = draws * law
        rare = expected < 10
        seen = np.append(seen[~rare], seen[rare].sum())
        expected = np.append(expected[~rare], max(expected[rare].sum(), 1e-9))
        statistic = ((seen - expected)[expected > 1] ** 2 / expected[expected > 1]).sum()
        assert chi2.sf(statistic, len(law)) > 1e-6


def histograms(classes):
    """Votes of 100 queries, from ties to great majorities."""
    rng = np.random.default_rng(classes)
    return rng.poisson(rng.exponential(rng.choice([1, 5, 30], (100, 1)), (100, classes)))


@pytest.mark.parametrize("classes", range(1, 6))
@pytest.mark.parametrize("gamma", [0.01, 0.3, 2.0])
def test_exponential_noise_is_permute_and_flip(classes, gamma):
    """McKenna and Sheldon 2020, Algorithm 1, by enumeration: ε = 2γ, and a moved vote changes two
    counts by one.
    """
    votes = histograms(classes)
    taken = np.exp(2 * gamma * (votes - votes.max(axis=1, keepdims=True)) / 2)
    law = np.zeros(votes.shape)
    for order in (orders := list(permutations(range(classes)))):
        reached = np.ones(len(votes)) / len(orders)
        for at in order:
            law[:, at] += reached * taken[:, at]
            reached = reached * (1 - taken[:, at])
    np.testing.assert_allclose(np.exp(ExponentialNoise(gamma).log_law(votes)), law, rtol=1e-12)


@pytest.mark.parametrize("gamma", [0.01, 0.3, 2.0])
@pytest.mark.parametrize(("moved", "charged"), [((0, 1), 1), ((-1, 0), 1), ((-1, 1), 2)])
def test_permute_and_flip_costs_gamma_a_count(gamma, moved, charged):
    """`worst_case` is for a moved vote, which changes two counts. Votes (5, 5) reach the bound."""
    noise, reached = ExponentialNoise(gamma), 0.0
    for votes in (histograms(4) + 1, np.array([[5, 5]])):
        for a, b in permutations(range(votes.shape[1]), 2):
            there = votes.copy()
            there[:, [a, b]] += moved
            reached = max(reached, np.abs(noise.log_law(votes) - noise.log_law(there)).max())
    assert reached == pytest.approx(charged * gamma, rel=1e-9)
    assert noise.worst_case(1).pure == 2 * gamma


def test_the_four_sensitivities() -> None:
    votes = np.array([[10, 8, 0], [10, 7, 0], [10, 6, 0]])  # gaps 2, 3, 4
    scale = {
        kind: Boost(4.0, kind, 0.5).scale(votes)
        for kind in ("constant", "global", "local", "smooth")
    }
    np.testing.assert_allclose(scale["constant"], [1, 1, 1])
    np.testing.assert_allclose(scale["global"], [5, 5, 5])
    np.testing.assert_allclose(scale["local"], [5, 1, 1])
    np.testing.assert_allclose(scale["smooth"], np.array([5, 5, 1]) * np.exp(-0.5))


def test_what_a_boost_costs_whatever_the_votes() -> None:
    votes, labels = np.array([[6, 4]] * 10), np.zeros(10, int)

    def bound(boost: Boost) -> float:
        return (
            NoisyArgmax(LaplaceNoise(0.01), boost)
            .cost(votes, labels)
            .epsilon(1e-5)
            .data_independent
        )

    plain = bound(Boost())
    assert plain < bound(Boost(c=5.0, sensitivity="global")) < bound(Boost(c=5.0)) < np.inf
    assert bound(Boost(c=1e100)) == bound(Boost(c=5.0, sensitivity="local")) == np.inf
