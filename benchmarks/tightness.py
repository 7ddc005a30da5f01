"""How tight is ε for any votes? For each mechanism, the stated ε over that of the best attack, as a
table.

    python benchmarks/tightness.py [20 100]

An adversary chooses histograms of two or three classes after every outcome, by dynamic programming
over the loss on a grid. With a limit on answers the histograms have two classes.
"""

import sys
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

import nzc
from nzc.mechanisms import NoisyArgmax
from nzc.types import Floats

DELTA, BASE = 1e-5, 100_000
#: Counts of the first two classes above that of the third, or of the first above the second, and
#: that of the largest above the threshold, in deviations.
GAPS, PASSES = (
    (-9.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 9.0),
    (-2.0, -1.5, -1.0, -0.4, 0.0, 0.4, 0.8, 1.2, 1.8, 9.0),
)
FARTHER = (-4.0, -3.0, -1.5, 1.5, 3.0, 4.0)  # of the first above the second, too
Attack = tuple[str, float, float]  # mechanism with its settings, stated ε, ε of the attack


def pairs(mechanism: NoisyArgmax, deviation: float, classes: int = 3) -> tuple[Floats, Floats]:
    """Return the laws of all outcomes at histograms and one moved vote away, in both directions
    [pairs, outcomes]; with two classes, the third is far below.
    """
    places: list[tuple[float, ...]] = [*product((*GAPS, *FARTHER), [0.0], [-100.0])]
    if classes == 3:
        places += product(GAPS, GAPS, [0.0])
    votes = np.round(deviation * np.array(places)).astype(int)
    votes = np.unique(votes - votes.max(axis=1, keepdims=True), axis=0) + BASE
    screen: Any = mechanism.screen
    if screen is not None:
        votes = np.concatenate([votes + round(at * screen.sigma1) for at in PASSES])
    if (
        mechanism.delta_cost is not None
    ):  # the label itself is paid from δ, and the screen looks at the gap
        ahead = [2 * round(screen.threshold + at * screen.sigma1) + 2 for at in PASSES]
        votes = np.array([[BASE + at, BASE, 0] for at in ahead])
    here, there = (np.exp(mechanism.log_law(at)) for at in (votes, votes + np.array([-1, 1, 0])))
    if mechanism.delta_cost is not None:
        here, there = (np.stack([1 - law[:, -1], law[:, -1]], axis=1) for law in (here, there))
    return np.maximum([*here, *there], 1e-300), np.maximum([*there, *here], 1e-300)


def epsilon(
    p: Floats,
    q: Floats,
    queries: int,
    delta: float,
    stated: float,
    answers: int | None = None,
) -> float:
    """Return ε at δ of the best adaptive choice among the pairs, with at most so many answers."""
    step = stated / 500
    grid = np.arange(-1.3 * stated, 0.7 * stated + 10 * step, step)
    at = np.clip((np.log(p / q) / step)[..., None] + np.arange(len(grid)), 0, len(grid) - 1.001)
    low, share = at.astype(int), at % 1
    spent = 0 if answers is None else 1
    values = [np.maximum(-np.expm1(-grid), 0)] * (1 + (answers or 0))  # by answers left

    def moved(value: Floats, outcomes: slice) -> Floats:
        cells, rest = low[:, outcomes], share[:, outcomes]
        after = value[cells] * (1 - rest) + value[cells + 1] * rest
        return np.asarray((p[:, outcomes, None] * after).sum(axis=1))

    for _ in range(queries):
        for left in range(len(values) - 1, spent - 1, -1):
            label = moved(values[left - spent], slice(0, -1))
            mean = label + moved(values[left], slice(-1, None))
            values[left] = np.maximum(values[left], np.minimum(mean.max(axis=0), 1))
    return float(-grid[np.searchsorted(values[-1], delta)])


def laplace_counts(gamma: float, queries: int, stated: float) -> float:
    """Return ε of noisy counts, two of which move by one a query; losses are rounded down."""
    edges = gamma * np.linspace(-1, 1, 201)
    below = np.where(
        edges < gamma, np.exp((edges / gamma - 1) / 2 * gamma) / 2, 1.0
    )  # P[loss ≤ edge]
    p = np.diff(below, prepend=0.0)
    mass = np.ones(1)
    for _ in range(2 * queries):
        mass = np.convolve(mass, np.append(p[1:], 0.0) + np.append(p[0], np.zeros(200)))
    loss, tried = (
        np.linspace(-1, 1, len(mass)) * 2 * queries * gamma,
        np.linspace(0.5 * stated, stated, 1001),
    )
    excess = np.array([(mass * np.maximum(-np.expm1(eps - loss), 0)).sum() for eps in tried])
    return float(tried[np.searchsorted(-excess, -DELTA)])


def attacks(counts: list[int]) -> Iterator[Attack]:
    sigmas = (1, 2.25, 5, 20, 40, 200)
    made: list[tuple[NoisyArgmax, float]] = [(nzc.GNMax(sigma), sigma) for sigma in sigmas]
    scaled = product((nzc.LNMax, nzc.Gumbel, nzc.PermuteAndFlip), (0.02, 0.1, 0.5))
    made += [(kind(gamma), 1 / gamma) for kind, gamma in (*scaled, (nzc.PermuteAndFlip, 2.0))]
    made += [
        (nzc.Confident(BASE, *both), both[1]) for both in ((150, 40), (40, 40), (30, 60), (300, 20))
    ]
    made += [(nzc.Interactive(BASE, 100, 40, 0.9), 40), (nzc.Stable(200, 30), 30)]
    for (mechanism, deviation), queries in product(made, counts):
        stated, left = (
            mechanism.worst_case_epsilon(queries, DELTA),
            DELTA - queries * (mechanism.delta_cost or 0),
        )
        yield (
            f"{mechanism}, {queries}",
            stated,
            epsilon(*pairs(mechanism, deviation), queries, left, stated),
        )
    for both, queries in product(((150, 40), (40, 40), (30, 60)), counts):
        limited = nzc.Confident(BASE, *both)
        answers = queries // 10
        stated = limited.worst_case_epsilon(queries, DELTA, answers=answers)
        laws = pairs(limited, both[1], classes=2)
        reached = epsilon(*laws, queries, DELTA, stated, answers)
        yield f"{limited}, {queries}, {answers} answers", stated, reached
    for queries, gamma in product(counts, (0.02, 0.1)):
        stated = nzc.Counts(gamma).worst_case_epsilon(queries, DELTA)
        yield f"Counts({gamma}), {queries}", stated, laplace_counts(gamma, queries, stated)


if __name__ == "__main__":
    for name, stated, reached in attacks([int(count) for count in sys.argv[1:]] or [20, 100]):
        print(f"{name:110} {stated:9.4f} {reached:9.4f} {stated / reached:6.3f}", flush=True)
