"""Empirical audit: a lower bound on every ε that holds for any votes, from runs at neighbours."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.random import Generator
from scipy.special import betaincinv, logsumexp

from nzc.types import Floats, Ints
from nzc.validation import between_0_and_1, whole

#: Runs the mechanism so many times and returns a score per run; a larger score speaks for the first
#: of the pair.
Sampler = Callable[[int, Generator], Floats]
#: Two neighbouring histograms, [classes] each.
Pair = tuple[Ints, Ints]
#: Maps votes or labels to log-probabilities of them, or log-likelihood ratios.
Evidence = Callable[[Ints], Floats]
FLOOR = -700.0  # the log-probability of an impossible outcome, so that ratios stay finite
_TAIL = (1 - 0.95) / 2  # 1 − confidence of each of the two Clopper–Pearson ends: together 95 %


class Contradiction(RuntimeError):
    """The audit measured more leakage than an upper bound allows.

    The accountant or the sampler is wrong.
    """


def lower_bound(
    sample_p: Sampler, sample_q: Sampler, trials: int, delta: float, rng: Generator
) -> float:
    """Return ε ≥ log((Pr_P[event] − δ)/Pr_Q[event]) by Clopper–Pearson intervals.

    Half of the trials choose direction and event, the other half are counted. So with 95 %
    confidence no smaller ε holds at δ, whatever the samplers do. 0: nothing was found.
    """
    trials = whole("trials", trials, 2)
    delta = between_0_and_1("delta", delta)
    first = trials // 2
    p = sample_p(first, rng)
    q = sample_q(first, rng)
    ordered = np.sort([p, q])
    ranks = np.unique(np.geomspace(1, first, 400).astype(int))
    thresholds = np.unique([ordered[:, ranks - 1], ordered[:, -ranks]])  # dense in both tails
    forward = _log_ratio(p, q, thresholds, delta)
    backward = _log_ratio(-q, -p, -thresholds, delta)
    p = sample_p(trials - first, rng)
    q = sample_q(trials - first, rng)
    if backward.max() > forward.max():
        counted = _log_ratio(-q, -p, -thresholds[[backward.argmax()]], delta)
    else:
        counted = _log_ratio(p, q, thresholds[[forward.argmax()]], delta)
    return max(0.0, float(counted[0]))


def _log_ratio(scores_p: Floats, scores_q: Floats, thresholds: Floats, delta: float) -> Floats:
    """Return log((p − δ)/q) at each threshold, −inf where p ≤ δ.

    p and q are ends of Clopper–Pearson's intervals.
    """
    trials = len(scores_p)
    hits_p = trials - np.searchsorted(np.sort(scores_p), thresholds)
    hits_q = trials - np.searchsorted(np.sort(scores_q), thresholds)
    low = np.where(hits_p > 0, betaincinv(np.maximum(hits_p, 1), trials - hits_p + 1, _TAIL), 0.0)
    high = np.where(
        hits_q < trials, betaincinv(hits_q + 1, np.maximum(trials - hits_q, 1), 1 - _TAIL), 1.0
    )
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(low - delta, 0.0)) - np.log(high)


def worst_pair(log_law: Evidence, teachers: int, classes: int, largest: Sequence[int] = ()) -> Pair:
    """Find the neighbouring histograms, [classes] each, whose answers differ most.

    Only public facts decide. Class 0 has an even share of the votes or more, or one of `largest`;
    the others are spread over 1, 2 or all other classes, and one of them gets a vote of class 0.
    Answers differ by the larger Rényi divergence of order 2: higher orders weigh events that are
    too rare for an audit. `log_law` maps votes to log-probabilities [queries, outcomes].
    """
    teachers = whole("teachers", teachers, 1)
    classes = whole("classes", classes, 2)
    one_vote = np.eye(classes, dtype=np.int64)
    here = []
    there = []
    for rivals in sorted({1, min(2, classes - 1), classes - 1}):
        even = -(-teachers // (rivals + 1))
        tops = {even, even + 1, even + 2, *np.linspace(even, teachers, 16).astype(int), *largest}
        for top in sorted(top for top in tops if even <= top <= teachers):
            row = np.zeros(classes, np.int64)
            row[0] = top
            row[1 : rivals + 1] = (teachers - top + np.arange(rivals)[::-1]) // rivals
            for to in sorted({1, rivals, classes - 1}):
                here.append(row)
                there.append(row - one_vote[0] + one_vote[to])
    p = np.maximum(log_law(np.stack(here)), FLOOR)
    q = np.maximum(log_law(np.stack(there)), FLOOR)
    divergences = np.maximum(logsumexp(2 * p - q, axis=1), logsumexp(2 * q - p, axis=1))
    worst = int(divergences.argmax())
    return here[worst], there[worst]


def audit_pair(
    draw: Callable[[Ints, Generator], Ints],
    evidence: Evidence,
    pair: Pair,
    queries: int,
    trials: int,
    delta: float,
    rng: Generator,
) -> float:
    """Return the lower bound for a run of `queries` queries, all at the pair.

    One teacher may change every vote. `draw` releases [queries, ...] at votes [queries, classes];
    `evidence` is the log-likelihood ratio of each query.
    """
    queries = whole("queries", queries, 1)
    chunk = max(1, 2_000_000 // (queries * len(pair[0])))

    def run(votes: Ints, runs: int, rng: Generator) -> Floats:
        scores = []
        for start in range(0, runs, chunk):
            size = min(chunk, runs - start)
            drawn = draw(np.broadcast_to(votes, (size * queries, len(votes))), rng)
            scores.append(evidence(drawn).reshape(-1, queries).sum(axis=1))
        return np.concatenate(scores)

    return lower_bound(partial(run, pair[0]), partial(run, pair[1]), trials, delta, rng)
