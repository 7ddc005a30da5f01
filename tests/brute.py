"""A second route to laws and divergences: mpmath, 40 digits, neighbour after neighbour.

It shares nothing with nzc.
"""

from functools import cache
from itertools import pairwise, permutations

import mpmath as mp
import numpy as np
from scipy.stats import norm

mp.mp.dps = 40

#: Density and distribution function of standard noise.
NOISES = {
    "GaussianNoise": (mp.npdf, mp.ncdf),
    "LaplaceNoise": (
        lambda x: mp.exp(-abs(x)) / 2,
        lambda x: mp.exp(x) / 2 if x < 0 else 1 - mp.exp(-x) / 2,
    ),
    "ExponentialNoise": (
        lambda x: mp.exp(-x) if x >= 0 else mp.mpf(0),
        lambda x: -mp.expm1(-max(x, 0)),
    ),
}


def moves(votes):
    """All histograms one vote away."""
    for a, b in permutations(range(len(votes)), 2):
        if votes[a] >= 1:
            moved = list(votes)
            moved[a] -= 1
            moved[b] += 1
            yield moved


def law(mechanism, votes, student_probs=None):
    """Probabilities of every label and of abstaining."""
    labels = _labels(mechanism, [int(n) for n in votes])
    if mechanism.screen is None:
        return [*labels, mp.mpf(0)]
    answer, abstain = screening(mechanism.screen, votes, student_probs)
    return [*(answer * p for p in labels), abstain]


def screening(screen, votes, student_probs=None):
    """Probabilities of answering and of abstaining."""
    kind = type(screen).__name__
    second, first = sorted(int(n) for n in votes)[-2:]
    statistic = mp.mpf(first)
    if kind == "StabilityScreen":
        statistic = max(mp.mpf(0), mp.mpf(first - second) / 2 - 1)
    elif kind == "InteractiveScreen" and student_probs is not None:
        expected = [int(sum(votes)) * mp.mpf(float(p)) for p in student_probs]
        statistic = max(int(n) - mean for n, mean in zip(votes, expected, strict=True))
    z = (statistic - screen.threshold) / screen.sigma1
    return mp.ncdf(z), mp.ncdf(-z)


def logs(law):
    """Logs as precise near probability 1, which is found from the others, as near 0."""
    found = [float(mp.log(p) if p else -np.inf) for p in law]
    most = int(np.argmax(found))
    rest = mp.fsum(p for outcome, p in enumerate(law) if outcome != most)
    if rest < 0.5:
        found[most] = float(mp.log1p(-rest))
    return np.array(found)


def _labels(mechanism, votes):
    noise = mechanism.noise
    kind = type(noise).__name__
    first = max(votes)
    best = votes.index(first)
    if kind == "NoNoise":
        return [mp.mpf(label == best) for label in range(len(votes))]
    c = mp.mpf(mechanism.boost.c)
    scale = _noise_scale(mechanism.boost, votes)
    unit = mp.mpf(noise.sigma) if kind == "GaussianNoise" else 1 / mp.mpf(noise.gamma)
    leads = [(n - first - c) / scale / unit for n in votes]
    leads[best] += c / scale / unit
    if kind == "GumbelNoise":
        weights = [mp.exp(lead) for lead in leads]
        law = [weight / sum(weights) for weight in weights]
    else:
        law = []
        for label, lead in enumerate(leads):
            law.append(_integral(kind, lead, tuple(sorted(leads[:label] + leads[label + 1 :]))))
    return [p if p > mp.exp(-1000) else mp.mpf(0) for p in law]


def _noise_scale(boost, votes):
    """Δ, by which a boost multiplies the noise."""
    second, first = sorted(votes)[-2:]
    largest_gap = {"constant": -1, "global": np.inf, "local": 2, "smooth": 3}[boost.sensitivity]
    scale = mp.mpf(1)
    if first - second <= largest_gap:
        scale += mp.mpf(boost.c)
    if boost.sensitivity == "smooth":
        scale *= mp.exp(-mp.mpf(boost.beta))
    return scale


@cache
def _integral(kind, lead, others):
    """Pr[lead + noise is the largest]."""
    if lead < -2000:
        return mp.mpf(0)
    density, cdf = NOISES[kind]
    others = [other for other in others if other > -2000]
    tail = 14 if kind == "GaussianNoise" else 80
    leads = [lead, *others]
    points = sorted({min(leads) - tail, *leads, max(leads) + tail})
    cuts = []
    for start, end in pairwise(points):
        number = int(mp.ceil((end - start) / 2))
        cuts += [start + (end - start) * k / number for k in range(number)]
    cuts.append(points[-1])

    def integrand(t):
        return density(t - lead) * mp.fprod(cdf(t - other) for other in others)

    # mpmath's error is absolute, so what is integrated is scaled to size 1. A product of
    # log-concave functions has one peak, so nothing is lost with the intervals at both ends of
    # which it vanishes.
    values = [integrand(t) for t in cuts]
    size = max(values)
    large = np.flatnonzero([max(pair) > size * mp.mpf(10) ** -60 for pair in pairwise(values)])
    inner = cuts[large[0] : large[-1] + 2]
    return size * mp.quad(lambda t: integrand(t) / size, inner, method="gauss-legendre")


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
    stable = type(mechanism.screen).__name__ == "StabilityScreen"
    laws = []
    for histogram in (list(votes), *moves(votes)):
        if stable:
            laws.append(screening(mechanism.screen, histogram))
        else:
            laws.append(law(mechanism, histogram, student_probs))
    here, *there = laws
    pairs = [(here, other) for other in there] + [(other, here) for other in there]
    return np.array([float(max(divergence(p, q, order) for p, q in pairs)) for order in orders])


def excess(p, q, epsilon):
    """The δ of laws at ε, in this direction; ε may depend on the outcome."""
    return float(np.maximum(p - np.exp(epsilon) * q, 0).sum())


def leak(here, neighbours, epsilon):
    """The largest δ at ε, over all neighbours and both directions."""
    largest = 0.0
    for there in neighbours:
        largest = max(largest, excess(here, there, epsilon), excess(there, here, epsilon))
    return largest


def joint_law(mechanism, votes, student_probs=None):
    """The law of all labels together."""
    law = np.ones(1)
    for row in np.exp(mechanism.log_law(np.asarray(votes), student_probs)):
        law = np.outer(law, row).ravel()
    return law


def gaussian_leak(mu, epsilon):
    """The δ at ε of Gaussian noise, whose mean moves by μ deviations.

    Balle and Wang 2018, Theorem 8.
    """
    second = norm.logcdf(-mu / 2 - epsilon / mu)
    return norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon + second)


def adaptive_delta(pairs, queries, eps, answers=np.inf):
    """The exact δ(ε) of the best adaptive choice among pairs of laws, by enumeration of outcomes.

    answers  how many outcomes other than the last (to abstain) end the run
    """
    most = max(len(p) for p, _ in pairs)
    p = np.array([np.pad(p, (0, most - len(p))) for p, _ in pairs])
    q = np.array([np.pad(q, (0, most - len(q))) for _, q in pairs])
    with np.errstate(divide="ignore", invalid="ignore"):
        loss = np.where(p > 0, np.log(p) - np.log(q), 0.0)

    def value(total, queries, answers):
        if queries == 0 or answers == 0:
            return np.maximum(-np.expm1(-total), 0.0)
        after = total[..., None, None] + loss
        labels = value(after[..., :-1], queries - 1, answers - 1)
        abstained = value(after[..., -1:], queries - 1, answers)
        return (p * np.concatenate([labels, abstained], axis=-1)).sum(-1).max(-1)

    return float(value(np.array(-eps), queries, answers))


#: Orders at which Rényi costs are compared. Below the floor one is the square of the error that a
#: law may have.
GRID = np.array([1.01, 1.5, 3.0, 10.0, 64.0, 500.0])
FLOOR = 1e-24


def moved(losses, value, loss):
    """V at the grid's losses, each moved by one loss or several, by linear interpolation."""
    places = losses + np.asarray(loss)[..., None]
    return np.interp(places, losses, value, left=value[0], right=1.0)


def attacker(bits, labels, delta, stated):
    """ε of an adversary that chooses on a grid of losses: value iteration, from below.

    bits    pairs of probabilities under P and under Q [choices] that there is a label
    labels  such pairs of each query; a label has two outcomes
    """
    losses = np.arange(-1.4 * stated, 0.8 * stated, stated / 500)
    value = np.maximum(-np.expm1(-losses), 0.0)

    def chosen(p, q, value, otherwise):
        rest = moved(losses, otherwise, np.log((1 - p) / (1 - q)))
        return (p[:, None] * moved(losses, value, np.log(p / q)) + (1 - p)[:, None] * rest).max(0)

    for pairs in labels:
        after = np.max([value, *(chosen(p, q, value, value) for p, q in pairs)], axis=0)
        value = np.max([after, *(chosen(p, q, after, value) for p, q in bits)], axis=0)
    return -losses[np.searchsorted(value, delta)]
