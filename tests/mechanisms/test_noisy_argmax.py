"""Laws against mpmath, samplers against laws; ties, extremes, and prices of several mechanisms."""

import brute
import numpy as np
import presets
import pytest
from conftest import parametrize
from pytest import approx
from scipy.stats import chi2

import nzc
from nzc.accounting.exact import IMPOSSIBLE, error_of
from nzc.accounting.exact_noise import ExactGenerator
from nzc.mechanisms import GaussianNoise, NoisyArgmax
from nzc.mechanisms.noise import GumbelNoise


@parametrize(
    "first", [nzc.Confident(60, 40, 5), nzc.LNMax(0.2), nzc.Gumbel(0.2), nzc.Stable(60, 15)]
)
def test_a_price_holds_however_many_the_first_mechanism_asks(first):
    mechanism = nzc.Interactive(60, 40, 20, 0.9, first=first)
    stated = mechanism.worst_case_epsilon(30, 1e-5)
    for asked in range(31):
        cost = first.promise(asked, asked) + mechanism.promise(30 - asked, 30 - asked)
        assert cost.data_independent(1e-5, rough=True) * (1 - 1e-3) <= stated
    alike = nzc.Interactive(60, 40, 20, 0.9).worst_case_epsilon(30, 1e-5)
    plain = nzc.Confident(60, 40, 20).worst_case_epsilon(30, 1e-5)
    assert alike == approx(plain, rel=1e-9)


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


def test_a_class_derived_from_a_mechanism_sets_its_parts():
    class Mine(NoisyArgmax):
        def __init__(self, gamma):
            super().__init__(GumbelNoise(gamma))

    votes = np.array([[9, 3]])
    mine = Mine(0.05).between(nzc.Abstentions(12))
    assert (mine.log_law(votes) == nzc.Gumbel(0.05).log_law(votes)).all()
