"""Laws that dominate labels with Laplace noise, against real histograms."""

import numpy as np
import pytest
from conftest import parametrize

import nzc
from nzc.accounting import laplace_argmax


def by_kinks(p, q, kinks):
    """Σ (p − s q)₊ of laws [laws, outcomes] at all s [s]."""
    return np.stack([np.maximum(p - s * q, 0).sum(axis=1) for s in kinks], axis=1)


def pairs_of_laws(gamma, rng):
    """P and Q of labels: of three classes, with M = Exp(1), and of histograms of two to six."""
    d = 2 * rng.normal(size=2000)
    v = rng.uniform(-6, 12, 2000)
    ahead, behind = (laplace_argmax._law(d + shift, v)[:3] for shift in (gamma / 2, -gamma / 2))
    yield np.stack(ahead, axis=1), np.stack(behind, axis=1)
    for classes in (2, 3, 6):
        spread = rng.choice([0.3, 1.5, 8.0], (50, 1)) / gamma
        votes = np.round(spread * rng.normal(size=(50, classes))).astype(int)
        votes = np.concatenate([votes, np.zeros((1, classes), int)]) + 10**6
        moved = votes + np.eye(classes, dtype=int)[0] - np.eye(classes, dtype=int)[1]
        yield tuple(np.exp(nzc.LNMax(gamma).log_law(n))[:, :-1] for n in (votes, moved))


@parametrize("gamma", [0.7, *(pytest.param(n, marks=pytest.mark.slow) for n in (0.01, 4.0))])
def test_the_laws_dominate_every_histogram(gamma):
    """For random V, convex in e^−ℓ: means of few kinks."""
    rng = np.random.default_rng(0)
    step = gamma / 8
    laws = laplace_argmax.laplace_bands(gamma, step)[0]
    kinks = np.exp(gamma * rng.uniform(-2.2, 2.2, 60))
    few = rng.exponential(size=(60, 200)) * (rng.random((60, 200)) < 0.05)
    curves = by_kinks(laws.weights, laws.weights * np.exp(-step * laws.offsets), kinks)
    curves = np.maximum(curves + laws.infinite[:, None], np.maximum(1 - kinks, 0))
    bound = (curves @ few).max(axis=0) + 1e-12
    for p, q in pairs_of_laws(gamma, rng):
        assert ((by_kinks(p, q, kinks) @ few).max(axis=0) <= bound).all()
        assert ((by_kinks(q, p, kinks) @ few).max(axis=0) <= bound).all()
