"""Neighbouring histograms: their laws from one grid, and units of privacy that move votes on a few queries only."""

from itertools import combinations, permutations, product

import brute
import numpy as np
import pytest
from brute import FLOOR, GRID

import nzc
from nzc.accounting.exact import Pairs, error_of, largest_divergence
from nzc.mechanisms import Adjacency, Boost, GaussianNoise, LaplaceNoise, NoisyArgmax, ThresholdScreen


@pytest.mark.parametrize(
    "mechanism",
    [
        *(NoisyArgmax(GaussianNoise(s)) for s in (0.1, 0.26, 40, 1e6)),
        *(NoisyArgmax(LaplaceNoise(g)) for g in (3.9, 0.05, 1e-5)),
        NoisyArgmax(GaussianNoise(10), Boost(c=15)),
        NoisyArgmax(LaplaceNoise(0.2), Boost(c=7, sensitivity="smooth", beta=0.1)),
        NoisyArgmax(GaussianNoise(40), screen=ThresholdScreen(60, 20)),
    ],
    ids=str,
)
def test_one_grid_for_all_neighbours_gives_what_the_law_alone_gives(mechanism):
    for votes in ([50, 30, 10, 5, 5, 0, 0], [34, 33, 33, 0, 0, 0, 0], [94, 1, 1, 1, 1, 1, 1]):
        there = mechanism.log_law(np.array(list(brute.moves(votes))))
        here = np.broadcast_to(mechanism.log_law(np.array([votes])), there.shape)
        alone = largest_divergence(Pairs(np.zeros(len(there), dtype=int), here, there, np.ones_like(there)), 1, GRID)
        found = mechanism.pricing.exact(np.array([votes])).per_query(GRID)
        ceiling = mechanism.pricing.exact(np.array([votes])).ceiling(GRID).sum(axis=0)
        np.testing.assert_allclose(found, np.minimum(alone, ceiling), rtol=1e-6, atol=FLOOR)


@pytest.mark.parametrize(
    "noise", [GaussianNoise(s) for s in (0.26, 1, 40)] + [LaplaceNoise(g) for g in (3.9, 0.5, 0.05)], ids=str
)
def test_the_laws_of_one_grid_are_within_their_stated_error(noise):
    leads, one = np.array([[0.0, -1.0, -2.0, -9.0, -40.0]]), np.ones((1, 5))
    _, there, _ = noise.neighbourhood(leads / noise.unit, one, np.array([1 / noise.unit]))
    for a, b in permutations(range(5), 2):
        moved = leads - np.eye(5)[a] + np.eye(5)[b]
        true = noise.log_law(moved)[0]
        found = there[0, a, b, :5].copy()
        found[[a, b]] = there[0, a, b, 5:]
        possible = np.isfinite(true) & np.isfinite(found)
        assert (np.isneginf(true) == np.isneginf(found)).all()
        assert (np.abs(found[possible] - true[possible]) <= 2 * error_of(true[possible])).all()


def test_many_histograms_together_cost_what_each_costs_alone():
    """So many that one grid is computed in parts."""
    rng, exact = np.random.default_rng(0), nzc.LNMax(0.05).pricing.exact
    votes = rng.multinomial(5000, rng.dirichlet(np.full(10, 5), 100))
    alone = [exact(row[None]).per_query(GRID)[0] for row in votes[::20]]
    np.testing.assert_allclose(exact(votes).per_query(GRID)[::20], alone, rtol=1e-9, atol=FLOOR)


DELTA = 1e-3
TWO = Adjacency(2)
MECHANISMS = [nzc.GNMax(1.5), nzc.Gumbel(0.4), nzc.PermuteAndFlip(0.4), nzc.LNMax(0.5)]
MECHANISMS += [nzc.Confident(4, 2, 2), nzc.Stable(5, 1.2)]


def _joint(mechanism, votes):
    """The law of all labels together."""
    law = np.ones(1)
    for row in np.exp(mechanism.log_law(votes)):
        law = np.outer(law, row).ravel()
    return law


def _neighbours(votes, moved):
    """Yield every other set of histograms of which `moved` differ, each by one moved vote."""
    moves = list(permutations(range(votes.shape[1]), 2))
    for queries, chosen in product(combinations(range(len(votes)), moved), product(moves, repeat=moved)):
        other = votes.copy()
        for query, (a, b) in zip(queries, chosen, strict=True):
            other[query, [a, b]] += -1, 1
        if (other >= 0).all():
            yield other


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_promises_hold_for_the_law_of_all_labels(mechanism):
    """Second route: full enumeration of labels and neighbours, where votes move on two of four queries."""
    rng, moving = np.random.default_rng(0), mechanism.between(TWO)
    for _ in range(2):
        votes = rng.multinomial(6, [0.5, 0.3, 0.2], size=4)
        cost = moving.cost(votes, votes.argmax(axis=1)).epsilon(DELTA)
        assert cost.exact is not None and cost.exact <= cost.data_independent * (1 + 1e-9)
        assert cost.exact_lower is None
        here = _joint(moving, votes)
        for other in _neighbours(votes, 2):
            there = _joint(moving, other)
            for p, q in ((here, there), (there, here)):
                assert brute.excess(p, q, cost.exact) <= DELTA * (1 + 1e-9)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_so_many_queries_are_paid_for_however_many_are_asked(mechanism):
    moving = mechanism.between(TWO)
    for asked, paid in ((1, 1), (2, 2), (500, 2)):
        assert moving.worst_case_epsilon(asked, DELTA) == mechanism.worst_case_epsilon(paid, DELTA)


def test_an_audit_moves_votes_on_as_many_queries():
    mechanism = nzc.GNMax(2).between(TWO)
    found = nzc.audit(mechanism, teachers=20, classes=3, queries=50, trials=20_000, rng=np.random.default_rng(0))
    assert 0 < found <= mechanism.worst_case_epsilon(50, 1e-5)


def test_the_relation_holds_for_all_parts_of_a_mechanism():
    interactive = nzc.Interactive(threshold=5, sigma1=3, sigma=3, confidence=0.9)
    assert interactive.between(TWO).first.adjacency == TWO
    sparse = nzc.SparseStable(cutoff=5, teachers=100, delta=1e-5)  # it counts over the whole run
    assert sparse.between(TWO).worst_case_epsilon(50, 1e-4) == sparse.worst_case_epsilon(50, 1e-4)
    with pytest.raises(nzc.InputError, match=r"^moved=0: "):
        Adjacency(0)


def test_a_budget_buys_any_number_of_queries():
    gamma = nzc.calibrate(lambda gamma: nzc.LNMax(gamma).between(TWO), epsilon=1, delta=1e-5, queries=1000)
    assert gamma == nzc.calibrate(nzc.LNMax, epsilon=1, delta=1e-5, queries=2)
    confident, fifty = nzc.Confident(5, 5, 5).between(TWO), np.ones(50, dtype=bool)
    whole = confident.worst_case_epsilon(50, DELTA)
    assert confident.pricing.filter(1.001 * whole, DELTA, 50).admit(fifty).all()
    assert not confident.pricing.filter(0.999 * whole, DELTA, 50).admit(fifty).all()
