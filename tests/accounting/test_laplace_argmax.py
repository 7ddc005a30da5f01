"""Laws that dominate labels with Laplace noise, against laws of real histograms and an adversary on
a grid.
"""

from functools import reduce
from operator import add

import numpy as np
import pytest
from test_adaptive import attacker

import nzc
from nzc.accounting import laplace_argmax
from nzc.accounting.data_independent import optimal_pure
from nzc.accounting.induction import by_moments
from nzc.mechanisms import LaplaceNoise, NoisyArgmax
from nzc.mechanisms.screen import ThresholdScreen

DELTA = 1e-5


def by_kinks(p, q, kinks):
    """Σ (p − s q)₊ of laws [laws, outcomes] at all s [s]."""
    return np.stack([np.maximum(p - s * q, 0).sum(axis=1) for s in kinks], axis=1)


@pytest.mark.parametrize("gamma", [0.01, 0.1, 0.7, 2.0, 4.0])
def test_the_laws_dominate_every_histogram(gamma):
    """For random V, convex in e^−ℓ: at ties, far ones, of two to six classes, and one moved vote
    away.
    """
    rng, grid = np.random.default_rng(0), gamma / 8
    start, _, own, infinite = laplace_argmax.bands(gamma, grid)[0]
    s = np.exp(grid * np.arange(start, 1 - start))
    kinks = np.exp(gamma * rng.uniform(-2.2, 2.2, 60))
    few = rng.exponential(size=(200, 60)) * (
        rng.random((200, 60)) < 0.05
    )  # V is a mean of few kinks
    bound = (
        np.maximum(by_kinks(own, own / s, kinks) + infinite[:, None], np.maximum(1 - kinks, 0))
        @ few.T
    )
    d, v = 2 * rng.normal(size=4000), rng.uniform(-6, 12, 4000)  # with M = Exp(1)
    known = [
        tuple(
            np.stack(laplace_argmax._law(d + side * gamma / 2, v)[:3], axis=1) for side in (1, -1)
        )
    ]
    for classes in (2, 3, 6):
        votes = np.round(
            rng.choice([0.3, 1.5, 8.0], (150, 1)) * rng.normal(size=(150, classes)) / gamma
        ).astype(int)
        votes = np.concatenate([votes, np.zeros((1, classes), int)]) + 10**6
        moved = votes + np.eye(classes, dtype=int)[0] - np.eye(classes, dtype=int)[1]
        known.append(tuple(np.exp(nzc.LNMax(gamma).log_law(at))[:, :-1] for at in (votes, moved)))
    for p, q in known:
        for pair in ((p, q), (q, p)):
            assert ((by_kinks(*pair, kinks) @ few.T).max(axis=0) <= bound.max(axis=0) + 1e-12).all()


@pytest.mark.parametrize(
    ("gamma", "queries", "most"),
    [
        (0.02, 100, 1.05),
        (0.1, 20, 1.05),
        (0.1, 100, 1.05),
        (0.3, 20, 1.05),
        (0.9, 100, 1.05),
        (3.0, 20, 1.1),
    ],
)
def test_the_bound_is_near_an_adversary(gamma, queries, most):
    """Who asks two classes near a tie: Pr[label] follows the difference of two Lap(1). At large γ
    three are worse.
    """
    lead = np.arange(-12, 13) / 4

    def below(z):
        tail = (2 + abs(z)) * np.exp(-abs(z)) / 4
        return np.where(z < 0, tail, 1 - tail)

    p, q = below(lead + gamma), below(lead - gamma)
    labels = [(np.array([a, 1 - a]), np.array([b, 1 - b])) for a, b in zip(p, q, strict=True)]
    labels += [pair[::-1] for pair in labels]
    stated = nzc.LNMax(gamma).worst_case_epsilon(queries, DELTA)
    assert 1 <= stated / attacker([], labels, queries, DELTA, stated) <= most


def test_moments_bound_what_induction_finds():
    found = nzc.LNMax(0.9).worst_case_epsilon(100, DELTA)
    assert (
        found <= by_moments(laplace_argmax.bands(0.9, 0.9 / 8), 100, 0.9 / 8, DELTA) <= 1.1 * found
    )


@pytest.mark.parametrize(("gamma", "queries"), [(1.5, 1000), (0.3, 10_000)])
def test_above_300_the_bound_is_near_a_tie_of_two(gamma, queries):
    """Whose labels are randomised response (Kairouz, Oh, Viswanath 2015)."""
    tail = (2 + gamma) * np.exp(-gamma) / 4
    reached = optimal_pure(np.log((1 - tail) / tail), queries, DELTA)
    assert 1 <= nzc.LNMax(gamma).worst_case_epsilon(queries, DELTA) / reached <= 1.1


def test_a_small_delta_is_not_used_up_by_constants():
    stated = [nzc.LNMax(0.5).worst_case_epsilon(100, delta) for delta in (1e-11, 1e-12)]
    assert stated[1] < 1.05 * stated[0]


def test_rounds_of_other_noise_cost_no_more_than_each_alone():
    """A screened label of little noise beside dear ones: each on a grid of its own."""
    cheap = NoisyArgmax(LaplaceNoise(0.0071), screen=ThresholdScreen(100, 15))
    dear, little = nzc.LNMax(0.5).promise(40, 40), cheap.promise(60, 60)
    both = (dear + little).data_independent(DELTA)
    assert dear.data_independent(DELTA) < both < 1.03 * dear.data_independent(DELTA)
    for parts in (
        (nzc.PermuteAndFlip(0.5).promise(20, 20), nzc.GNMax(20).promise(400, 400)),
        (nzc.LNMax(5.0).promise(3, 3), nzc.GNMax(1.0).promise(3, 3), nzc.Counts(2.0).promise(2, 2)),
    ):
        each = sum(part.data_independent(DELTA / len(parts)) for part in parts)
        assert reduce(add, parts).data_independent(DELTA) <= each
