"""Empirical audit: a lower bound on every ε that holds for any votes, from runs at a pair of
neighbours.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from scipy.special import betaincinv, logsumexp

from nzc.types import Floats, Ints
from nzc.validation import between_0_and_1, whole

#: Runs the mechanism so many times and returns a score per run; a larger score speaks for the first
#: of the pair.
Sampler = Callable[[int, np.random.Generator], Floats]
FLOOR = -700.0  # the log-probability of an impossible outcome, so that ratios stay finite
_TAIL = (1 - 0.95) / 2  # 1 − confidence of each of the two Clopper–Pearson ends: together 95 %


class Contradiction(RuntimeError):
    """The audit measured more leakage than an upper bound allows: the accountant or the sampler is
    wrong.
    """


def lower_bound(
    sample_p: Sampler, sample_q: Sampler, trials: int, delta: float, rng: np.random.Generator
) -> float:
    """Return ε ≥ log((Pr_P[event] − δ)/Pr_Q[event]) by Clopper–Pearson intervals; 0: nothing was
    found.

    Half of the trials choose direction and event, the other half are counted. So with 95 %
    confidence no smaller ε holds at δ, whatever the samplers do.
    """
    whole("trials", trials, 2)
    between_0_and_1("delta", delta)
    first, second = trials // 2, trials - trials // 2
    p, q = sample_p(first, rng), sample_q(first, rng)
    ordered, ranks = np.sort([p, q]), np.unique(np.geomspace(1, first, 400).astype(int))
    thresholds = np.unique([ordered[:, ranks - 1], ordered[:, -ranks]])  # dense in both tails
    forward = _log_ratio(p, q, thresholds, delta)
    backward = _log_ratio(-q, -p, -thresholds, delta)
    swapped = bool(backward.max() > forward.max())
    threshold = thresholds[[(backward if swapped else forward).argmax()]]
    p, q = sample_p(second, rng), sample_q(second, rng)
    counted = (-q, -p, -threshold) if swapped else (p, q, threshold)
    return max(0.0, float(_log_ratio(*counted, delta)[0]))


def _log_ratio(scores_p: Floats, scores_q: Floats, thresholds: Floats, delta: float) -> Floats:
    """Return log((p − δ)/q) at each threshold, −inf where p ≤ δ; p and q are ends of
    Clopper–Pearson's intervals.
    """
    trials = len(scores_p)
    hits_p, hits_q = (
        trials - np.searchsorted(np.sort(scores), thresholds) for scores in (scores_p, scores_q)
    )
    low = np.where(hits_p > 0, betaincinv(np.maximum(hits_p, 1), trials - hits_p + 1, _TAIL), 0.0)
    high = np.where(
        hits_q < trials, betaincinv(hits_q + 1, np.maximum(trials - hits_q, 1), 1 - _TAIL), 1.0
    )
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.maximum(low - delta, 0.0)) - np.log(high))


def worst_pair(
    log_law: Callable[[Ints], Floats], teachers: int, classes: int, largest: Sequence[int] = ()
) -> tuple[Ints, Ints]:
    """Find the neighbouring histograms, [classes] each, whose answers differ most; from public
    facts only.

    Class 0 has an even share of the votes or more, or one of `largest`; the others are spread over
    1, 2 or all other classes, and one of them gets a vote of class 0. Answers differ by the larger
    Rényi divergence of order 2: higher orders weigh events that are too rare for an audit.
    `log_law` maps votes to log-probabilities [queries, outcomes].
    """
    whole("teachers", teachers, 1)
    whole("classes", classes, 2)
    one, pairs = np.eye(classes, dtype=np.int64), []
    for rivals in sorted({1, min(2, classes - 1), classes - 1}):
        even = -(-teachers // (rivals + 1))
        tops = {even, even + 1, even + 2, *np.linspace(even, teachers, 16).astype(int), *largest}
        for top in sorted(top for top in tops if even <= top <= teachers):
            others, rest = divmod(teachers - top, rivals)
            row = np.zeros(classes, np.int64)
            row[0], row[1 : rivals + 1] = top, others + (np.arange(rivals) < rest)
            pairs += [(row, row - one[0] + one[to]) for to in sorted({1, rivals, classes - 1})]
    here, there = np.array(pairs).swapaxes(0, 1)
    p, q = (np.maximum(log_law(side), FLOOR) for side in (here, there))
    worst = int(np.maximum(logsumexp(2 * p - q, axis=1), logsumexp(2 * q - p, axis=1)).argmax())
    return here[worst], there[worst]


def audit(
    draw: Callable[[Ints, np.random.Generator], Ints],
    evidence: Callable[[Ints], Floats],
    pair: tuple[Ints, Ints],
    queries: int,
    trials: int,
    delta: float,
    rng: np.random.Generator,
) -> float:
    """Return the lower bound for a run of `queries` queries, all at the pair: one teacher may
    change every vote.

    `draw` releases [queries, ...] at votes [queries, classes]; `evidence` is the log-likelihood
    ratio of each query.
    """
    whole("queries", queries, 1)
    chunk = max(1, 2_000_000 // (queries * len(pair[0])))

    def run(votes: Ints, runs: int, rng: np.random.Generator) -> Floats:
        sizes = [min(chunk, runs - start) for start in range(0, runs, chunk)]
        draws = [draw(np.broadcast_to(votes, (size * queries, len(votes))), rng) for size in sizes]
        return np.concatenate([evidence(drawn).reshape(-1, queries).sum(axis=1) for drawn in draws])

    return lower_bound(partial(run, pair[0]), partial(run, pair[1]), trials, delta, rng)
