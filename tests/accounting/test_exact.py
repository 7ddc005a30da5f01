"""The exact accountant: against brute force, against published votes, and by its algebra."""

from itertools import permutations

import brute
import numpy as np
import presets
import pytest
from conftest import published_votes
from hypothesis import given, settings
from hypothesis import strategies as st

from nzc.accounting.exact import IMPOSSIBLE, Pairs, error_of, largest_divergence
from nzc.accounting.rdp import ORDERS, to_epsilon
from nzc.mechanisms import Boost, GaussianNoise, GumbelNoise, LaplaceNoise, NoisyArgmax, NoNoise, ThresholdScreen

GRID = np.array([1.01, 1.5, 3.0, 10.0, 64.0, 500.0])
#: Below this a divergence is the square of the error that a law may have.
FLOOR = 1e-24


def histograms(count, seed):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        classes = rng.integers(2, 6)
        votes = rng.multinomial(rng.integers(1, 13), rng.dirichlet(np.full(classes, 0.5)))
        yield votes[None], rng.dirichlet(np.ones(classes), size=1)


def numbers(few, seed, many, other):
    """Parametrise by a number of histograms and their seed: few of them, and many by hand."""
    return pytest.mark.parametrize(("count", "seed"), [(few, seed), pytest.param(many, other, marks=pytest.mark.slow)])


@numbers(2, 0, 100, 1)
@pytest.mark.parametrize("name", presets.MECHANISMS)
def test_brute_force_agrees_from_below(name, count, seed):
    mechanism = presets.build(name)
    for votes, probabilities in histograms(count, seed):
        student_probs = probabilities if name == "interactive" else None
        true = brute.cost(mechanism, votes[0], GRID, None if student_probs is None else student_probs[0])
        found = mechanism.pricing.exact(votes, student_probs).per_query(GRID)[0]
        assert (found >= true).all(), (votes, found, true)
        assert (found <= true * (1 + 1e-6) + FLOOR).all(), (votes, found, true)


@numbers(1, 5, 20, 6)
@pytest.mark.parametrize("name", presets.MECHANISMS)
def test_no_neighbour_exceeds_what_is_charged(name, count, seed):
    mechanism = presets.build(name)
    for votes, student_probs in histograms(count, seed):
        charged = mechanism.cost(votes, np.zeros(1, dtype=int), student_probs).epsilon(0.01).exact
        here = brute.law(mechanism, votes[0], student_probs[0])
        for moved in brute.moves(votes[0]):
            there = brute.law(mechanism, moved, student_probs[0])
            assert brute.hockey_stick(here, there, charged) <= 0.01
            assert brute.hockey_stick(there, here, charged) <= 0.01


@pytest.mark.parametrize(
    "mechanism",
    [
        *(NoisyArgmax(GaussianNoise(s)) for s in (0.1, 0.26, 1, 40, 1e6)),
        *(NoisyArgmax(LaplaceNoise(g)) for g in (3.9, 0.5, 0.05, 1e-5)),
        NoisyArgmax(GaussianNoise(10), Boost(c=15)),
        NoisyArgmax(LaplaceNoise(0.2), Boost(c=7, sensitivity="smooth", beta=0.1)),
        NoisyArgmax(GaussianNoise(40), screen=ThresholdScreen(60, 20)),
    ],
    ids=str,
)
def test_one_grid_for_all_neighbours_gives_what_the_law_alone_gives(mechanism):
    for votes in (
        [50, 30, 10, 5, 5, 0, 0],
        [34, 33, 33, 0, 0, 0, 0],
        [94, 1, 1, 1, 1, 1, 1],
        [15, 15, 14, 14, 14, 14, 14],
    ):
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
    laws = noise.neighbourhood(leads / noise.unit, one, np.array([1 / noise.unit]))
    for a, b in permutations(range(5), 2):
        moved = leads - np.eye(5)[a] + np.eye(5)[b]
        true = noise.log_law(moved)[0]
        found = laws.there[0, a, b, :5].copy()
        found[[a, b]] = laws.there[0, a, b, 5:]
        possible = np.isfinite(true) & np.isfinite(found)
        assert (np.isneginf(true) == np.isneginf(found)).all()
        assert (np.abs(found[possible] - true[possible]) <= 2 * error_of(true[possible])).all()


@pytest.mark.parametrize(
    ("name", "rows", "noise", "delta", "epsilon"),
    [
        ("mnist", 1000, LaplaceNoise(0.05), 1e-5, 1.896),
        ("mnist", 1000, GaussianNoise(40), 1e-5, 1.688),
        ("svhn", 500, LaplaceNoise(0.05), 1e-6, 1.413),
    ],
)
def test_published_votes(name, rows, noise, delta, epsilon):
    """The exact rows of reference/epsilon.yaml: the first rows of the votes, Rényi costs, CKS conversion, δ as said."""
    cost = NoisyArgmax(noise).cost(published_votes(name, rows), np.zeros(rows, dtype=int))
    assert to_epsilon(cost.rdp, delta)[0] == pytest.approx(epsilon, rel=0.005)
    assert cost.epsilon(delta).exact < 0.95 * epsilon


@pytest.mark.parametrize("noise", [LaplaceNoise(0.05), GaussianNoise(40)], ids=str)
@pytest.mark.parametrize("name", ["mnist", "svhn", "adult"])
def test_no_query_costs_more_than_the_papers_theorem(name, noise):
    votes = published_votes(name, 300)
    assert (
        NoisyArgmax(noise).pricing.exact(votes).per_query(ORDERS) <= noise.bound.cost(votes)(ORDERS) * (1 + 1e-9)
    ).all()


@pytest.mark.parametrize(
    ("noise", "gaps"), [(GaussianNoise(40), range(2100, 2120)), (LaplaceNoise(0.2), range(3516, 3536))], ids=str
)
def test_probabilities_at_the_edge_of_what_is_possible_cost_no_more_than_the_theorem(noise, gaps):
    votes = np.array([[2500 + gap // 2, 2500 - gap // 2] for gap in gaps])
    rare = noise.log_law(votes.astype(float))[:, 1]
    assert rare.min() < IMPOSSIBLE < rare.max()
    # The theorem, as coded, rounds at 1e-16.
    assert (NoisyArgmax(noise).pricing.exact(votes).per_query(ORDERS) <= noise.bound.cost(votes)(ORDERS) + 1e-13).all()


@pytest.mark.parametrize(
    ("mechanism", "first"),
    [
        (NoisyArgmax(GumbelNoise(1)), 692),
        (NoisyArgmax(GumbelNoise(0.5), Boost(c=100)), 1292),
        (NoisyArgmax(LaplaceNoise(1), Boost(beta=1, sensitivity="smooth")), 252),
        (NoisyArgmax(GaussianNoise(2), Boost(c=5)), 92),
        (NoisyArgmax(GumbelNoise(1), screen=ThresholdScreen(700, 40)), 692),
    ],
    ids=str,
)
def test_the_edge_of_what_is_possible_is_no_cliff(mechanism, first):
    """Where a vote makes a label impossible: as brute force has it, and never more than for any votes."""
    votes = np.array([[first + more, 1] for more in range(18)])
    edge = int((mechanism.log_law(votes)[:, 1] < IMPOSSIBLE).argmax())
    assert edge > 0
    cost = mechanism.pricing.exact(votes).per_query(GRID)
    assert (cost <= sum(release.rdp(GRID) for _, release in mechanism.pricing.worst_case(1, 1))).all()
    true = brute.cost(mechanism, votes[edge], GRID[:4])
    np.testing.assert_allclose(cost[edge, :4], true, rtol=1e-6, atol=FLOOR)


@pytest.mark.parametrize("sigma", [0.0375, 0.03, 0.01])
def test_a_flip_that_noise_cannot_make_is_no_free_label(sigma):
    """A vote more makes a tie of (126, 124), whose label is told apart from one of probability Φ(−√2/σ) < e^-700."""
    charged = NoisyArgmax(GaussianNoise(sigma)).cost(np.array([[126, 124]]), np.zeros(1, dtype=int)).epsilon(1e-5)
    flip = brute.mp.log(brute.mp.ncdf(-brute.mp.sqrt(2) / brute.mp.mpf(sigma)))
    assert flip < IMPOSSIBLE
    assert charged.exact >= brute.mp.log(0.5 - 1e-5) - flip


def test_the_theorem_of_2018_bounds_one_direction_only():
    """Theorem 6 bounds D(here ‖ there); D(there ‖ here) can be larger, so the theorem is no ceiling for both."""
    mechanism, votes, order = NoisyArgmax(GaussianNoise(20)), [242, 8], np.array([16.0])
    here, laws = brute.law(mechanism, votes), [brute.law(mechanism, moved) for moved in brute.moves(votes)]
    theorem = mechanism.noise.bound.cost(np.array([votes]))(order)[0, 0]
    assert max(brute.divergence(here, there, 16) for there in laws) < theorem
    assert theorem < max(brute.divergence(there, here, 16) for there in laws)
    assert mechanism.pricing.exact(np.array([votes])).per_query(order)[0, 0] > theorem


def test_near_zero_cost_has_no_bound_where_one_vote_flips_the_label():
    votes = np.array([[125, 125], [126, 124], [124, 126], [127, 123], [123, 127], [128, 122]])
    for name in ("nzc", "nzc_gaussian", "plurality"):
        cost = presets.build(name).pricing.exact(votes).per_query(GRID)
        # A gap of 2 flips only where the tie that it becomes breaks the other way.
        assert (cost == np.array([np.inf, 0, np.inf, 0, 0, 0])[:, None]).all()


@pytest.mark.parametrize("name", presets.MECHANISMS)
def test_equal_queries_cost_as_often_as_they_are_asked(name):
    mechanism, votes = presets.build(name), np.array([[180, 50, 20]])
    once = mechanism.pricing.exact(votes).total(ORDERS)
    np.testing.assert_allclose(mechanism.pricing.exact(np.repeat(votes, 7, axis=0)).total(ORDERS), 7 * once, rtol=1e-12)
    np.testing.assert_array_equal(
        mechanism.pricing.exact(np.repeat(votes, 2, axis=0)).per_query(ORDERS).sum(axis=0), 2 * once
    )
    assert (mechanism.pricing.exact(votes[:0]).total(ORDERS) == 0).all()


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    st.permutations(range(5)), st.lists(st.integers(0, 40), min_size=5, max_size=5), st.sampled_from(presets.MECHANISMS)
)
def test_class_order_changes_nothing(order, votes, name):
    votes = np.array([votes]) + 1
    if name in ("plurality", "nzc", "nzc_gaussian"):
        votes[0, 2] += 2 * votes.sum()  # out of reach of a tie: ties break by class order
    mechanism, student_probs = presets.build(name), np.array([[0.1, 0.2, 0.4, 0.2, 0.1]])
    one = mechanism.pricing.exact(votes, student_probs).per_query(GRID)
    other = mechanism.pricing.exact(votes[:, order], student_probs[:, order]).per_query(GRID)
    np.testing.assert_allclose(one, other, rtol=1e-9, atol=FLOOR)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    st.lists(st.integers(0, 60), min_size=2, max_size=5),
    st.floats(1.01, 3),
    st.sampled_from(["GaussianNoise", "LaplaceNoise", "GumbelNoise"]),
)
def test_the_data_independent_cost_is_never_passed(votes, more, name):
    votes = np.array([votes])
    noise = {
        "GaussianNoise": lambda x: GaussianNoise(5 * x),
        "LaplaceNoise": lambda x: LaplaceNoise(0.5 / x),
        "GumbelNoise": lambda x: GumbelNoise(0.5 / x),
    }
    for size in (1, more):
        cost = NoisyArgmax(noise[name](size)).pricing.exact(votes)
        assert (cost.per_query(GRID) <= noise[name](size).worst_case(1).rdp(GRID)).all()


@pytest.mark.parametrize("noise", [GaussianNoise, LaplaceNoise, GumbelNoise])
def test_more_noise_never_costs_more(noise):
    votes = np.random.default_rng(3).multinomial(60, [0.4, 0.3, 0.2, 0.1], size=20)
    sizes = [5, 10, 20, 40, 80] if noise is GaussianNoise else [0.5, 0.2, 0.1, 0.05, 0.01]
    costs = np.array([NoisyArgmax(noise(size)).pricing.exact(votes).total(ORDERS) for size in sizes])
    assert (np.diff(costs, axis=0) <= 0).all()


def test_a_longer_grid_of_orders_changes_no_cost():
    votes = np.array([[180, 50, 20], [90, 85, 75]])
    cost = NoisyArgmax(GaussianNoise(40)).pricing.exact(votes)
    np.testing.assert_allclose(cost.per_query(ORDERS)[:, ::-7], cost.per_query(ORDERS[::-7]), rtol=1e-10)
    assert np.isfinite(cost.per_query(np.array([1.0001, 1e7]))).all()


def test_no_order_is_left_out_where_rounding_is_all_there_is():
    """e^-100 against e^-900: no cost is 0, as none is, and none falls by more than its rounding."""
    cost = NoisyArgmax(GaussianNoise(0.05)).pricing.exact(np.array([[127, 124]])).per_query(ORDERS)[0]
    assert (cost > 0).all()
    assert (cost[1:] >= cost[:-1] - 1e-11).all()


def test_plurality_costs_nothing_where_it_cannot_change_and_has_no_bound_where_it_can():
    cost = NoisyArgmax(NoNoise()).pricing.exact(np.array([[9, 2, 1], [5, 5, 2]])).per_query(GRID)
    assert (cost == np.array([0, np.inf])[:, None]).all()


def test_classes_alike_to_the_screen_stand_for_each_other(monkeypatch):
    """Against every class told apart."""
    rng = np.random.default_rng(4)
    votes, student_probs = rng.multinomial(30, np.full(12, 1 / 12), size=5), rng.dirichlet(np.ones(12), size=5)
    mechanism = presets.build("interactive")
    found = mechanism.pricing.exact(votes, student_probs).per_query(GRID)
    monkeypatch.setattr(type(mechanism.screen), "relevant_probs", lambda screen, votes, student_probs: student_probs)
    np.testing.assert_allclose(
        found, mechanism.pricing.exact(votes, student_probs).per_query(GRID), rtol=1e-9, atol=FLOOR
    )


def test_many_classes_told_apart_come_one_by_one():
    """So many kinds that a single histogram fills a batch: no batch may be empty. One row is far from a flip."""
    votes = np.random.default_rng(0).multinomial(100, np.full(150, 1 / 150), size=3)
    votes[2] = np.eye(150, dtype=int)[7] * 100
    cost = NoisyArgmax(NoNoise()).pricing.exact(votes).per_query(GRID)
    assert np.isinf(cost[:2]).all()
    assert (cost[2] == 0).all()
