"""Membership inference: who was in the private data? Two attacks, and how well they do."""

from dataclasses import dataclass

import numpy as np

from nzc.accounting import audit
from nzc.mechanisms import NoisyArgmax
from nzc.types import Bools, Floats, Ints


@dataclass(frozen=True)
class Estimate:
    """A share, and its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.value:.1f} % ({100 * self.low:.1f} – {100 * self.high:.1f})"


def lira(scores: Floats, member: Bools) -> Floats:
    """Return log Pr[score | in] − log Pr[score | out], [worlds, records] (LiRA, online, with one query per record).

    Each world is attacked with all other worlds as its shadow models. Scores are Gaussian for each record, in and out;
    because shadow models are few, all records share one variance for in and one for out.

    scores, member  [worlds, records]: what a model says of a record, and whether the record was in its data
    """
    distances, known = [], np.ones_like(member)
    for side in (member, ~member):
        count, total, squares = (
            part.sum(axis=0) - part for part in (side.astype(int), side * scores, side * scores**2)
        )
        mean = total / np.maximum(count, 1)
        freedom = (count - 1).clip(0).sum(axis=1, keepdims=True)
        variance = (squares - count * mean**2).sum(axis=1, keepdims=True) / freedom
        distances.append((scores - mean) ** 2 / variance + np.log(variance))
        known &= count > 0
    return np.where(known, distances[1] - distances[0], 0.0) / 2


def measure(
    scores: Floats, member: Bools, fpr: float, rng: np.random.Generator, resamples: int = 400
) -> list[Estimate]:
    """Return AUC, rate of true positives at the rate `fpr` of false positives, and balanced accuracy at threshold 0.

    Equal scores are decided by a coin. Intervals: bootstrap over worlds and records at once, which is rather too wide
    than too narrow (Owen 2007); Clopper–Pearson where an attack always succeeds, or never.

    scores, member  [worlds, records]
    """
    order = np.argsort(-scores, axis=None)
    value, hit = scores.ravel()[order], member.ravel()[order]
    world, record = np.divmod(order, scores.shape[1])
    ends = np.append(np.flatnonzero(np.diff(value)), len(value) - 1)
    guess = (np.sign(value) + 1) / 2

    def evaluate(worlds: Ints, records: Ints) -> list[float]:
        """Return the three figures where each world and each record counts so many times."""
        weight = worlds[world] * records[record]
        positive, negative = weight * hit, weight * ~hit
        true, false = (np.append(0, np.cumsum(side)[ends] / side.sum()) for side in (positive, negative))
        right = (positive @ guess / positive.sum() + negative @ (1 - guess) / negative.sum()) / 2
        return [float(np.trapezoid(true, false)), float(np.interp(fpr, false, true)), float(right)]

    def resample(count: int) -> Ints:
        return rng.multinomial(count, np.full(count, 1 / count)) if count > 1 else np.ones(1, np.int64)

    found = evaluate(*(np.ones(count, np.int64) for count in scores.shape))
    drawn = [evaluate(*map(resample, scores.shape)) for _ in range(resamples)]
    intervals = np.quantile(drawn, [0.025, 0.975], axis=0)
    certain = 0.025 ** (1 / hit.sum())  # the lower end of the interval of a share of 1
    return [
        Estimate(value, min(low, certain) if value == 1 else low, max(high, 1 - certain) if value == 0 else high)
        for value, low, high in zip(found, *intervals, strict=True)
    ]


def attack_labels(
    mechanism: NoisyArgmax, votes: Ints, moved: Ints, record: Ints, records: int, games: int, rng: np.random.Generator
) -> tuple[Floats, Bools]:
    """Play `games` games with each record in and out, against an attacker who knows both vote histograms.

    Return the attacker's scores and the membership, [2 · games, records]. The score is the log-likelihood ratio of the
    released labels, so no attack on these labels does better.

    votes, moved  [queries, classes] with and without the record, at the queries where they differ
    record        [queries] which record the two differ by
    """
    ratio = np.subtract(*(np.maximum(mechanism.log_law(side), -700.0) for side in (votes, moved)))
    every = np.arange(len(record))
    scores = [
        np.bincount(record, ratio[every, mechanism.release(side, rng)], records)  # label −1 (abstaining) reads the last
        for side in (votes, moved)
        for _ in range(games)
    ]
    return np.stack(scores), np.repeat([True, False], games)[:, None] & np.ones(records, dtype=bool)


def worst_pair(mechanism: NoisyArgmax, teachers: int, classes: int) -> tuple[Ints, Ints]:
    """Return the neighbouring histograms, [classes] each, at which the mechanism's labels differ most."""
    largest = [] if mechanism.screen is None else [round(min(mechanism.screen.threshold, teachers))]
    return audit.worst_pair(mechanism.log_law, teachers, classes, largest)
