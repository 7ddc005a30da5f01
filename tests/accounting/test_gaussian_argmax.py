"""The bound on labels by a Gaussian argmax: each step of its proof; attacks: test_adaptive."""

import numpy as np
from conftest import parametrize
from scipy.special import ndtr
from scipy.stats import norm

from nzc.accounting import gaussian_argmax
from nzc.accounting.gaussian import gaussian
from nzc.mechanisms.presets import GNMax

DELTA = 1e-5
ROOT = np.sqrt(2)


def epsilon(queries, sigma, delta):
    return GNMax(sigma).promise(queries, queries).data_independent(delta)


def three_outcomes(x, y):
    """The probabilities that a wins, that no one does, and that b wins.

    By integration over the sum of the counts.
    """
    d = np.asarray(x - y)[..., None] / ROOT
    v = np.asarray(x + y)[..., None] / ROOT
    nodes, weights = np.polynomial.legendre.leggauss(80)
    first = last = 0.0
    for start, end in ((v - 10, np.minimum(0, v + 10)), (np.maximum(0, v - 10), v + 10)):
        half = np.maximum(end - start, 0) / 2
        at = start + half * (nodes + 1)
        mass = norm.pdf(at - v) * weights * half
        out = np.maximum(0, -at)
        first = first + (mass * ndtr(d - out)).sum(-1)
        last = last + (mass * ndtr(-d - out)).sum(-1)
    return np.stack([first, ndtr(-x) * ndtr(-y), last], axis=-1)


@parametrize("mu", [0.02, 0.31, 2.0, 4.0])
def test_laws_dominate_every_pair(mu):
    """Means of convex functions are nowhere above the largest one of the laws.

    Also far away and outside the cells.
    """
    step = mu * np.sqrt(2 / np.pi) / 8
    rng = np.random.default_rng(0)
    x, y = np.concatenate(
        [rng.normal(0.5, 1.5, (2000, 2)), rng.uniform(-9, 14, (1000, 2)), [[30, 30], [0, -30]]]
    ).T
    kinks = mu * np.linspace(-4, 4, 33)  # of (1 − e^(kink − ℓ))₊
    largest = np.zeros(len(kinks))
    for laws in gaussian_argmax.gaussian_bands(mu, step):
        values = np.maximum(-np.expm1(kinks - step * laws.offsets[:, None]), 0)
        largest = np.maximum(largest, (laws.weights @ values + laws.infinite[:, None]).max(0))
    half = mu / 2 / ROOT
    p = three_outcomes(x + half, y - half)
    q = three_outcomes(x - half, y + half)
    found = np.maximum(p[..., None] - np.exp(kinks) * q[..., None], 0).sum(1)
    assert (found <= largest + 1e-12).all()


def test_limits():
    assert epsilon(0, 40, DELTA) == 0
    assert epsilon(10, 40, 0) == np.inf
    assert epsilon(1, 1e6, 0.1) == 0
    # μ is too large for cells; rounding is not small.
    for queries, sigma, delta in ((10, 0.3, DELTA), (100, 60, 1e-13)):
        assert epsilon(queries, sigma, delta) == gaussian(ROOT / sigma * np.sqrt(queries), delta)
