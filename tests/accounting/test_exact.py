"""The exact accountant: against brute force, against published votes, and by its algebra."""

from dataclasses import replace

import brute
import numpy as np
import presets
import pytest
from brute import FLOOR, GRID
from conftest import published_votes
from hypothesis import given, settings
from hypothesis import strategies as st

import nzc
from nzc.accounting import composition, exact
from nzc.accounting.exact import IMPOSSIBLE
from nzc.accounting.rdp import ORDERS, to_epsilon
from nzc.mechanisms import Boost, NoisyArgmax, ThresholdScreen
from nzc.mechanisms.noise import ExponentialNoise, GaussianNoise, GumbelNoise, LaplaceNoise


def histograms(count, seed, most):
    """Yield `count` histograms [1, classes] of up to `most` classes, and a student's probabilities."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        classes = rng.integers(2, most + 1)
        votes = rng.multinomial(rng.integers(1, 13), rng.dirichlet(np.full(classes, 0.5)))
        yield votes[None], rng.dirichlet(np.ones(classes), size=1)


def numbers(few, many):
    """Parametrise by number, seed and classes of histograms: few small ones, and many by hand."""
    return pytest.mark.parametrize(
        "size", [(few, 0, 3), pytest.param((many, 1, 5), marks=pytest.mark.slow)], ids=str
    )


@numbers(2, 100)
@pytest.mark.parametrize("name", presets.MECHANISMS)
def test_brute_force_agrees_from_below(name, size):
    mechanism = presets.build(name)
    for votes, probabilities in histograms(*size):
        student_probs = probabilities if name == "interactive" else None
        true = brute.cost(
            mechanism, votes[0], GRID, None if student_probs is None else student_probs[0]
        )
        found = mechanism.exact(votes, student_probs).per_query(GRID)[0]
        assert (found >= true).all(), (votes, found, true)
        assert (found <= true * (1 + 1e-6) + FLOOR).all(), (votes, found, true)


@pytest.mark.parametrize(
    ("name", "rows", "noise", "delta", "epsilon"),
    [
        ("mnist", 1000, LaplaceNoise(0.05), 1e-5, 1.896), ("mnist", 1000, GaussianNoise(40), 1e-5, 1.688),
        ("svhn", 500, LaplaceNoise(0.05), 1e-6, 1.413),
    ],
)  # fmt: skip
def test_published_votes(name, rows, noise, delta, epsilon):
    """The exact rows of reference/epsilon.yaml: the first rows of the votes, Rényi costs, CKS
    conversion, δ as said.
    """
    cost = NoisyArgmax(noise).cost(published_votes(name, rows), np.zeros(rows, dtype=int))
    assert to_epsilon(cost.rdp, delta)[0] == pytest.approx(epsilon, rel=0.005)
    assert rows == 1000 or cost.epsilon(delta).exact < 0.95 * epsilon


@pytest.mark.parametrize("noise", [LaplaceNoise(0.05), GaussianNoise(40)], ids=str)
@pytest.mark.parametrize("name", ["mnist", "adult"])
def test_no_query_costs_more_than_the_papers_theorem(name, noise):
    votes = published_votes(name, 300)
    cost = NoisyArgmax(noise).exact(votes).per_query(ORDERS)
    assert (cost <= noise.bound.cost(votes)(ORDERS) * (1 + 1e-9)).all()


@pytest.mark.parametrize(
    ("mechanism", "first"),
    [
        (NoisyArgmax(GumbelNoise(1)), 692), (NoisyArgmax(ExponentialNoise(1)), 692),
        (NoisyArgmax(GumbelNoise(0.5), Boost(c=100)), 1292),
        (NoisyArgmax(LaplaceNoise(1), Boost(beta=1, sensitivity="smooth")), 252),
        (NoisyArgmax(GaussianNoise(2), Boost(c=5)), 92),
        (NoisyArgmax(GumbelNoise(1), screen=ThresholdScreen(700, 40)), 692),
    ],
    ids=str,
)  # fmt: skip
def test_the_edge_of_what_is_possible_is_no_cliff(mechanism, first):
    """Where a vote makes a label impossible: as brute force has it, and never more than for any
    votes.
    """
    votes = np.array([[first + more, 1] for more in range(18)])
    edge = int((mechanism.log_law(votes)[:, 1] < IMPOSSIBLE).argmax())
    assert edge > 0
    cost = mechanism.exact(votes).per_query(GRID)
    assert (cost <= sum(release.rdp(GRID) for _, release in mechanism.worst_case(1, 1))).all()
    true = brute.cost(mechanism, votes[edge], GRID[:4])
    np.testing.assert_allclose(cost[edge, :4], true, rtol=1e-6, atol=FLOOR)


@pytest.mark.parametrize("sigma", [0.0375, 0.03, 0.01])
def test_a_flip_that_noise_cannot_make_is_no_free_label(sigma):
    """A vote more makes a tie of (126, 124), whose label is told apart from one of probability
    Φ(−√2/σ) < e^-700.
    """
    charged = (
        NoisyArgmax(GaussianNoise(sigma))
        .cost(np.array([[126, 124]]), np.zeros(1, dtype=int))
        .epsilon(1e-5)
    )
    flip = brute.mp.log(brute.mp.ncdf(-brute.mp.sqrt(2) / brute.mp.mpf(sigma)))
    assert flip < IMPOSSIBLE
    assert charged.exact >= brute.mp.log(0.5 - 1e-5) - flip


def test_the_theorem_of_2018_bounds_one_direction_only():
    """Theorem 6 bounds D(here ‖ there); D(there ‖ here) can be larger, so the theorem is no ceiling
    for both.
    """
    mechanism, votes, order = NoisyArgmax(GaussianNoise(20)), [242, 8], np.array([16.0])
    here, laws = (
        brute.law(mechanism, votes),
        [brute.law(mechanism, moved) for moved in brute.moves(votes)],
    )
    theorem = mechanism.noise.bound.cost(np.array([votes]))(order)[0, 0]
    assert max(brute.divergence(here, there, 16) for there in laws) < theorem
    assert theorem < max(brute.divergence(there, here, 16) for there in laws)
    assert mechanism.exact(np.array([votes])).per_query(order)[0, 0] > theorem


def test_near_zero_cost_has_no_bound_where_one_vote_flips_the_label():
    votes = np.array([[125, 125], [126, 124], [124, 126], [127, 123], [123, 127], [128, 122]])
    for name in ("nzc", "nzc_gaussian", "plurality"):
        cost = presets.build(name).exact(votes).per_query(GRID)
        # A gap of 2 flips only where the tie that it becomes breaks the other way.
        assert (cost == np.array([np.inf, 0, np.inf, 0, 0, 0])[:, None]).all()


@pytest.mark.parametrize("name", presets.MECHANISMS)
def test_equal_queries_cost_as_often_as_they_are_asked(name):
    exact, votes = presets.build(name).exact, np.array([[180, 50, 20]])
    once = exact(votes).total(ORDERS)
    np.testing.assert_allclose(
        exact(np.repeat(votes, 7, axis=0)).total(ORDERS), 7 * once, rtol=1e-12
    )
    np.testing.assert_array_equal(
        exact(np.repeat(votes, 2, axis=0)).per_query(ORDERS).sum(axis=0), 2 * once
    )
    assert (exact(votes[:0]).total(ORDERS) == 0).all()


PRESETS = presets.MECHANISMS


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    st.permutations(range(5)),
    st.lists(st.integers(0, 40), min_size=5, max_size=5),
    st.sampled_from(PRESETS),
)
def test_class_order_changes_nothing(order, votes, name):
    votes = np.array([votes]) + 1
    if name in ("plurality", "nzc", "nzc_gaussian"):
        votes[0, 2] += 2 * votes.sum()  # out of reach of a tie: ties break by class order
    mechanism, student_probs = presets.build(name), np.array([[0.1, 0.2, 0.4, 0.2, 0.1]])
    one = mechanism.exact(votes, student_probs).per_query(GRID)
    other = mechanism.exact(votes[:, order], student_probs[:, order]).per_query(GRID)
    np.testing.assert_allclose(one, other, rtol=1e-9, atol=FLOOR)


@pytest.mark.parametrize("noise", [GaussianNoise, LaplaceNoise, GumbelNoise, ExponentialNoise])
def test_more_noise_never_costs_more_and_no_noise_more_than_for_any_votes(noise):
    votes = np.random.default_rng(3).multinomial(60, [0.4, 0.3, 0.2, 0.1], size=20)
    noises = [
        noise(size)
        for size in ((5, 10, 40, 80) if noise is GaussianNoise else (0.5, 0.2, 0.05, 0.01))
    ]
    costs = [NoisyArgmax(each).exact(votes).per_query(ORDERS) for each in noises]
    assert (np.diff([cost.sum(axis=0) for cost in costs], axis=0) <= 0).all()
    assert all(
        (cost <= each.worst_case(1).rdp(ORDERS)).all()
        for cost, each in zip(costs, noises, strict=True)
    )


def test_no_order_is_left_out_where_rounding_is_all_there_is():
    """e^-100 against e^-900: no cost is 0, as none is, and none falls by more than its rounding."""
    cost = NoisyArgmax(GaussianNoise(0.05)).exact(np.array([[127, 124]])).per_query(ORDERS)[0]
    assert (cost > 0).all()
    assert (cost[1:] >= cost[:-1] - 1e-11).all()


def test_classes_alike_to_the_screen_stand_for_each_other(monkeypatch):
    """Against every class told apart."""
    rng = np.random.default_rng(4)
    votes, student_probs = (
        rng.multinomial(30, np.full(12, 1 / 12), size=5),
        rng.dirichlet(np.ones(12), size=5),
    )
    mechanism = presets.build("interactive")
    found = mechanism.exact(votes, student_probs).per_query(GRID)
    monkeypatch.setattr(
        type(mechanism.screen), "relevant_probs", lambda screen, votes, student_probs: student_probs
    )
    apart = mechanism.exact(votes, student_probs).per_query(GRID)
    np.testing.assert_allclose(found, apart, rtol=1e-9, atol=FLOOR)


def test_a_round_is_composed_once(monkeypatch):
    """A run asks for the round's ε, and at its end for the ε of all rounds."""
    cost, found = nzc.GNMax(2).cost(np.array([[5, 3], [4, 4]]), np.array([0, 1])), []
    compose = composition.compose
    monkeypatch.setattr(
        composition, "compose", lambda *given: found.append(given) or compose(*given)
    )
    first = cost.exact_epsilon(1e-5)
    assert (
        cost.exact_epsilon(1e-5)
        == first
        == (cost.epsilon(1e-5).exact, cost.epsilon(1e-5).exact_lower, first[2])
    )
    assert len(found) == 1
    assert cost.exact_epsilon(1e-6)[0] > first[0] and len(found) == 2


def test_laws_are_made_once_where_they_are_small(monkeypatch):
    """For the grid of orders, for others, and for the composition, which takes them away."""
    rng = np.random.default_rng(3)
    made, given = [], nzc.LNMax(0.1).exact(rng.multinomial(50, np.full(4, 0.25), 40))

    def counted(make):
        return lambda: made.append(make) or make()

    def totals():
        cost = replace(given, batches=[(places, counted(make)) for places, make in given.batches])
        composed = composition.compose(cost.laws(), 1e-5, 5.0, 4.0)
        made.clear()
        return (
            cost.total(ORDERS),
            cost.total(GRID),
            composition.compose(cost.laws(), 1e-5, 5.0, 4.0),
            composed,
        )

    kept, times = totals(), len(made)
    assert times == len(given.batches)
    monkeypatch.setattr(exact, "_MOST_KEPT", 0)
    again = totals()
    assert len(made) == 3 * times
    for one, other in zip(kept, again, strict=True):
        np.testing.assert_array_equal(one, other)
    assert kept[2] == kept[3]
