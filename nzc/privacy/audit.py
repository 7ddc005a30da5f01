"""Does the sampler really keep what the accountant says? A lower bound on ε from running it on two neighbours.

The pair is the worst there is for the mechanism (`worst_pair`), found from public facts only: teachers, classes, the
mechanism's own law. So the result tells nothing about the votes and may be published. It bounds from below every ε
that holds for any votes; it says nothing about a data-dependent ε, which at agreed votes is rightly smaller.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import logsumexp
from scipy.stats import beta

from nzc._types import Floats, Ints
from nzc.errors import share, whole

#: Draws a number for each of so many runs of the mechanism: the larger, the more it looks like the first of the pair.
Sampler = Callable[[int, np.random.Generator], Floats]


class Contradiction(RuntimeError):
    """An audit found more leakage than a reported upper bound allows: the accountant or the sampler is wrong."""


@dataclass(frozen=True)
class Audit:
    """epsilon: with the chosen confidence, the mechanism is not (ε′, δ)-private for any ε′ below it.

    It was found on the event `score ≥ threshold`, or `score ≤ threshold` where the pair was swapped.
    """

    epsilon: float
    threshold: float
    swapped: bool


def lower_bound(
    sample_p: Sampler,
    sample_q: Sampler,
    trials: int,
    delta: float,
    rng: np.random.Generator,
    confidence: float = 0.95,
) -> Audit:
    """ε ≥ log((Pr_P[event] − δ)/Pr_Q[event]) by Clopper–Pearson, each of both sides at (1 − confidence)/2; at least 0.

    Half of the trials choose direction and event, the other half are counted: the bound is honest for any samplers.
    """
    whole(at_least=2, trials=trials)
    share(delta=delta, confidence=confidence)
    first, second = trials // 2, trials - trials // 2
    choice_p, choice_q = sample_p(first, rng), sample_q(first, rng)
    ordered, ranks = np.sort([choice_p, choice_q]), np.unique(np.geomspace(1, first, 400).astype(int))
    thresholds = np.unique([ordered[:, ranks - 1], ordered[:, -ranks]])  # dense in both tails
    forward = _log_ratio(_at_least(choice_p, thresholds), _at_least(choice_q, thresholds), first, delta, confidence)
    backward = _log_ratio(_at_most(choice_q, thresholds), _at_most(choice_p, thresholds), first, delta, confidence)
    swapped = bool(backward.max() > forward.max())
    threshold = thresholds[[(backward if swapped else forward).argmax()]]
    p, q = sample_p(second, rng), sample_q(second, rng)
    likely, rare = (
        (_at_most(q, threshold), _at_most(p, threshold))
        if swapped
        else (_at_least(p, threshold), _at_least(q, threshold))
    )
    epsilon = float(_log_ratio(likely, rare, second, delta, confidence)[0])
    return Audit(max(0.0, epsilon), float(threshold[0]), swapped)


def _at_least(scores: Floats, thresholds: Floats) -> Ints:
    return len(scores) - np.searchsorted(np.sort(scores), thresholds, side="left")


def _at_most(scores: Floats, thresholds: Floats) -> Ints:
    return np.searchsorted(np.sort(scores), thresholds, side="right")


def _log_ratio(hits_p: Ints, hits_q: Ints, trials: int, delta: float, confidence: float) -> Floats:
    """log((p − δ)/q) of Clopper–Pearson's lower end p and upper end q, elementwise; −∞ where p ≤ δ."""
    tail = (1 - confidence) / 2
    low = np.where(hits_p > 0, beta.ppf(tail, np.maximum(hits_p, 1), trials - hits_p + 1), 0.0)
    high = np.where(hits_q < trials, beta.ppf(1 - tail, hits_q + 1, np.maximum(trials - hits_q, 1)), 1.0)
    with np.errstate(divide="ignore"):
        ratio: Floats = np.log(np.maximum(low - delta, 0.0)) - np.log(high)
    return ratio


def worst_pair(
    log_law: Callable[[Ints], Floats], teachers: int, classes: int, largest: Sequence[int] = ()
) -> tuple[Ints, Ints]:
    """The neighbouring histograms, [classes] each, whose answers differ most; from public facts only.

    log_law   log-probability [queries, outcomes] of every outcome of votes [queries, classes]
    largest   largest counts to try besides: a screen's threshold

    They differ by their Rényi divergence of order 2, log Σ p²/q, the larger of both directions: it says how well
    counting an event tells them apart, while higher orders weigh events too rare for an audit to see.
    Candidates: some votes on class 0, from an even split to all, the others spread over 1, 2 or all other classes;
    and class 0 loses one vote to the first, to the last of those, or to the last class.
    """
    whole(at_least=1, teachers=teachers)
    whole(at_least=2, classes=classes)
    rows, moved = [], []
    for rivals in sorted({1, min(2, classes - 1), classes - 1}):
        even = -(-teachers // (rivals + 1))
        tops = {even, even + 1, even + 2, *np.linspace(even, teachers, 16).astype(int), *largest}
        for top in sorted(top for top in tops if even <= top <= teachers):
            each, rest = divmod(teachers - top, rivals)
            row = np.zeros(classes, np.int64)
            row[0], row[1 : rivals + 1] = top, each + (np.arange(rivals) < rest)
            for to in sorted({1, rivals, classes - 1}):
                rows.append(row)
                moved.append(row.copy())
                moved[-1][[0, to]] += [-1, 1]
    pairs = np.stack([rows, moved])
    p, q = (_floored(log_law(side)) for side in pairs)
    worst = int(np.maximum(logsumexp(2 * p - q, axis=1), logsumexp(2 * q - p, axis=1)).argmax())
    return pairs[0, worst], pairs[1, worst]


def _floored(log_law: Floats) -> Floats:
    """Impossible outcomes at e^−700, so that ratios stay numbers."""
    return np.maximum(log_law, -700.0)


def audit(
    label: Callable[[Ints, np.random.Generator], Ints],
    log_law: Callable[[Ints], Floats],
    pair: tuple[Ints, Ints],
    queries: int,
    trials: int,
    delta: float,
    rng: np.random.Generator,
) -> Audit:
    """The lower bound, 95 % sure, for a run of `queries` answers, every one at the votes of the pair: one teacher may
    move its vote on all of them.

    label       released labels [queries] of votes [queries, classes], −1 where it abstains
    log_law     [queries, classes + 1], abstaining last. It only scores what `label` gives, by the log-likelihood ratio:
                where it is wrong, the bound is weaker, not false.
    """
    whole(at_least=1, queries=queries)
    p, q = (_floored(log_law(side[None])[0]) for side in pair)
    ratio = p - q  # label −1, abstaining, reads the last entry
    chunk = max(1, 2_000_000 // (queries * len(pair[0])))

    def run(votes: Ints, runs: int, rng: np.random.Generator) -> Floats:
        sizes = [min(chunk, runs - start) for start in range(0, runs, chunk)]
        draws = [label(np.broadcast_to(votes, (size * queries, len(votes))), rng) for size in sizes]
        return np.concatenate([ratio[labels].reshape(-1, queries).sum(axis=1) for labels in draws])

    return lower_bound(partial(run, pair[0]), partial(run, pair[1]), trials, delta, rng)


def check(audited: Audit, **upper: float | None) -> None:
    """Raise where the lower bound is above a reported upper bound (None: not reported).

    The upper bound must hold for any votes and for as many answers as the audit ran: an audit of 1,000 queries says
    nothing against the ε of a run that answered 400 of them.
    """
    for name, value in upper.items():
        if value is not None and audited.epsilon > value:
            raise Contradiction(f"audit: ε ≥ {audited.epsilon:.3f} at 95 % confidence, but epsilon.{name}={value:.3f}")
