"""What a release shows: one kind of label after another costs what an adversary gains."""

from functools import reduce
from operator import add

import numpy as np
from brute import attacker
from conftest import parametrize
from scipy.stats import binom

import nzc
from nzc.mechanisms import Boost, ExponentialNoise, NoisyArgmax

DELTA = 1e-5
MOVE = np.array([1, -1, 0])


class Prior(Boost):
    """Scores of a user's own, which are no whole counts."""

    def scores(self, votes):
        return super().scores(votes) + np.array([0.5, 0.0])


def test_own_scores_are_not_priced_as_whole_counts():
    """At votes (4, 5) and (5, 4), the labels of 10 queries: by enumeration of how many are 0."""
    mechanism = NoisyArgmax(ExponentialNoise(3.0), Prior())
    p, q = np.exp(mechanism.log_law(np.array([[4, 5], [5, 4]])))[:, 0]
    counts = np.arange(11)
    here, there = binom.pmf(counts, 10, p), binom.pmf(counts, 10, q)
    stated = mechanism.promise(10, 10).data_independent(0.05)
    assert np.maximum(there - np.exp(stated) * here, 0).sum() <= 0.05


@parametrize(
    ("most", "parts"),
    [
        (1.07, [(nzc.GNMax(2.25), 10)]),
        (1.07, [(nzc.GNMax(0.7), 8)]),
        (1.07, [(nzc.GNMax(40), 20)]),
        (1.04, [(nzc.GNMax(240), 100)]),
        (1.07, [(nzc.PermuteAndFlip(1), 30)]),
        (1.05, [(nzc.LNMax(0.3), 20)]),
        (1.1, [(nzc.LNMax(3), 20)]),  # three classes are worse than two
        (1.07, [(nzc.GNMax(1.5), 8), (nzc.Gumbel(0.7), 8)]),
        (1.07, [(nzc.LNMax(0.5), 10), (nzc.GNMax(20), 20)]),
        (1.07, [(nzc.Gumbel(0.2), 5), (nzc.GNMax(2.25), 9), (nzc.PermuteAndFlip(0.7), 5)]),
        (1.07, [(nzc.GNMax(22), 30), (nzc.Gumbel(1.68), 1)]),
    ],
    ids=repr,
)
def test_costs_of_one_or_several_kinds_are_near_an_adversary(most, parts):
    """Who asks two classes of whole counts, one kind after another."""
    cost = reduce(add, (mechanism.promise(queries, queries) for mechanism, queries in parts))
    stated = cost.data_independent(DELTA)
    votes = np.array([[30 + gap, 30] for gap in range(-12, 13)])
    labels = []
    for mechanism, queries in parts:
        here, there = (np.exp(mechanism.log_law(votes + move))[:, :2] for move in (0, MOVE[:2]))
        fair = np.minimum(here, there).min(axis=1) > 1e-12
        here, there = here[fair, 0], there[fair, 0]
        labels += [[(here, there), (there, here)]] * queries
    assert 1 <= stated / attacker([], labels, DELTA, stated) <= most
