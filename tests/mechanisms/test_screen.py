"""Screens: sensitivity 1, the papers' figures, and what stable promises."""

from itertools import product

import brute
import numpy as np
import presets
from conftest import parametrize
from numpy.random import default_rng
from pytest import approx, raises
from scipy.special import log_ndtr

import nzc
from nzc.mechanisms import (
    GaussianNoise,
    InteractiveScreen,
    NoisyArgmax,
    StabilityScreen,
    ThresholdScreen,
)
from nzc.validation import InputError

INTERACTIVE = NoisyArgmax(GaussianNoise(40), screen=InteractiveScreen(20, 5, 0.9))


@parametrize(
    "screen", [ThresholdScreen(20, 5), InteractiveScreen(20, 5, 0.9), StabilityScreen(20, 5)]
)
def test_one_vote_moves_the_statistic_by_at_most_one(screen):
    """Also: a label is stable, d > 0, only where no moved vote changes the plurality."""
    rng = default_rng(0)
    for votes in product(range(7), repeat=3):
        moved = np.array([votes, *brute.moves(votes)])
        probs = np.tile(rng.dirichlet(np.ones(3)), (len(moved), 1))
        statistic = screen.statistic(moved, probs)
        assert (np.abs(statistic - statistic[0]) <= 1 + 1e-12).all()
        if isinstance(screen, StabilityScreen) and statistic[0] > 0:
            assert (moved.argmax(axis=1) == np.argmax(votes)).all()


def test_stable_spends_its_leak_from_delta():
    votes = np.array([[240, 10], [125, 125]] * 50)
    cost = nzc.Stable(80, 12).cost(votes, [0] * 100)
    delta_cost = float(np.exp(log_ndtr(-80 / 12)))
    # Every query uses its part of δ, answered or not.
    assert nzc.Stable(80, 12).promise(100, 1).delta_cost == approx(100 * delta_cost)
    below, tight, loose = map(cost.epsilon, (99.9 * delta_cost, 101 * delta_cost, 1e-5))
    assert below.exact == below.data_independent == np.inf
    assert loose.exact < tight.exact < np.inf
    assert loose.data_independent < tight.data_independent < np.inf


def test_interactive_without_a_student_is_confident():
    votes = np.array([[180, 70], [130, 120]])
    confident = nzc.Confident(20, 5, 40)
    np.testing.assert_array_equal(INTERACTIVE.log_law(votes), confident.log_law(votes))


@parametrize("probs", [[-9.0, 10.0], [-3.0, -3.0], [1.0, 1.5], [np.inf, 0], [np.nan, 0]])
@parametrize("use", ["release", "cost", "exact", "log_law"])
def test_a_student_states_probabilities(probs, use):
    """With other numbers a moved vote may change the statistic by more than 1."""
    mechanism = INTERACTIVE.between(nzc.Abstentions(10))
    more = {"release": [default_rng(0)], "cost": [np.array([0])]}
    with raises(InputError, match=r"^student_probs=.*must be probabilities"):
        getattr(mechanism, use)(np.array([[5, 4]]), *more.get(use, []), student_probs=[probs])


def test_a_cost_that_needs_a_student_is_not_told_without_one():
    with raises(InputError, match=r"^student_probs=missing"):
        INTERACTIVE.cost([[600, 400]], [0])


@parametrize("name", ["confident", "interactive", "stable"])
@parametrize(
    ("knob", "value"),
    [("threshold", -1), ("threshold", np.nan), ("sigma1", 0), ("sigma1", "much"), ("sigma1", None)],
)
def test_wrong_screens_are_refused_by_name(name, knob, value):
    with raises(InputError, match=f"{knob}=.*: must be a finite number"):
        presets.build(name, **{knob: value})


def test_an_unreachable_threshold_or_confidence_is_refused():
    with raises(InputError, match=r"threshold=5000: must be at most"):
        nzc.Confident(5000, 5, 40).check(250)
    with raises(InputError, match="confidence=1: must be a number strictly between 0 and 1"):
        InteractiveScreen(20, 5, 1)


def test_abstaining_is_precise_far_above_the_threshold():
    _, abstain = ThresholdScreen(0, 5).log_answer(np.array([[250, 0]]), None)
    assert abstain[0] == approx(float(brute.mp.log(brute.mp.ncdf(-50))), rel=1e-12)
