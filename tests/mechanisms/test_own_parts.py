"""Screens of one's own: what a statistic must be."""

import brute
import numpy as np
from conftest import parametrize
from numpy.random import default_rng
from pytest import raises

from nzc.mechanisms import (
    GaussianNoise,
    NoisyArgmax,
    Screen,
    ThresholdScreen,
)
from nzc.validation import InputError


class OneClass(Screen):
    """The votes for class 1: a moved vote changes them by at most 1."""

    def statistic(self, votes, student_probs):
        return np.asarray(votes[..., 1], dtype=float)


class Expected(ThresholdScreen):
    """How many votes the student expects to be right; which probabilities matter it hides."""

    asks_student = True

    def statistic(self, votes, student_probs):
        if student_probs is None:
            return super().statistic(votes, None)
        return np.asarray((votes * student_probs).sum(axis=-1))


@parametrize("votes", [[10, 10], [0, 6], [6, 0], [4, 9, 4]])
@parametrize("screen", [OneClass(0, 2), OneClass(3, 1), Expected(3, 1)], ids=str)
def test_a_screen_of_ones_own_may_know_classes(votes, screen):
    probs = np.array([[0.7, 0.2, 0.1][: len(votes)]]) if screen.asks_student else None
    mechanism = NoisyArgmax(GaussianNoise(10), screen=screen)
    cost = mechanism.cost(np.array([votes]), np.zeros(1, int), probs).epsilon(1e-6)
    laws = []
    for row in (votes, *brute.moves(votes)):
        laws.append(np.exp(mechanism.log_law(np.array([row]), probs))[0])
    assert brute.leak(laws[0], laws[1:], cost.exact * (1 + 1e-6)) <= 1e-6 * (1 + 1e-6)
    if cost.exact < cost.data_independent:
        assert brute.leak(laws[0], laws[1:], cost.exact * 0.99) > 1e-6


def own_screen(statistic):
    return type("Mine", (Screen,), {"statistic": statistic})(2, 3)


def gap(screen, votes, student_probs):
    return np.diff(np.sort(votes, axis=-1), axis=-1)[..., -1]


@parametrize("statistic", [gap, lambda _, votes, probs: votes * 1.0])
def test_a_statistic_that_changes_by_more_than_one_is_refused(statistic):
    screen = own_screen(statistic)
    mechanism = NoisyArgmax(GaussianNoise(5), screen=screen)
    with raises(InputError, match=r"^statistic=Mine: .*changes by at most 1"):
        mechanism.release(np.array([[6, 4, 0]]), default_rng(0))


def test_a_screen_is_told_of_the_student_only_if_it_asks():
    def statistic(screen, votes, probs):
        assert probs is None
        return votes.max(axis=-1)

    mechanism = NoisyArgmax(GaussianNoise(5), screen=own_screen(statistic))
    votes = np.array([[6, 4], [5, 5]])
    assert mechanism.release(votes, default_rng(0), votes / 10).shape == (2,)
