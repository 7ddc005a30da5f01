"""Noise of sums: its size, its grid, and what may be released together."""

import numpy as np
from conftest import parametrize
from pytest import raises
from scipy import stats

import nzc
from nzc.mechanisms import UNIT, Adjacency, OwnCells, Vectors
from nzc.validation import InputError


@parametrize("share", [1.0, 0.05])
@parametrize("sigma", [0.1, 60.0, 1e6])
def test_noise_has_the_deviation_of_its_share(sigma, share):
    sums = np.full((100, 20), 123 * UNIT)
    released = nzc.Sums(sigma).release(sums, np.random.default_rng(0), share=share)
    deviation = sigma * UNIT / share**0.5
    noise = (released - sums) / deviation
    assert stats.kstest(noise.ravel(), stats.norm.cdf).pvalue > 1e-3
    step = np.gcd.reduce(released.ravel())  # the grid is far finer than the noise
    assert 500 < deviation / step < 3000


def test_votes_and_sums_are_not_mixed():
    for mechanism, adjacency in (
        (nzc.Sums(40), Adjacency()),
        (nzc.Sums(40), OwnCells()),
        (nzc.GNMax(40), Vectors()),
    ):
        with raises(InputError, match="teachers=sums"):
            mechanism.between(adjacency)
        with raises(InputError, match="teachers=sums"):
            type(mechanism)(mechanism.noise, adjacency=adjacency)
