"""The bound on labels by a Gaussian argmax, against full enumeration, fixed attacks and each step
of its proof.
"""

import numpy as np
import pytest
from brute import adaptive_delta
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import binom, norm

from nzc.accounting import gaussian_argmax
from nzc.accounting.data_independent import gaussian
from nzc.mechanisms.presets import GNMax

DELTA = 1e-5
ROOT = np.sqrt(2)


def epsilon(queries, sigma, delta):
    return GNMax(sigma).promise(queries, queries).data_independent(delta)


def label_law(votes, sigma):
    """The probabilities of all labels, by integration over the winner's count."""
    votes = np.asarray(votes, float) / sigma
    s = np.linspace(votes.min() - 9, votes.max() + 9, 801)
    below = ndtr(s[:, None] - votes)
    p = [(norm.pdf(s - votes[j]) * np.delete(below, j, 1).prod(1)).sum() for j in range(len(votes))]
    return np.array(p) * (s[1] - s[0])


def attacks(sigma, classes, rng, count):
    """Pairs of neighbouring label laws [count, classes], in both directions."""
    found = []
    for _ in range(count):
        votes = rng.normal(0, 1.5 * sigma, classes)
        other = votes.copy()
        first, second = rng.permutation(classes)[:2]
        other[first], other[second] = other[first] - 1, other[second] + 1
        found.append((label_law(votes, sigma), label_law(other, sigma)))
    return [pair for p, q in found for pair in ((p, q), (q, p))]


def fixed_epsilon(queries, mu, threshold):
    """ε of the K = 2 histogram with one gap in every query: a binomial."""
    p, q = ndtr(mu / 2 - threshold), ndtr(-mu / 2 - threshold)
    wins = np.arange(queries + 1)
    first, second = binom.pmf(wins, queries, p), binom.pmf(wins, queries, q)

    def excess(eps):
        return np.maximum(first - np.exp(eps) * second, 0).sum() - DELTA

    return brentq(excess, 0, 50) if excess(0.0) > 0 else 0.0


@pytest.mark.parametrize("sigma", [5.0, 40.0])
@pytest.mark.parametrize(("classes", "queries"), [(2, 1), (3, 2), (3, 3), (10, 2)])
@pytest.mark.parametrize("delta", [1e-2, 1e-5])
def test_no_attack_by_enumeration_exceeds_the_bound(sigma, classes, queries, delta):
    pairs = attacks(sigma, classes, np.random.default_rng(classes), {1: 100, 2: 50, 3: 12}[queries])
    pairs += [
        (label_law([gap, 0], sigma), label_law([gap - 1, 1], sigma))
        for gap in (0.5, 1, 2 * sigma, -2 * sigma)
    ]
    assert adaptive_delta(pairs, queries, epsilon(queries, sigma, delta)) <= delta


@pytest.mark.parametrize(("queries", "near"), [(20, 1.08), (100, 1.04), (1000, 1.02)])
@pytest.mark.parametrize("sigma", [40.0, 240.0])
def test_between_a_fixed_attack_and_the_noisy_histograms(queries, near, sigma):
    mu = ROOT / sigma
    reached = max(fixed_epsilon(queries, mu, threshold) for threshold in np.linspace(0, 2, 21))
    assert reached <= epsilon(queries, sigma, DELTA) <= near * reached
    assert epsilon(queries, sigma, DELTA) <= gaussian(mu * np.sqrt(queries), DELTA) * 0.83


def three_outcomes(x, y):
    """The probabilities that a wins, that no one does, and that b wins, by integration over the sum
    of the counts.
    """
    d, v = np.asarray(x - y)[..., None] / ROOT, np.asarray(x + y)[..., None] / ROOT
    nodes, weights = np.polynomial.legendre.leggauss(80)
    first = last = 0.0
    for start, end in ((v - 10, np.minimum(0, v + 10)), (np.maximum(0, v - 10), v + 10)):
        half = np.maximum(end - start, 0) / 2
        at = start + half * (nodes + 1)
        mass, out = norm.pdf(at - v) * weights * half, np.maximum(0, -at)
        first, last = first + (mass * ndtr(d - out)).sum(-1), last + (mass * ndtr(-d - out)).sum(-1)
    return np.stack([first, ndtr(-x) * ndtr(-y), last], axis=-1)


@pytest.mark.parametrize("mu", [0.02, 0.3])
def test_laws_dominate_every_pair(mu):
    """Means of convex functions are nowhere above the largest one of the laws; also far away and
    outside the cells.
    """
    step = mu * np.sqrt(2 / np.pi) / 8
    bands = gaussian_argmax.bands(mu, step)
    rng = np.random.default_rng(0)
    pairs = np.concatenate(
        [rng.normal(0.5, 1.5, (2000, 2)), rng.uniform(-9, 14, (1000, 2)), [[30, 30], [0, -30]]]
    )
    kinks = mu * np.linspace(-4, 4, 33)  # of (1 − e^(kink − ℓ))₊
    largest = np.zeros(len(kinks))
    for first, _, p, infinite in bands:
        loss = step * np.arange(first, 1 - first)
        largest = np.maximum(
            largest,
            (p @ np.maximum(-np.expm1(kinks - loss[:, None]), 0) + infinite[:, None]).max(0),
        )
    x, y, half = pairs[:, 0], pairs[:, 1], mu / 2 / ROOT
    p, q = three_outcomes(x + half, y - half), three_outcomes(x - half, y + half)
    found = np.maximum(p[..., None] - np.exp(kinks) * q[..., None], 0).sum(1)
    assert (found <= largest + 1e-12).all()


def test_probabilities_and_bounds_on_derivatives():
    rng = np.random.default_rng(0)
    left, low = rng.uniform(-8, 8, 500), rng.uniform(-4.3, 8, 500)
    right, high = left + rng.uniform(0, 0.2, 500), low + rng.uniform(0, 0.4, 500)
    bounds = gaussian_argmax._derivatives(left, right, low, high)
    f, h = gaussian_argmax._first, 1e-3
    for share in rng.uniform(0, 1, (20, 2)):
        d, v = left + share[0] * (right - left), low + share[1] * (high - low)
        none = ndtr(-(v + d) / ROOT) * ndtr(-(v - d) / ROOT)
        np.testing.assert_allclose(f(d, v) + f(-d, v) + none, 1, atol=1e-13)

        def bend(d, v=v):
            return (f(d + h, v) - 2 * f(d, v) + f(d - h, v)) / h**2

        def bend_up(d, v=v):
            return (f(d, v + h) - 2 * f(d, v) + f(d, v - h)) / h**2

        found = (
            bend(d),
            bend_up(d),
            (bend(d + h) - bend(d - h)) / 2 / h,
            (bend_up(d + h) - bend_up(d - h)) / 2 / h,
        )
        for bound, each in zip(bounds, (*found, (f(d + h, v) - f(d - h, v)) / 2 / h), strict=True):
            assert (abs(each) <= bound * (1 + 1e-5) + 2e-6).all()


def test_limits():
    assert epsilon(0, 40, DELTA) == 0 and epsilon(10, 40, 0) == np.inf and epsilon(1, 1e6, 0.1) == 0
    for queries, sigma, delta in (
        (10, 1, DELTA),
        (100, 60, 1e-13),
    ):  # μ is too large for cells; rounding is not small
        assert epsilon(queries, sigma, delta) == gaussian(ROOT / sigma * np.sqrt(queries), delta)


def test_enumeration_nearly_reaches_the_bound_of_three_queries():
    """So the comparison above is not empty: thresholds of K = 2 alone reach more than 90% of the
    bound.
    """
    sigma, delta = 5.0, 0.05
    gaps = np.linspace(-3, 3, 41) * ROOT * sigma + 1
    pairs = [(label_law([gap, 0], sigma), label_law([gap - 1, 1], sigma)) for gap in gaps]
    bound = epsilon(3, sigma, delta)
    assert bound < gaussian(ROOT / sigma * np.sqrt(3), delta)
    assert adaptive_delta(pairs, 3, bound) <= delta < adaptive_delta(pairs, 3, 0.9 * bound)


def test_order_of_the_losses():
    """p/q falls from a over c to b."""
    d, v = np.meshgrid(np.linspace(-6, 6, 61), np.linspace(-4, 8, 61))
    mu, f = 0.1, gaussian_argmax._first
    none = [ndtr(-(v + at) / ROOT) * ndtr(-(v - at) / ROOT) for at in (d + mu / 2, d - mu / 2)]
    of_a, of_c = f(d + mu / 2, v) / f(d - mu / 2, v), none[0] / none[1]
    of_b = f(-d - mu / 2, v) / f(-d + mu / 2, v)
    assert (of_a >= of_c * (1 - 1e-9)).all() and (of_c >= of_b * (1 - 1e-9)).all()
