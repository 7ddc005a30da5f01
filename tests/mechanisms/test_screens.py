"""Screens: sensitivity 1, the papers' figures, and what stable promises."""

from itertools import product

import brute
import numpy as np
import presets
import pytest
from conftest import published_votes
from scipy.special import log_ndtr

import nzc
from nzc.mechanisms import (
    ABSTAIN,
    GaussianNoise,
    InteractiveScreen,
    NoisyArgmax,
    StabilityScreen,
    ThresholdScreen,
)
from nzc.validation import InputError

SCREENS = [ThresholdScreen(20, 5), InteractiveScreen(20, 5, 0.9), StabilityScreen(20, 5)]


@pytest.mark.parametrize("screen", SCREENS, ids=str)
def test_one_vote_moves_the_statistic_by_at_most_one(screen):
    """Also: a label is stable, d > 0, only where no moved vote changes the plurality."""
    rng = np.random.default_rng(0)
    for votes in product(range(7), repeat=3):
        p, here = rng.dirichlet(np.ones(3)), screen.statistic(np.array(votes), None)
        for moved in brute.moves(votes):
            step = screen.statistic(np.array(votes), p) - screen.statistic(np.array(moved), p)
            assert abs(step) <= 1 + 1e-12
            unstable = np.argmax(moved) != np.argmax(votes)
            assert not (unstable and here > 0 and isinstance(screen, StabilityScreen))


def test_stable_spends_its_leak_from_delta():
    votes, labels = np.array([[240, 10], [125, 125]] * 50), np.zeros(100, dtype=int)
    mechanism = nzc.Stable(80, 12)
    delta_cost = float(np.exp(log_ndtr(-80 / 12)))
    below, tight, loose = (
        mechanism.cost(votes, labels).epsilon(delta)
        for delta in (99.9 * delta_cost, 101 * delta_cost, 1e-5)
    )
    assert below.exact == below.data_independent == np.inf
    assert (
        loose.exact < tight.exact < np.inf
        and loose.data_independent < tight.data_independent < np.inf
    )


def test_interactive_without_a_student_is_confident():
    votes, probs = np.array([[180, 70], [130, 120]]), np.array([[0.72, 0.28], [0.52, 0.48]])
    confident = nzc.Confident(200, 150, 40)
    interactive = NoisyArgmax(GaussianNoise(40), screen=InteractiveScreen(200, 150, 0.9))
    np.testing.assert_array_equal(interactive.log_law(votes), confident.log_law(votes))
    assert (interactive.log_law(votes, probs)[:, -1] > interactive.log_law(votes)[:, -1]).all()
    assert interactive.release(votes, np.random.default_rng(0), probs).shape == (2,)


@pytest.mark.parametrize(
    "probs", [[[-9.0, 10.0]], [[-3.0, -3.0]], [[1.0, 1.5]], [[np.inf, 0.0]], [[np.nan, 0.0]]]
)
def test_a_student_states_probabilities(probs):
    """With other numbers a vote that vanishes changes the statistic by more than 1, and all ε would
    be too small.
    """
    mechanism = nzc.Interactive(threshold=3, sigma1=1, sigma=40, confidence=0.9).between(
        nzc.Abstentions(10)
    )
    votes, label = np.array([[5, 4]]), np.array([0])
    for use in (
        lambda: mechanism.release(votes, np.random.default_rng(0), probs),
        lambda: mechanism.cost(votes, label, probs),
        lambda: mechanism.exact(votes, probs),
        lambda: mechanism.log_law(votes, probs),
    ):
        with pytest.raises(InputError, match=r"^student_probs=.*must be probabilities"):
            use()


def test_a_cost_that_depends_on_a_student_is_not_told_without_one():
    mechanism = NoisyArgmax(GaussianNoise(40), screen=InteractiveScreen(20, 5, 0.9))
    votes, probs, label = np.array([[600, 400]]), np.array([[0.6, 0.4]]), np.array([0])
    with pytest.raises(
        InputError, match=r"^student_probs=missing: must be what `release` was given"
    ):
        mechanism.cost(votes, label)
    orders = np.array([2.0, 8.0])
    without, known = (
        mechanism.cost(votes, label, student).rdp(orders) for student in (None, probs)
    )
    assert (without == nzc.Confident(20, 5, 40).cost(votes, label).rdp(orders)).all()
    assert (known > without).all()


def test_only_confident_students_are_reinforced():
    student_probs = np.array([[0.99, 0.01, 0, 0], [0.95, 0.05, 0, 0], [0.1, 0.8, 0.1, 0]])
    reinforced = InteractiveScreen(20, 5, 0.9).reinforce(
        np.array([3, ABSTAIN, ABSTAIN]), student_probs
    )
    assert reinforced.tolist() == [3, 0, ABSTAIN]


@pytest.mark.parametrize("name", ["confident", "interactive", "stable"])
def test_wrong_screens_are_refused_by_name(name):
    for knob, value in (
        ("threshold", -1),
        ("threshold", np.nan),
        ("sigma1", 0),
        ("sigma1", "much"),
        ("sigma1", None),
    ):
        with pytest.raises(InputError, match=f"{knob}=.*: must be a finite number"):
            presets.build(name, **{knob: value})
    with pytest.raises(InputError, match=r"threshold=5000: must be at most"):
        presets.build(name, threshold=5000).check(250)
    with pytest.raises(InputError, match="confidence=1: must be a number strictly between 0 and 1"):
        InteractiveScreen(20, 5, 1)


def test_abstaining_is_precise_far_above_the_threshold():
    _, abstain = ThresholdScreen(0, 5).log_answer(np.array([[250, 0]]), None)
    assert abstain[0] == pytest.approx(float(brute.mp.log(brute.mp.ncdf(-50))), rel=1e-12)


def test_the_papers_confident_run():
    """The confident row of reference/epsilon.yaml: 10,000 SVHN queries, T = 300, σ₁ = 200, σ₂ = 40,
    δ = 1e-6.

    The papers' tables have the expected cost, Σ cost of asking + Pr[answered] · cost of the label,
    which bounds no run.
    """
    votes, screen, noise = (
        published_votes("svhn", 10_000),
        ThresholdScreen(300, 200),
        GaussianNoise(40),
    )
    answer = np.exp(screen.log_answer(votes, None)[0])
    ask, label = screen.bound.cost(screen.histograms(votes, None)), noise.bound.cost(votes)
    expected = brute.mironov(lambda orders: ask(orders).sum(axis=0) + answer @ label(orders), 1e-6)
    assert answer.sum() == pytest.approx(3499, abs=0.5)
    assert expected == pytest.approx(5.36, abs=0.005)


class OneClass(nzc.Screen):
    """The votes for class 1: a moved vote changes them by at most 1."""

    def statistic(self, votes, student_probs):
        return np.asarray(votes[..., 1], dtype=float)


class Expected(ThresholdScreen):
    """How many votes the student expects to be right; it does not say which probabilities matter."""

    asks_student = True

    def statistic(self, votes, student_probs):
        return np.asarray(
            votes.max(axis=-1) if student_probs is None else (votes * student_probs).sum(axis=-1)
        )


def neighbours_by_hand(mechanism, votes, probs, epsilon):
    """Return the smallest δ at ε by the law of each neighbour in the order of classes."""
    laws = [
        np.exp(mechanism.log_law(np.array([row]), probs))[0] for row in (votes, *brute.moves(votes))
    ]
    return max(
        max(brute.excess(laws[0], there, epsilon), brute.excess(there, laws[0], epsilon))
        for there in laws[1:]
    )


@pytest.mark.parametrize("votes", [[10, 10], [0, 6], [6, 0], [4, 9, 4]])
@pytest.mark.parametrize("screen", [OneClass(0, 2), OneClass(3, 1), Expected(3, 1)], ids=str)
def test_a_screen_of_ones_own_may_know_classes(votes, screen):
    probs = np.array([[0.7, 0.2, 0.1][: len(votes)]]) if screen.asks_student else None
    mechanism = NoisyArgmax(GaussianNoise(10), screen=screen)
    cost = mechanism.cost(np.array([votes]), np.zeros(1, int), probs).epsilon(1e-6)
    assert neighbours_by_hand(mechanism, votes, probs, cost.exact * (1 + 1e-6)) <= 1e-6 * (1 + 1e-6)
    assert (
        neighbours_by_hand(mechanism, votes, probs, cost.exact * 0.99) > 1e-6
        or cost.exact == cost.data_independent
    )


def _screen(base, **replaced):
    return type("Mine", (base,), replaced)(2, 3)


def _gap(screen, votes, student_probs):
    ordered = np.sort(votes, axis=-1)
    return ordered[..., -1] - ordered[..., -2]


SCREENS_TO_REFUSE = [
    (
        _screen(nzc.Screen, statistic=_gap),
        "must change by at most 1 where one vote moves; it changes by 2",
    ),
    (
        _screen(nzc.Screen, statistic=lambda screen, v, p: v[..., 0] * (np.arange(len(v)) % 2)),
        "each histogram alone",
    ),
    (_screen(nzc.Screen, statistic=lambda screen, v, p: v * 1.0), "must return one finite number"),
    (
        _screen(ThresholdScreen, answers=lambda *_: None),
        "must leave `answers` as ThresholdScreen has it",
    ),
    (_screen(ThresholdScreen, log_answer=lambda *_: None), "must leave `log_answer`"),
    (_screen(ThresholdScreen, worst_case=lambda *_: None), "must leave `worst_case`"),
    (_screen(StabilityScreen, statistic=_gap), "must leave `statistic` as StabilityScreen has it"),
]


@pytest.mark.parametrize(("screen", "reason"), SCREENS_TO_REFUSE)
def test_a_screen_without_its_promise_is_refused(screen, reason):
    with pytest.raises(InputError, match=reason):
        NoisyArgmax(GaussianNoise(5), screen=screen).release(
            np.array([[6, 4, 0]]), np.random.default_rng(0)
        )


def test_a_screen_that_does_not_ask_the_student_is_not_told_its_probabilities():
    statistic = lambda screen, votes, probs: np.asarray(
        (votes if probs is None else votes * probs).max(-1), float
    )  # noqa: E731
    mechanism = NoisyArgmax(GaussianNoise(5), screen=_screen(nzc.Screen, statistic=statistic))
    votes, probs = np.array([[6, 4], [5, 5]] * 50), np.full((100, 2), 0.01)
    told, untold = (
        mechanism.release(votes, np.random.default_rng(0), student) for student in (probs, None)
    )
    assert (told == untold).all() and (told != ABSTAIN).any()
