"""A second route to laws and divergences: mpmath, 40 digits, neighbour after neighbour. It shares
nothing with nzc.
"""

from functools import cache
from itertools import pairwise, permutations

import mpmath as mp
import numpy as np

mp.mp.dps = 40


def moves(votes):
    """All histograms one vote away."""
    for a, b in permutations(range(len(votes)), 2):
        if votes[a] >= 1:
            moved = list(votes)
            moved[a], moved[b] = moved[a] - 1, moved[b] + 1
            yield moved


def law(mechanism, votes, student_probs=None):
    """Probabilities of every label and of abstaining."""
    labels = _labels(mechanism, votes)
    if mechanism.screen is None:
        return [*labels, mp.mpf(0)]
    answer, abstain = screening(mechanism.screen, votes, student_probs)
    return [*(answer * p for p in labels), abstain]


def screening(screen, votes, student_probs=None):
    """Probabilities of answering and of abstaining."""
    kind, top = type(screen).__name__, sorted(votes)[::-1]
    if kind in ("StabilityScreen", "SparseScreen"):
        statistic = max(mp.mpf(0), mp.mpf(int(top[0] - top[1])) / 2 - 1)
    elif kind == "InteractiveScreen" and student_probs is not None:
        statistic = max(
            mp.mpf(int(n)) - int(sum(votes)) * mp.mpf(float(p))
            for n, p in zip(votes, student_probs, strict=True)
        )
    else:
        statistic = mp.mpf(int(top[0]))
    z = (statistic - screen.threshold) / screen.sigma1
    if kind == "SparseScreen":  # Gumbel noise
        return mp.exp(-mp.exp(-z)), -mp.expm1(-mp.exp(-z))
    return mp.ncdf(z), mp.ncdf(-z)


def logs(law):
    """Logs as precise near probability 1, which is found from the others, as near 0."""
    most = max(range(len(law)), key=lambda i: law[i])
    rest = mp.fsum(p for i, p in enumerate(law) if i != most)
    return np.array(
        [
            float(mp.log1p(-rest) if i == most and rest < 0.5 else mp.log(p) if p else -np.inf)
            for i, p in enumerate(law)
        ]
    )


def _labels(mechanism, votes):
    votes = [int(n) for n in votes]
    best, top = votes.index(max(votes)), sorted(votes)[::-1]
    boost, gap = mechanism.boost, top[0] - top[1]
    c = mp.mpf(boost.c)
    scale = {
        "constant": mp.mpf(1),
        "global": 1 + c,
        "local": 1 if gap > 2 else 1 + c,
        "smooth": mp.exp(-mp.mpf(boost.beta)) * (1 if gap > 3 else 1 + c),
    }[boost.sensitivity]
    behind = [(n + (c if i == best else 0) - votes[best] - c) / scale for i, n in enumerate(votes)]
    noise, kind = mechanism.noise, type(mechanism.noise).__name__
    if kind == "NoNoise":
        return [mp.mpf(i == best) for i in range(len(votes))]
    unit = mp.mpf(noise.sigma) if kind == "GaussianNoise" else 1 / mp.mpf(noise.gamma)
    leads = tuple(x / unit for x in behind)
    if kind == "GumbelNoise":
        weights = [mp.exp(x) for x in leads]
        return _possible(w / sum(weights) for w in weights)
    return _possible(_quadrature(kind, leads, i) for i in range(len(leads)))


def _possible(law):
    return [p if p > mp.exp(-1000) else mp.mpf(0) for p in law]


def _density(kind, x):
    if kind == "ExponentialNoise":
        return mp.exp(-x) if x >= 0 else mp.mpf(0)
    return mp.npdf(x) if kind == "GaussianNoise" else mp.exp(-abs(x)) / 2


def _cdf(kind, x):
    if kind == "GaussianNoise":
        return mp.ncdf(x)
    if kind == "ExponentialNoise":
        return -mp.expm1(-max(x, 0))
    return mp.exp(x) / 2 if x < 0 else 1 - mp.exp(-x) / 2


@cache
def _quadrature(kind, leads, i):
    # Only order among the others is irrelevant: the cache sees each integral once.
    others = sorted(leads[:i] + leads[i + 1 :])
    return _integral(kind, leads[i], tuple(others))


@cache
def _integral(kind, own, others):
    if own < -2000:
        return mp.mpf(0)
    others = [x for x in others if x > -2000]
    low, high, tail = (
        min([own, *others]),
        max([own, *others]),
        14 if kind == "GaussianNoise" else 80,
    )
    points = sorted({low - tail, own, *others, high + tail})
    cuts = [
        a + (b - a) * k / n
        for a, b in pairwise(points)
        for n in [int(mp.ceil((b - a) / 2))]
        for k in range(n)
    ]

    def integrand(t):
        return _density(kind, t - own) * mp.fprod(_cdf(kind, t - x) for x in others)

    # mpmath's error is absolute, so what is integrated is scaled to size 1. A product of
    # log-concave functions has one peak, so nothing is lost with the intervals at both ends of
    # which it vanishes.
    cuts.append(points[-1])
    values = [integrand(t) for t in cuts]
    size = max(values)
    kept = [at for at, pair in enumerate(pairwise(values)) if max(pair) > size * mp.mpf(10) ** -60]
    return size * mp.quad(
        lambda t: integrand(t) / size, cuts[kept[0] : kept[-1] + 2], method="gauss-legendre"
    )


def divergence(p, q, order):
    """D_α(P ‖ Q)."""
    total = mp.mpf(0)
    for x, y in zip(p, q, strict=True):
        if x and not y:
            return mp.inf
        if x:
            total += x ** mp.mpf(order) * y ** (1 - mp.mpf(order))
    return max(mp.mpf(0), mp.log(total) / (mp.mpf(order) - 1))


def cost(mechanism, votes, orders, student_probs=None):
    """The largest divergence over all neighbours and both directions, at each order."""
    stable = type(mechanism.screen).__name__ in ("StabilityScreen", "SparseScreen")
    one = (
        (lambda v: screening(mechanism.screen, v))
        if stable
        else (lambda v: law(mechanism, v, student_probs))
    )
    here, there = one(list(votes)), [one(moved) for moved in moves(votes)]
    return np.array(
        [
            float(max(max(divergence(here, q, o), divergence(q, here, o)) for q in there))
            for o in orders
        ],
        dtype=float,
    )


def hockey_stick(p, q, epsilon):
    """The smallest δ at which (ε, δ) holds between P and Q, in this direction."""
    return sum(max(mp.mpf(0), x - mp.exp(mp.mpf(epsilon)) * y) for x, y in zip(p, q, strict=True))


def excess(p, q, epsilon):
    """The same for laws of float64; ε may depend on the outcome."""
    return float(np.maximum(p - np.exp(epsilon) * q, 0).sum())


def adaptive_delta(pairs, queries, eps, answers=np.inf):
    """The exact δ(ε) of the best adaptive choice among pairs of laws: every sequence of outcomes is
    enumerated.

    answers  how many outcomes other than the last (to abstain) end the run
    """
    most = max(len(p) for p, _ in pairs)
    p, q = (
        np.array([np.pad(pair[at], (0, most - len(pair[at]))) for pair in pairs]) for at in (0, 1)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        loss = np.where(p > 0, np.log(p) - np.log(q), 0.0)

    def value(total, left, answers):
        if left == 0 or answers == 0:
            return np.maximum(-np.expm1(-total), 0.0)
        after = total[..., None, None] + loss
        if answers == np.inf:
            return (p * value(after, left - 1, answers)).sum(-1).max(-1)
        labels, none = (
            value(after[..., :-1], left - 1, answers - 1),
            value(after[..., -1:], left - 1, answers),
        )
        return (p * np.concatenate([labels, none], axis=-1)).sum(-1).max(-1)

    return float(value(np.array(-eps), queries, answers))


#: Orders at which Rényi costs are compared. Below the floor one is the square of the error that a
#: law may have.
GRID, FLOOR = np.array([1.01, 1.5, 3.0, 10.0, 64.0, 500.0]), 1e-24
DENSE = 1 + np.geomspace(1e-2, 1e5, 401)


def mironov(rdp, delta, orders=DENSE):
    """The smallest ρ(α) + log(1/δ)/(α − 1) of a Rényi cost, orders → [orders] (Mironov 2017,
    Proposition 3).
    """
    return float((rdp(orders) - np.log(delta) / (orders - 1)).min())
