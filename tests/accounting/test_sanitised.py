"""The sanitised release: is the bound's growth the true one, is the draw an upper bound, is it
cheap and robust?
"""

import itertools

import mpmath
import numpy as np
import pytest
from conftest import published_votes
from scipy.special import ndtr
from scipy.stats import binom

from nzc.accounting import sanitised
from nzc.accounting.data_dependent import gaussian_bound, laplace_bound
from nzc.accounting.rdp import to_epsilon
from nzc.accounting.sanitised import Plan
from nzc.mechanisms import ThresholdScreen

BOUNDS = {"gaussian": gaussian_bound(5), "laplace": laplace_bound(0.3)}


def histograms(teachers, classes):
    return [h for h in itertools.product(range(teachers + 1), repeat=classes) if sum(h) == teachers]


def screen_votes(scores, threshold):
    return ThresholdScreen(threshold, 1).histograms(np.asarray(scores)[:, None], None)


def screen_bound(sigma1):
    return ThresholdScreen(0, sigma1).bound


def theorem_total(released, order):
    return sum(
        bound.rdp(bound.log_flip(votes), np.array([order])).sum() for bound, votes in released
    )


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize(("teachers", "classes"), [(24, 2), (7, 4)])
def test_growth_covers_every_histogram_within_reach(name, teachers, classes):
    """Second route: the largest theorem bound among all histograms at most d moves away, by
    enumeration.
    """
    bound, every = BOUNDS[name], np.array(histograms(teachers, classes))
    reach = np.abs(every[:, None] - every[None]).sum(axis=2) // 2
    for order in (1.5, 3.0):
        cost = bound.rdp(bound.log_flip(every), np.array([order]))[:, 0]
        for row in range(0, len(every), max(1, len(every) // 40)):
            worst, _ = sanitised._worst(bound, every[row : row + 1], order)
            for distance in range(teachers + 1):
                brute = cost[reach[row] <= distance].max()
                assert worst(distance) >= brute * (1 - 1e-12)
                if distance == 0 and brute < 0.99 * worst(teachers):
                    assert worst(0) <= brute * 1.02  # and no looser than the rounding of log q


@pytest.mark.parametrize("name", BOUNDS)
def test_log_smooth_bound_has_sensitivity_beta(name):
    """Several queries, one teacher moves its vote in each of them at once."""
    rng, bound = np.random.default_rng(1), BOUNDS[name]
    for _ in range(100):
        teachers = rng.integers(0, 3, size=(6, 15))  # [queries, teachers]
        other = teachers.copy()
        other[:, 0] = rng.integers(0, 3, size=6)
        votes, moved = (
            np.stack([(t == k).sum(axis=1) for k in range(3)], axis=1) for t in (teachers, other)
        )
        beta = float(rng.choice([0.02, 0.1, 0.5]))
        here, there = (sanitised.log_smooth_bound([(bound, v)], 2.0, beta) for v in (votes, moved))
        assert abs(here - there) <= beta * (1 + 1e-9)
        assert here >= np.log(theorem_total([(bound, votes)], 2.0)) - 1e-12


def test_bound_by_mpmath():
    """Theorem 6 with Proposition 10's moments and Theorem 3, written out again at 60 digits."""
    votes, mp = np.array([[3, 40, 7], [50, 0, 0], [20, 14, 16]]), mpmath.mp.clone()
    mp.dps = 60
    for row in votes:
        top, *rest = sorted(map(int, row), reverse=True)
        for sigma, a in ((5, 3), (8, 2)):
            q = sum(mp.erfc(mp.mpf(top - r) / (2 * sigma)) / 2 for r in rest)
            m2 = sigma * mp.sqrt(-mp.log(q))
            m1, e2 = m2 + 1, m2 / sigma**2
            big_a = ((1 - q) / (1 - (q * mp.exp(e2)) ** ((m2 - 1) / m2))) ** (a - 1)
            big_b = (mp.exp(m1 / sigma**2) / q ** (1 / (m1 - 1))) ** (a - 1)
            data = mp.log((1 - q) * big_a + q * big_b) / (a - 1)
            valid = (
                m1 > a
                and m2 > 1
                and q <= mp.exp((m2 - 1) * e2) / (m1 / (m1 - 1) * m2 / (m2 - 1)) ** m2
            )
            check(
                gaussian_bound(sigma),
                row,
                a,
                min(data, mp.mpf(a) / sigma**2) if valid else mp.mpf(a) / sigma**2,
            )
        for gamma, a in ((mp.mpf("0.3"), 3), (mp.mpf("0.1"), 8)):
            q = sum((2 + gamma * (top - r)) / (4 * mp.exp(gamma * (top - r))) for r in rest)
            pure = 2 * gamma
            expected = min(pure, pure**2 * a / 2)
            if q <= 1 / (mp.exp(pure) + 1):
                data = (1 - q) * ((1 - q) / (1 - mp.exp(pure) * q)) ** (a - 1) + q * mp.exp(
                    pure * (a - 1)
                )
                expected = min(expected, mp.log(data) / (a - 1))
            check(laplace_bound(float(gamma)), row, a, expected)


def check(bound, row, order, expected):
    worst, _ = sanitised._worst(bound, row[None], float(order))
    assert float(expected) * (1 - 1e-9) <= worst(0) <= float(expected) * 1.02


@pytest.mark.parametrize("sigma1", [3.0, 20.0])
def test_screen_votes_give_the_screens_own_probability_and_cost(sigma1):
    scores, threshold = np.array([10, 31, 35, 60]), 35
    votes, bound = screen_votes(scores, threshold), screen_bound(sigma1)
    assert np.allclose(
        bound.log_flip(votes),
        [float(mpmath.log(mpmath.ncdf(-abs(s - threshold) / sigma1))) for s in scores],
    )
    assert bound.worst_case(np.array([4.0]))[0] == pytest.approx(
        4 / (2 * sigma1**2)
    )  # sensitivity 1, not √2


def test_released_bound_is_too_low_as_often_as_planned_and_no_more():
    """Where the smooth bound is the bound itself, the planned rate is met, not just kept."""
    votes, bound = np.array([[30, 20, 0]] * 40 + [[49, 1, 0]] * 10), gaussian_bound(10)
    plan, draws, rng = (
        Plan(order=3.0, beta=0.3, noise=2.0, failure=0.02),
        200_000,
        np.random.default_rng(2),
    )
    log_bound = sanitised.log_smooth_bound([(bound, votes)], plan.order, plan.beta)
    total = theorem_total([(bound, votes)], plan.order)
    assert total <= np.exp(log_bound) <= 1.02 * total
    released = np.array([sanitised.draw(log_bound, plan, rng) for _ in range(draws)])
    low, high = binom.ppf([1e-6, 1 - 1e-6], draws, plan.failure)
    assert low <= (released < log_bound).sum() <= high
    assert (released < np.log(total)).sum() <= high
    # and the deviation that is drawn is the one that is charged: α/(2s²) at sensitivity β
    assert released.std() == pytest.approx(plan.beta * plan.noise, rel=0.01)
    assert plan.cost == pytest.approx(3.0 / (2 * 2.0**2))


def test_published_epsilon_includes_its_own_cost_and_failure():
    votes, bound, delta = np.array([[200, 40, 10]] * 100), gaussian_bound(40), 1e-5
    plan = sanitised.plan([(100, bound)], delta)
    rdp, a = sanitised.sanitise([(bound, votes)], plan, delta, np.random.default_rng(0)), plan.order
    by_hand = (
        rdp
        + a / (2 * plan.noise**2)
        + np.log((a - 1) / a)
        - np.log((delta - plan.failure) * a) / (a - 1)
    )
    assert plan.convert(rdp, delta) == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize(
    "bound", [gaussian_bound(0.1), gaussian_bound(1e6), laplace_bound(0.05), laplace_bound(5)]
)
@pytest.mark.parametrize(
    "votes", [[[5000, 0]], [[1, 1, 1]], [[0, 3, 9, 1]], [[5000, 0], [2501, 2499]]]
)
def test_any_votes_have_a_finite_epsilon_in_any_class_order(bound, votes):
    votes, plan = np.array(votes), sanitised.plan([(len(votes), bound)], 1e-6)
    got, shuffled = (
        sanitised.sanitise([(bound, order)], plan, 1e-6, np.random.default_rng(0))
        for order in (votes, votes[:, ::-1])
    )
    assert 0 < plan.convert(got, 1e-6) < np.inf and got == shuffled
    assert got <= len(votes) * bound.worst_case(np.array([plan.order]))[0] * (1 + 1e-12)
    assert sanitised.sanitise([(bound, votes[:0])], plan, 1e-6, np.random.default_rng(0)) == 0
    charge = sanitised._charge(bound, plan.order)
    assert np.isfinite(charge).all() and (charge >= 0).all() and (np.diff(charge) >= 0).all()


@pytest.mark.parametrize("order", [1.5, 10.0])
def test_growth_of_a_screen_covers_every_score_within_reach(order):
    bound, threshold = screen_bound(6.0), 30.5
    scores = np.linspace(0, 60, 241)
    cost = bound.rdp(bound.log_flip(screen_votes(scores, threshold)), np.array([order]))[:, 0]
    for score in (0, 11, 25, 30, 31, 44.25, 60):
        worst, _ = sanitised._worst(bound, screen_votes(np.array([score]), threshold), order)
        for distance in range(12):
            near = cost[np.abs(scores - score) <= distance]
            assert (
                near.max() * (1 - 1e-12)
                <= worst(distance)
                <= bound.worst_case(np.array([order]))[0] * (1 + 1e-12)
            )


@pytest.mark.parametrize("order", [1.2, 2.0, 6.0])
def test_realised_answers_compose_at_a_fixed_order(order):
    """Point 4 of "The sanitised bound" in docs/proofs.md, by summing over outcomes of a screened
    query, all neighbours:
    E_P exp((α − 1)(L − ρ_screen − [answered] ρ_label)) ≤ 1. Factors of this kind multiply over
    queries.
    """
    teachers, sigma, sigma1, threshold = 30, 6.0, 8.0, 20
    label, screened, at = gaussian_bound(sigma), screen_bound(sigma1), np.array([order])

    def outcomes(first):
        passes = ndtr((max(first, teachers - first) - threshold) / sigma1)
        zero = ndtr((2 * first - teachers) / (np.sqrt(2) * sigma))
        return np.array([1 - passes, passes * zero, passes * (1 - zero)])

    for first in range(teachers + 1):
        votes = np.array([[first, teachers - first]])
        asked = screened.rdp(screened.log_flip(screen_votes(votes.max(axis=1), threshold)), at)[
            0, 0
        ]
        answered = label.rdp(label.log_flip(votes), at)[0, 0]
        spent = asked + np.array([0, answered, answered])
        for other in {max(first - 1, 0), min(first + 1, teachers)}:
            p, q = outcomes(first), outcomes(other)
            assert (p**order * q ** (1 - order) * np.exp(-(order - 1) * spent)).sum() <= 1 + 1e-12


@pytest.mark.parametrize(
    ("name", "queries", "delta"), [("mnist", 9000, 1e-5), ("svhn", 3000, 1e-6)]
)
def test_published_votes(name, queries, delta):
    votes, bound = published_votes(name, queries), gaussian_bound(40)
    plan = sanitised.plan([(queries, bound)], delta)
    got = sanitised.sanitise([(bound, votes)], plan, delta, np.random.default_rng(0))
    theorem = to_epsilon(
        lambda orders: bound.rdp(bound.log_flip(votes), orders).sum(axis=0), delta
    )[0]
    assert theorem < plan.convert(got, delta) < 1.5 * theorem
