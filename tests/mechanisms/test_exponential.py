"""Exponential noise is permute-and-flip."""

from itertools import permutations

import numpy as np
from conftest import parametrize
from numpy.testing import assert_allclose

from nzc.mechanisms import ExponentialNoise


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
