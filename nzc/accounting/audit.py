"""Empirical audit: a lower bound on ε from running a mechanism on two neighbouring histograms.

The pair is the worst one for the mechanism (`worst_pair`), found from public facts only. So the result reveals nothing
about the votes and may be published. It bounds from below every ε that holds for any votes. It does not bound a
data-dependent ε, which may rightly be smaller where teachers agree.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import betaincinv, logsumexp

from nzc.types import Floats, Ints
from nzc.validation import between_0_and_1, whole

#: Runs the mechanism so many times and returns a score per run; a larger score speaks for the first of the pair.
Sampler = Callable[[int, np.random.Generator], Floats]
#: The log-probability of an impossible outcome, so that ratios stay finite.
_FLOOR = -700.0


class Contradiction(RuntimeError):
    """The audit measured more leakage than an upper bound allows: the accountant or the sampler is wrong."""


@dataclass(frozen=True)
class Audit:
    """With the chosen confidence, the mechanism is not (ε′, δ)-private for any ε′ < epsilon."""

    epsilon: float
    threshold: float  # the event was score ≥ threshold, or score ≤ threshold where the pair was swapped
    swapped: bool


def lower_bound(
    sample_p: Sampler, sample_q: Sampler, trials: int, delta: float, rng: np.random.Generator, confidence: float = 0.95
) -> Audit:
    """Bound ε ≥ log((Pr_P[event] − δ)/Pr_Q[event]) by Clopper–Pearson intervals, each at (1 − confidence)/2.

    Half of the trials choose direction and event, the other half are counted. So the bound holds for any samplers.
    """
    whole(at_least=2, trials=trials)
    between_0_and_1(delta=delta, confidence=confidence)
    first, second = trials // 2, trials - trials // 2
    p, q = sample_p(first, rng), sample_q(first, rng)
    ordered, ranks = np.sort([p, q]), np.unique(np.geomspace(1, first, 400).astype(int))
    thresholds = np.unique([ordered[:, ranks - 1], ordered[:, -ranks]])  # dense in both tails
    forward = _log_ratio(p, q, thresholds, delta, confidence)
    backward = _log_ratio(-q, -p, -thresholds, delta, confidence)
    swapped = bool(backward.max() > forward.max())
    threshold = thresholds[[(backward if swapped else forward).argmax()]]
    p, q = sample_p(second, rng), sample_q(second, rng)
    counted = (-q, -p, -threshold) if swapped else (p, q, threshold)
    return Audit(max(0.0, float(_log_ratio(*counted, delta, confidence)[0])), float(threshold[0]), swapped)


def _log_ratio(scores_p: Floats, scores_q: Floats, thresholds: Floats, delta: float, confidence: float) -> Floats:
    """Return log((p − δ)/q) at each threshold; −inf where p ≤ δ.

    p and q are Clopper–Pearson's lower and upper end of the probability that a score reaches the threshold.
    """
    trials, tail = len(scores_p), (1 - confidence) / 2
    hits_p, hits_q = (trials - np.searchsorted(np.sort(scores), thresholds) for scores in (scores_p, scores_q))
    low = np.where(hits_p > 0, betaincinv(np.maximum(hits_p, 1), trials - hits_p + 1, tail), 0.0)
    high = np.where(hits_q < trials, betaincinv(hits_q + 1, np.maximum(trials - hits_q, 1), 1 - tail), 1.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.maximum(low - delta, 0.0)) - np.log(high))


def worst_pair(
    log_law: Callable[[Ints], Floats], teachers: int, classes: int, largest: Sequence[int] = ()
) -> tuple[Ints, Ints]:
    """Find the neighbouring histograms, [classes] each, whose answers differ most; from public facts only.

    log_law   log-probabilities [queries, outcomes] of every outcome at votes [queries, classes]
    largest   further values of the largest count to try, such as a screen's threshold

    The difference is the Rényi divergence of order 2, log Σ p²/q, the larger of both directions: higher orders weigh
    events that are too rare for an audit. Candidates have some votes on class 0, from an even split to all of them, and
    the others spread over 1, 2 or all other classes. Class 0 loses one vote to the first or the last of those classes,
    or to the last class.
    """
    whole(at_least=1, teachers=teachers)
    whole(at_least=2, classes=classes)
    one, pairs = np.eye(classes, dtype=np.int64), []
    for rivals in sorted({1, min(2, classes - 1), classes - 1}):
        even = -(-teachers // (rivals + 1))
        tops = {even, even + 1, even + 2, *np.linspace(even, teachers, 16).astype(int), *largest}
        for top in sorted(top for top in tops if even <= top <= teachers):
            each, rest = divmod(teachers - top, rivals)
            row = np.zeros(classes, np.int64)
            row[0], row[1 : rivals + 1] = top, each + (np.arange(rivals) < rest)
            pairs += [(row, row - one[0] + one[to]) for to in sorted({1, rivals, classes - 1})]
    here, there = np.array(pairs).swapaxes(0, 1)
    p, q = (np.maximum(log_law(side), _FLOOR) for side in (here, there))
    worst = int(np.maximum(logsumexp(2 * p - q, axis=1), logsumexp(2 * q - p, axis=1)).argmax())
    return here[worst], there[worst]


def audit(
    label: Callable[[Ints, np.random.Generator], Ints],
    log_law: Callable[[Ints], Floats],
    pair: tuple[Ints, Ints],
    queries: int,
    trials: int,
    delta: float,
    rng: np.random.Generator,
) -> Audit:
    """Return the lower bound for a run of `queries` queries, all at the pair: one teacher may change every vote.

    label    released labels [queries] at votes [queries, classes], −1 where it abstains
    log_law  [queries, classes + 1], abstaining last. It only scores the labels by their log-likelihood ratio: a wrong
             law makes the bound weaker, not false.
    """
    whole(at_least=1, queries=queries)
    p, q = (np.maximum(log_law(side[None])[0], _FLOOR) for side in pair)
    ratio = p - q  # label −1 (abstaining) reads the last entry
    chunk = max(1, 2_000_000 // (queries * len(pair[0])))

    def run(votes: Ints, runs: int, rng: np.random.Generator) -> Floats:
        sizes = [min(chunk, runs - start) for start in range(0, runs, chunk)]
        draws = [label(np.broadcast_to(votes, (size * queries, len(votes))), rng) for size in sizes]
        return np.concatenate([ratio[labels].reshape(-1, queries).sum(axis=1) for labels in draws])

    return lower_bound(partial(run, pair[0]), partial(run, pair[1]), trials, delta, rng)


def check(audited: Audit, **upper: float | None) -> None:
    """Raise Contradiction where the lower bound is above an upper bound (None: not reported).

    The upper bounds must hold for any votes, and for as many answers as the audit ran.
    """
    for name, value in upper.items():
        if value is not None and audited.epsilon > value:
            raise Contradiction(f"audit: ε ≥ {audited.epsilon:.3f} at 95 % confidence, but epsilon.{name}={value:.3f}")
