"""The sanitised release: growth of the bound, and the draw as an upper bound, cheap and robust."""

import itertools

import mpmath as mp
import numpy as np
from conftest import parametrize, published_votes
from numpy.random import default_rng
from pytest import approx
from scipy.stats import binom

import nzc
from nzc.accounting import sanitised
from nzc.accounting.data_dependent import gaussian_bound, laplace_bound
from nzc.accounting.rdp import to_epsilon
from nzc.accounting.sanitised import SanitisedPlan
from nzc.mechanisms import ThresholdScreen

BOUNDS = [gaussian_bound(5), laplace_bound(0.3)]


def screen_votes(scores, threshold):
    return ThresholdScreen(threshold, 1).histograms(np.asarray(scores)[:, None], None)


def screen_bound(sigma1):
    return ThresholdScreen(0, sigma1).bound


def largest(bound, votes, order):
    """The largest bound within so many changed teachers, as a function of their number."""
    return sanitised._LargestBound(bound, votes, order).within


@parametrize("bound", BOUNDS, ids=["gaussian", "laplace"])
@parametrize(("teachers", "classes"), [(24, 2), (5, 4)])
def test_growth_covers_every_histogram_within_reach(bound, teachers, classes):
    """Second route: the largest theorem bound of all histograms at most d moves away."""
    every = [
        votes
        for votes in itertools.product(range(teachers + 1), repeat=classes)
        if sum(votes) == teachers
    ]
    every = np.array(every)
    reach = np.abs(every[:, None] - every[None]).sum(axis=2) // 2
    for order in (1.5, 3.0):
        cost = bound.cost(every)(np.array([order]))[:, 0]
        for row in range(0, len(every), max(1, len(every) // 40)):
            within = largest(bound, every[row : row + 1], order)
            for distance in range(teachers + 1):
                brute = cost[reach[row] <= distance].max()
                assert within(distance) >= brute * (1 - 1e-12)
                if distance == 0 and brute < 0.99 * within(teachers):
                    assert within(0) <= brute * 1.02  # and no looser than the rounding of log q


@parametrize("bound", BOUNDS, ids=["gaussian", "laplace"])
def test_log_smooth_bound_has_sensitivity_beta(bound):
    """Several queries, one teacher moves its vote in each of them at once."""
    rng = default_rng(1)
    for _ in range(15):
        teachers = rng.integers(0, 3, size=(6, 15))  # [queries, teachers]
        other = teachers.copy()
        other[:, 0] = rng.integers(0, 3, size=6)
        votes = nzc.count_votes(teachers.T, 3)
        moved = nzc.count_votes(other.T, 3)
        beta = float(rng.choice([0.02, 0.1, 0.5]))
        here = sanitised.log_smooth_bound([(bound, votes)], 2.0, beta)
        there = sanitised.log_smooth_bound([(bound, moved)], 2.0, beta)
        assert abs(here - there) <= beta * (1 + 1e-9)
        assert here >= np.log(bound.cost(votes)(np.array([2.0])).sum()) - 1e-12


def gaussian_by_mpmath(row, sigma, order):
    """Theorem 6 with Proposition 10's moments, written out again."""
    top, *rest = row
    q = sum(mp.erfc(mp.mpf(top - other) / (2 * sigma)) / 2 for other in rest)
    m2 = sigma * mp.sqrt(-mp.log(q))
    m1 = m2 + 1
    e2 = m2 / sigma**2
    independent = mp.mpf(order) / sigma**2
    limit = mp.exp((m2 - 1) * e2) / (m1 / (m1 - 1) * m2 / (m2 - 1)) ** m2
    if m1 <= order or m2 <= 1 or q > limit:
        return independent
    big_a = ((1 - q) / (1 - (q * mp.exp(e2)) ** ((m2 - 1) / m2))) ** (order - 1)
    big_b = (mp.exp(m1 / sigma**2) / q ** (1 / (m1 - 1))) ** (order - 1)
    return min(mp.log((1 - q) * big_a + q * big_b) / (order - 1), independent)


def laplace_by_mpmath(row, gamma, order):
    """Theorem 3, written out again."""
    top, *rest = row
    q = sum((2 + gamma * (top - r)) / (4 * mp.exp(gamma * (top - r))) for r in rest)
    pure = 2 * gamma
    independent = min(pure, pure**2 * order / 2)
    if q > 1 / (mp.exp(pure) + 1):
        return independent
    stay = (1 - q) * ((1 - q) / (1 - mp.exp(pure) * q)) ** (order - 1)
    return min(independent, mp.log(stay + q * mp.exp(pure * (order - 1))) / (order - 1))


@parametrize("row", [[40, 7, 3], [50, 0, 0], [20, 16, 14]], ids=str)
@parametrize(
    ("bound", "by_mpmath", "scale", "order"),
    [
        (gaussian_bound, gaussian_by_mpmath, "5", 3),
        (gaussian_bound, gaussian_by_mpmath, "8", 2),
        (laplace_bound, laplace_by_mpmath, "0.3", 3),
        (laplace_bound, laplace_by_mpmath, "0.1", 8),
    ],
)
def test_bound_by_mpmath(row, bound, by_mpmath, scale, order):
    with mp.workdps(60):
        expected = float(by_mpmath(row, mp.mpf(scale), order))
    found = largest(bound(float(scale)), np.array([row]), float(order))(0)
    assert expected * (1 - 1e-9) <= found <= expected * 1.02


@parametrize("sigma1", [3.0, 20.0])
def test_screen_votes_give_the_screens_own_probability_and_cost(sigma1):
    scores = np.array([10, 31, 35, 60])
    bound = screen_bound(sigma1)
    log_flips = [float(mp.log(mp.ncdf(-abs(score - 35) / sigma1))) for score in scores]
    np.testing.assert_allclose(bound.log_flip(screen_votes(scores, 35)), log_flips)
    worst = 4 / (2 * sigma1**2)  # sensitivity 1, not √2
    assert bound.worst_case(np.array([4.0]))[0] == approx(worst)


def test_a_released_bound_is_too_low_as_often_as_planned():
    """Where the smooth bound is the bound itself, the planned rate is met, not just kept."""
    votes = np.array([[30, 20, 0]] * 40 + [[49, 1, 0]] * 10)
    bound = gaussian_bound(10)
    plan = SanitisedPlan(order=3.0, beta=0.3, noise=2.0, failure=0.02)
    rng = default_rng(2)
    draws = 50_000
    log_bound = sanitised.log_smooth_bound([(bound, votes)], plan.order, plan.beta)
    total = bound.cost(votes)(np.array([plan.order])).sum()
    assert total <= np.exp(log_bound) <= 1.02 * total
    released = np.array([sanitised.draw(log_bound, plan, rng) for _ in range(draws)])
    low, high = binom.ppf([1e-6, 1 - 1e-6], draws, plan.failure)
    assert low <= (released < log_bound).sum() <= high
    assert (released < np.log(total)).sum() <= high
    # and the deviation that is drawn is the one that is charged: α/(2s²) at sensitivity β
    assert released.std() == approx(plan.beta * plan.noise, rel=0.02)
    assert plan.cost == approx(3.0 / (2 * 2.0**2))


def test_published_epsilon_includes_its_own_cost_and_failure():
    delta = 1e-5
    plan = sanitised.plan_bound([(100, gaussian_bound(40))], delta)
    order = plan.order
    spent = 0.3 + order / (2 * plan.noise**2)
    missed = np.log((delta - plan.failure) * order) / (order - 1)
    by_hand = spent + np.log((order - 1) / order) - missed
    assert plan.convert(0.3, delta) == approx(by_hand, rel=1e-12)


@parametrize("order", [1.5, 10.0])
def test_growth_of_a_screen_covers_every_score_within_reach(order):
    bound = screen_bound(6.0)
    scores = np.linspace(0, 60, 241)
    cost = bound.cost(screen_votes(scores, 30.5))(np.array([order]))[:, 0]
    most = bound.worst_case(np.array([order]))[0] * (1 + 1e-12)
    for score in (0, 11, 25, 30, 31, 44.25, 60):
        within = largest(bound, screen_votes(np.array([score]), 30.5), order)
        for distance in range(12):
            near = cost[np.abs(scores - score) <= distance]
            assert near.max() * (1 - 1e-12) <= within(distance) <= most


@parametrize("order", [1.2, 2.0, 6.0])
def test_realised_answers_compose_at_a_fixed_order(order):
    """Point 4 of "The sanitised bound" in docs/proofs.md, by summing over outcomes and neighbours.

    For a screened query, E_P exp((α − 1)(L − ρ_screen − [answered] ρ_label)) ≤ 1. Factors of this
    kind multiply over queries.
    """
    teachers = 30
    mechanism = nzc.Confident(threshold=20, sigma1=8.0, sigma=6.0)
    votes = np.stack([np.arange(teachers + 1), teachers - np.arange(teachers + 1)], axis=1)
    laws = np.exp(mechanism.log_law(votes))  # of the two labels and of abstaining
    asked = screen_bound(8.0).cost(screen_votes(votes.max(axis=1), 20))(np.array([order]))
    answered = gaussian_bound(6.0).cost(votes)(np.array([order]))
    spent = asked + answered * [1, 1, 0]
    for move in (1, -1):
        p = laws[1:][::move]
        q = laws[:-1][::move]
        moments = p**order * q ** (1 - order) * np.exp(-(order - 1) * spent[1:][::move])
        assert (moments.sum(axis=1) <= 1 + 1e-12).all()


@parametrize(("name", "queries", "delta"), [("mnist", 9000, 1e-5), ("svhn", 3000, 1e-6)])
def test_published_votes(name, queries, delta):
    votes = published_votes(name, queries)
    bound = gaussian_bound(40)
    plan = sanitised.plan_bound([(queries, bound)], delta)
    found = sanitised.sanitise([(bound, votes)], plan, delta, default_rng(0))
    cost = bound.cost(votes)
    theorem, _ = to_epsilon(lambda orders: cost(orders).sum(axis=0), delta)
    assert theorem < plan.convert(found, delta) < 1.5 * theorem
