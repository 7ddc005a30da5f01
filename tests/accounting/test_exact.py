"""The exact accountant: against brute force, against published votes, and by its algebra."""

import brute
import numpy as np
import presets
import pytest
from brute import FLOOR, GRID
from conftest import parametrize, published_votes
from numpy.testing import assert_allclose
from pytest import approx

import nzc
from nzc.accounting.exact import IMPOSSIBLE
from nzc.accounting.rdp import ORDERS, to_epsilon
from nzc.mechanisms import Boost, NoisyArgmax, ThresholdScreen
from nzc.mechanisms.noise import GumbelNoise


def per_query(mechanism, votes, student_probs=None, orders=GRID):
    return mechanism.exact(np.asarray(votes), student_probs).per_query(orders)


@parametrize("name", presets.MECHANISMS)
@parametrize(
    ("count", "seed", "most"), [(1, 0, 2), pytest.param(100, 1, 5, marks=pytest.mark.slow)]
)
def test_brute_force_agrees_from_below(name, count, seed, most):
    """At few votes of up to so many classes, and a student's probabilities."""
    mechanism = presets.build(name)
    rng = np.random.default_rng(seed)
    for _ in range(count):
        classes = rng.integers(2, most + 1)
        votes = rng.multinomial(rng.integers(1, 13), rng.dirichlet(np.full(classes, 0.5)))
        student_probs = rng.dirichlet(np.ones(classes), size=1)
        true = brute.cost(mechanism, votes, GRID, student_probs[0])
        twice = mechanism.exact(np.tile(votes, (2, 1)), np.tile(student_probs, (2, 1)))
        for orders in (GRID, ORDERS):
            found, again = twice.per_query(orders)
            assert_allclose(twice.total(orders), found + again)
        found = twice.per_query(GRID)[0]
        assert (found >= true).all(), votes
        assert (found <= true * (1 + 1e-6) + FLOOR).all(), votes


@parametrize(
    ("name", "rows", "mechanism", "delta", "epsilon"),
    [
        ("mnist", 1000, nzc.LNMax(0.05), 1e-5, 1.896),
        ("mnist", 1000, nzc.GNMax(40), 1e-5, 1.688),
        ("svhn", 500, nzc.LNMax(0.05), 1e-6, 1.413),
    ],
)
def test_published_votes(name, rows, mechanism, delta, epsilon):
    """The exact rows of reference/epsilon.yaml: the first rows of the votes, by CKS conversion."""
    cost = mechanism.cost(published_votes(name, rows), np.zeros(rows, dtype=int))
    assert to_epsilon(cost.rdp, delta)[0] == approx(epsilon, rel=0.005)


@parametrize(
    ("mechanism", "first"),
    [
        (nzc.Gumbel(1), 692),
        (NoisyArgmax(GumbelNoise(0.5), Boost(c=100)), 1292),
        (nzc.NZCGaussian(c=5, sigma=2), 92),
        (NoisyArgmax(GumbelNoise(1), screen=ThresholdScreen(700, 40)), 692),
    ],
    ids=str,
)
def test_the_edge_of_what_is_possible_is_no_cliff(mechanism, first):
    """Where a vote makes a label impossible: as by brute force, and never above the worst case."""
    votes = np.array([[first + more, 1] for more in range(18)])
    edge = int((mechanism.log_law(votes)[:, 1] < IMPOSSIBLE).argmax())
    assert edge > 0
    cost = per_query(mechanism, votes)
    assert (cost <= sum(release.rdp(GRID) for _, release in mechanism.worst_case(1, 1))).all()
    true = brute.cost(mechanism, votes[edge], GRID[:4])
    assert_allclose(cost[edge, :4], true, rtol=1e-6, atol=FLOOR)


@parametrize("sigma", [0.0375, 0.03, 0.01])
def test_a_flip_that_noise_cannot_make_is_no_free_label(sigma):
    """A vote more makes a tie, whose label differs from one of probability Φ(−√2/σ) < e^-700."""
    charged = nzc.GNMax(sigma).cost(np.array([[126, 124]]), np.zeros(1, dtype=int)).epsilon(1e-5)
    flip = brute.mp.log(brute.mp.ncdf(-brute.mp.sqrt(2) / brute.mp.mpf(sigma)))
    assert flip < IMPOSSIBLE
    assert charged.exact >= brute.mp.log(0.5 - 1e-5) - flip


def test_the_theorem_of_2018_bounds_one_direction_only():
    """Theorem 6 bounds D(here ‖ there); D(there ‖ here) can be larger, so it is no ceiling."""
    mechanism = nzc.GNMax(20)
    votes = [242, 8]
    order = np.array([16.0])
    here = brute.law(mechanism, votes)
    laws = [brute.law(mechanism, moved) for moved in brute.moves(votes)]
    theorem = mechanism.noise.bound.cost(np.array([votes]))(order)[0, 0]
    assert max(brute.divergence(here, there, 16) for there in laws) < theorem
    assert theorem < max(brute.divergence(there, here, 16) for there in laws)
    assert per_query(mechanism, [votes], orders=order)[0, 0] > theorem


@parametrize("name", ["nzc", "nzc_gaussian", "plurality"])
def test_no_bound_where_one_vote_flips_the_label(name):
    votes = [[125, 125], [126, 124], [124, 126], [127, 123], [123, 127], [128, 122]]
    cost = per_query(presets.build(name), votes)
    # A gap of 2 flips only where the tie that it becomes breaks the other way.
    assert (cost == np.array([np.inf, 0, np.inf, 0, 0, 0])[:, None]).all()
