"""Laws that dominate labels with Laplace noise, against laws of real histograms and an adversary on a grid."""

import numpy as np
import pytest
from test_adaptive import attacker

import nzc
from nzc.accounting import laplace_argmax

DELTA = 1e-5


def by_kinks(p, q, kinks):
    """Σ (p − s q)₊ of laws [laws, outcomes] at all s [s]."""
    return np.stack([np.maximum(p - s * q, 0).sum(axis=1) for s in kinks], axis=1)


@pytest.mark.parametrize("gamma", [0.01, 0.1, 0.7])
def test_the_laws_dominate_every_histogram(gamma):
    """For random V, convex in e^−ℓ: at ties, far ones, of two to six classes, and one moved vote away."""
    rng, grid = np.random.default_rng(0), gamma / 8
    start, _, own, infinite = laplace_argmax.bands(gamma, grid)[0]
    s = np.exp(grid * np.arange(start, 1 - start))
    kinks = np.exp(gamma * rng.uniform(-2.2, 2.2, 60))
    few = rng.exponential(size=(200, 60)) * (rng.random((200, 60)) < 0.05)  # V is a mean of few kinks
    bound = np.maximum(by_kinks(own, own / s, kinks) + infinite[:, None], np.maximum(1 - kinks, 0)) @ few.T
    d, v = 2 * rng.normal(size=4000), rng.uniform(-6, 12, 4000)  # with M = Exp(1)
    known = [tuple(np.stack(laplace_argmax._law(d + side * gamma / 2, v)[:3], axis=1) for side in (1, -1))]
    for classes in (2, 3, 6):
        votes = np.round(rng.choice([0.3, 1.5, 8.0], (150, 1)) * rng.normal(size=(150, classes)) / gamma).astype(int)
        votes = np.concatenate([votes, np.zeros((1, classes), int)]) + 10**6
        moved = votes + np.eye(classes, dtype=int)[0] - np.eye(classes, dtype=int)[1]
        known.append(tuple(np.exp(nzc.LNMax(gamma).log_law(at))[:, :-1] for at in (votes, moved)))
    for p, q in known:
        for pair in ((p, q), (q, p)):
            assert ((by_kinks(*pair, kinks) @ few.T).max(axis=0) <= bound.max(axis=0) + 1e-12).all()


@pytest.mark.parametrize(("gamma", "queries"), [(0.02, 100), (0.1, 20), (0.1, 100), (0.3, 20)])
def test_the_bound_is_within_5_percent_of_an_adversary(gamma, queries):
    """Who asks two classes near a tie: Pr[label] follows the difference of two Lap(1)."""
    lead = np.arange(-12, 13) / 4

    def below(z):
        tail = (2 + abs(z)) * np.exp(-abs(z)) / 4
        return np.where(z < 0, tail, 1 - tail)

    p, q = below(lead + gamma), below(lead - gamma)
    labels = [(np.array([a, 1 - a]), np.array([b, 1 - b])) for a, b in zip(p, q, strict=True)]
    labels += [pair[::-1] for pair in labels]
    stated = nzc.LNMax(gamma).worst_case_epsilon(queries, DELTA)
    assert 1 <= stated / attacker([], labels, queries, DELTA, stated) <= 1.05
