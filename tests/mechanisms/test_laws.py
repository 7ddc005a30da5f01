"""Laws against mpmath, samplers against laws; boosts, ties, extremes."""

from itertools import permutations

import brute
import numpy as np
import presets
import pytest
from conftest import parametrize
from numpy.testing import assert_allclose
from scipy.stats import chi2

import nzc
from nzc.accounting.exact import IMPOSSIBLE, error_of
from nzc.accounting.exact_noise import ExactGenerator
from nzc.mechanisms import ExponentialNoise, GaussianNoise, LaplaceNoise, NoisyArgmax

VOTES = [[5000, 0], [84, 83, 83], [0, 1, 12]]
USUAL = [
    NoisyArgmax(GaussianNoise(40), nzc.Boost(c=20)),
    nzc.LNMax(0.05),
    nzc.Gumbel(0.05),
]
EXTREME = [nzc.GNMax(0.1), nzc.GNMax(1e6), nzc.LNMax(10), nzc.Gumbel(1)]
EXTREME += map(nzc.PermuteAndFlip, (0.05, 1e-6))
LAWS = [*USUAL, *(pytest.param(mechanism, marks=pytest.mark.slow) for mechanism in EXTREME)]


@parametrize("mechanism", LAWS, ids=str)
def test_the_law_is_within_its_stated_error(mechanism):
    for votes in VOTES:
        found = mechanism.log_law(np.array([votes]))[0]
        true = brute.logs(brute.law(mechanism, votes))
        possible = true > IMPOSSIBLE
        assert (possible == (found > IMPOSSIBLE)).all(), votes
        error = np.abs(found[possible] - true[possible])
        assert (error <= error_of(true[possible])).all(), votes


@parametrize("name", presets.MECHANISMS)
def test_a_mechanism_describes_itself_with_all_its_parameters(name):
    """Second route: Python builds the same mechanism of the description, with nzc's names alone."""
    mechanism = presets.build(name)
    names = {key: getattr(nzc, key) for key in nzc.__all__}
    assert eval(repr(mechanism), names) == mechanism
    target = presets.OmegaConf.load(presets.FOLDER / f"{name}.yaml")["_target_"]
    assert repr(mechanism).startswith(f"{target.removeprefix('nzc.')}(")


@parametrize(
    "mechanism",
    [
        nzc.Plurality(),
        NoisyArgmax(nzc.NoNoise(), nzc.Boost(c=10)),
        presets.build("nzc"),
        presets.build("nzc_gaussian"),
    ],
    ids=str,
)
def test_ties_break_to_the_lowest_class(mechanism):
    votes = np.array([[5, 8, 8], [7, 7, 7], [0, 0, 21]])
    assert mechanism.log_law(votes)[:, :3].argmax(axis=1).tolist() == [1, 0, 2]
    assert np.isin(mechanism.log_law(votes), [0, -np.inf]).all()
    assert mechanism.release(votes, np.random.default_rng(0)).tolist() == [1, 0, 2]


@parametrize("generator", [np.random.Generator, ExactGenerator])
@parametrize("name", presets.MECHANISMS)
def test_the_sampler_follows_the_law(name, generator):
    """Labels and abstentions, with float64 noise and with exact noise."""
    draws = 20_000
    rng = generator(np.random.PCG64(7))
    student_probs = np.tile([0.4, 0.3, 0.2, 0.1], (draws, 1))
    for votes in ([120, 90, 30, 10], [11, 10, 10, 9]):
        knobs = {}
        if presets.build(name).screen is not None:
            knobs = {"threshold": 0.8 * sum(votes), "sigma1": 0.3 * sum(votes)}
        mechanism = presets.build(name, **knobs)
        labels = mechanism.release(np.tile(votes, (draws, 1)), rng, student_probs)
        expected = draws * np.exp(mechanism.log_law(np.array([votes]), student_probs[:1])[0])
        seen = np.bincount(np.where(labels < 0, len(votes), labels), minlength=len(expected))
        assert (seen[expected == 0] == 0).all()
        statistic = (seen - expected) ** 2 / np.maximum(expected, 10)
        assert chi2.sf(statistic.sum(), len(expected)) > 1e-6


def histograms(classes):
    """Votes of 100 queries, from ties to great majorities."""
    rng = np.random.default_rng(classes)
    return rng.poisson(rng.exponential(rng.choice([1, 5, 30], (100, 1)), (100, classes)))


@parametrize("classes", [1, 2, 5])
@parametrize("gamma", [0.01, 2.0])
def test_exponential_noise_is_permute_and_flip(classes, gamma):
    """McKenna and Sheldon 2020, Algorithm 1, by enumeration: ε = 2γ; a vote moves two counts."""
    votes = histograms(classes)
    taken = np.exp(2 * gamma * (votes - votes.max(axis=1, keepdims=True)) / 2)
    law = np.zeros(votes.shape)
    orders = list(permutations(range(classes)))
    for order in orders:
        reached = np.ones(len(votes)) / len(orders)
        for label in order:
            law[:, label] += reached * taken[:, label]
            reached = reached * (1 - taken[:, label])
    assert_allclose(np.exp(ExponentialNoise(gamma).log_law(votes)), law, rtol=1e-12)


@parametrize(
    ("kind", "scale"),
    [
        ("constant", [1, 1, 1]),
        ("global", [5, 5, 5]),
        ("local", [5, 1, 1]),
        ("smooth", np.array([5, 5, 1]) * np.exp(-0.5)),
    ],
)
def test_the_four_sensitivities(kind, scale):
    votes = np.array([[10, 8, 0], [10, 7, 0], [10, 6, 0]])  # gaps 2, 3, 4
    assert_allclose(nzc.Boost(4.0, kind, 0.5).scale(votes), scale)


def test_what_a_boost_costs_whatever_the_votes():
    boosts = [(0.0, "constant"), (5.0, "global"), (5.0, "constant"), (1e100, "constant")]
    mechanisms = [NoisyArgmax(LaplaceNoise(0.1), nzc.Boost(*boost)) for boost in boosts]
    mechanisms.append(NoisyArgmax(LaplaceNoise(0.1), nzc.Boost(5.0, "local")))
    plain, scaled, boosted, *unbounded = (each.worst_case_epsilon(10, 1e-5) for each in mechanisms)
    assert plain < scaled < boosted < np.inf
    assert unbounded == [np.inf, np.inf]
