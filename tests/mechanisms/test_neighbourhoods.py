"""Laws at votes and at all one vote away, from one grid."""

from itertools import product

import brute
import numpy as np
from brute import FLOOR, GRID
from conftest import parametrize
from numpy.testing import assert_allclose

import nzc
from nzc.accounting.exact import Pairs, largest_divergence
from nzc.mechanisms import Boost, Noise, NoisyArgmax
from nzc.mechanisms.noise import GaussianNoise, LaplaceNoise


@parametrize(
    "mechanism",
    [
        *(nzc.GNMax(sigma) for sigma in (0.1, 0.26, 40, 1e6)),
        *(nzc.LNMax(gamma) for gamma in (3.9, 0.05, 1e-5)),
        NoisyArgmax(GaussianNoise(10), Boost(c=15)),
        NoisyArgmax(LaplaceNoise(0.2), Boost(c=7, sensitivity="smooth", beta=0.1)),
        nzc.Confident(60, 20, 40),
    ],
    ids=str,
)
def test_one_grid_for_all_neighbours_gives_the_law(mechanism):
    for votes in ([50, 30, 10, 10, 0], [34, 33, 33, 0, 0]):
        there = mechanism.log_law(np.array(list(brute.moves(votes))))
        here = np.broadcast_to(mechanism.log_law(np.array([votes])), there.shape)
        pairs = Pairs(np.zeros(len(there), dtype=int), here, there, np.ones_like(there))
        exact = mechanism.exact(np.array([votes]))
        alone = np.minimum(largest_divergence(pairs, 1, GRID), exact.ceiling(GRID).sum(axis=0))
        assert_allclose(exact.per_query(GRID), alone, rtol=1e-6, atol=FLOOR)


MASS = np.exp(-np.arange(4.0)) / np.exp(-np.arange(4.0)).sum()


class WholeNoise(Noise):
    """Whole numbers z from 0 to 3, Pr ∝ e^−z. Counts tie, and ties break to the lowest class."""

    def sample(self, shape, rng):
        return rng.choice(np.arange(4.0), shape, p=MASS)

    def log_law(self, scores):
        classes = scores.shape[1]
        draws = np.array(list(product(range(4), repeat=classes)))
        winners = (scores[:, None] + draws).argmax(axis=2)
        won = winners[..., None] == np.arange(classes)
        with np.errstate(divide="ignore"):
            return np.log(np.einsum("d,qdk->qk", MASS[draws].prod(axis=1), won))


@parametrize(("votes", "delta"), [([1, 4], 0.05), ([1, 1], 1e-10), ([3, 2], 0.1)])
def test_a_noise_that_ties_costs_what_class_order_shows(votes, delta):
    mechanism = NoisyArgmax(WholeNoise())
    here, *neighbours = np.exp(mechanism.log_law(np.array([votes, *brute.moves(votes)])))
    exact = mechanism.cost(np.array([votes]), np.zeros(1, int)).epsilon(delta).exact
    assert brute.leak(here, neighbours, exact * (1 + 1e-6)) <= delta * (1 + 1e-6) + 1e-12
    assert brute.leak(here, neighbours, exact * (1 - 1e-3)) > delta
