"""The audit: its lower bound is one, finds what leaks, and is below what may be published."""

import numpy as np
import pytest
from conftest import parametrize
from numpy.random import default_rng
from pytest import raises
from scipy.stats import binom, norm

import nzc
from nzc.accounting.audit import Contradiction, audit_pair, lower_bound, worst_pair
from nzc.accounting.gaussian import gaussian

#: The law of the plurality.
certain = nzc.NoisyArgmax(nzc.NoNoise()).log_law


@parametrize("stay", [0.5, 0.7])
def test_lower_bound_is_above_the_truth_in_at_most_one_in_twenty(stay):
    """Randomised response, whose ε at δ is known; the binomial test has a false alarm in 1e6."""
    runs = 1000
    truth = max(0.0, np.log((stay - 1e-5) / (1 - stay)))
    rng = default_rng(0)

    def bit(probability):
        return lambda trials, rng: (rng.random(trials) < probability).astype(float)

    bounds = [lower_bound(bit(stay), bit(1 - stay), 600, 1e-5, rng) for _ in range(runs)]
    assert np.sum(np.array(bounds) > truth) <= binom.ppf(1 - 1e-6, runs, 0.05)
    assert np.median(bounds) >= 0.5 * truth


def test_an_audit_of_gnmax_is_below_its_bound_and_near_it():
    """300 labels of a tie: their counts differ by a mean of √(2/π) of the noise's own shift."""
    queries = 300
    mechanism = nzc.GNMax(22.0)
    pair = worst_pair(mechanism.log_law, 250, 2)
    assert sorted(pair[0]) == [125, 125]
    assert abs(pair[0] - pair[1]).sum() == 2
    evidence = mechanism.evidence(pair)
    rng = default_rng(3)
    found = audit_pair(mechanism.release, evidence, pair, queries, 10_000, 1e-5, rng)
    mu = np.sqrt(2 * queries) / 22
    # An event seen 50 times in 5,000.
    visible = np.log(norm.cdf(mu * np.sqrt(2 / np.pi) + norm.ppf(0.01)) / 0.01)
    assert 0.7 * visible < found < gaussian(mu, 1e-5)


def test_a_sampler_with_less_noise_than_is_charged_fails_loudly(monkeypatch):
    """σ mistaken by a factor of 3."""
    monkeypatch.setattr(
        nzc.GaussianNoise, "sample", lambda self, shape, rng: rng.normal(scale=40 / 3, size=shape)
    )
    with raises(Contradiction, match=r"epsilon\.data_independent="):
        nzc.audit(nzc.GNMax(40), 250, 2, 100, rng=default_rng(4))


@parametrize(("teachers", "classes"), [(1, 2), (2, 3), (3, 2), (7, 150), (250, 10), (5000, 3)])
def test_worst_pair_are_neighbours_that_flip_a_plurality(teachers, classes):
    p, q = worst_pair(certain, teachers, classes)
    assert p.sum() == q.sum() == teachers
    assert min(p.min(), q.min()) >= 0
    assert abs(p - q).sum() == 2
    assert p.argmax() != q.argmax()


# Every kind of number that may be published, against its audit.

TEACHERS = 50
CLASSES = 3
DELTA = 1e-4
#: Mechanisms and queries; noise is small enough for an audit to see something.
MECHANISMS = [
    (nzc.GNMax(2), 1),
    (nzc.LNMax(0.2), 10),
    (nzc.Gumbel(0.3), 10),
    (nzc.PermuteAndFlip(0.3), 10),
    (nzc.Confident(threshold=30, sigma1=4, sigma=3), 10),
    (nzc.Stable(threshold=18, sigma1=4), 10),
    (nzc.NZC(c=2, gamma=0.3, sensitivity="global"), 10),
    (nzc.NZC(c=1, gamma=0.2), 5),
    (nzc.NZC(c=1, gamma=0.2, sensitivity="local"), 5),
    (nzc.NZC(c=1, gamma=0.2, sensitivity="smooth", beta=0.1), 5),
    (nzc.NZCGaussian(c=1, sigma=4), 5),
    (nzc.Interactive(threshold=10, sigma1=2, sigma=2, confidence=0.9), 5),
]


@pytest.mark.slow
@parametrize(("mechanism", "queries"), MECHANISMS, ids=str)
def test_no_audit_is_above_what_is_published(mechanism: nzc.NoisyArgmax, queries: int) -> None:
    rng = default_rng(0)
    found = nzc.audit(mechanism, TEACHERS, CLASSES, queries, 100_000, DELTA, rng)
    assert found <= mechanism.promise(queries, queries).data_independent(DELTA)
    assert queries > 1 or found > 0
