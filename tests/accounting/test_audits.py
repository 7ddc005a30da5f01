"""Every kind of number that may be published, against an audit: its 95 % lower bound is never above.

`python tests/accounting/test_audits.py` prints the table for 100,000 trials.
"""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest

import nzc
from nzc.accounting.audit import audit, lower_bound, worst_pair
from nzc.accounting.sanitised import draw, log_smooth_bound, plan
from nzc.mechanisms.screen import StabilityScreen
from nzc.mechanisms.sparse_vector import SparseScreen

TEACHERS, CLASSES = 50, 3
#: (mechanism, queries); noise is small enough for an audit to see something.
MECHANISMS = {
    "GNMax": (nzc.GNMax(2), 1),
    "GNMax, 20 queries": (nzc.GNMax(5), 20),
    "LNMax": (nzc.LNMax(0.5), 1),
    "LNMax, 10 queries": (nzc.LNMax(0.2), 10),
    "Gumbel": (nzc.Gumbel(1.0), 1),
    "Gumbel, 10 queries": (nzc.Gumbel(0.3), 10),
    "Confident": (nzc.Confident(threshold=30, sigma1=1.5, sigma=2), 1),
    "Confident, 10 queries": (nzc.Confident(threshold=30, sigma1=4, sigma=3), 10),
    "Stable": (nzc.Stable(threshold=6, sigma1=1.5), 1),
    "Stable, 10 queries": (nzc.Stable(threshold=18, sigma1=4), 10),
    "NZC global": (nzc.NZC(c=2, gamma=1.0, sensitivity="global"), 1),
    "NZC global, 10 queries": (nzc.NZC(c=2, gamma=0.3, sensitivity="global"), 10),
    "NZC constant": (nzc.NZC(c=1, gamma=0.2), 5),
    "NZC local": (nzc.NZC(c=1, gamma=0.2, sensitivity="local"), 5),
    "NZC smooth": (nzc.NZC(c=1, gamma=0.2, sensitivity="smooth", beta=0.1), 5),
    "NZCGaussian global": (nzc.NZCGaussian(c=2, sigma=2, sensitivity="global"), 5),
    "NZCGaussian constant": (nzc.NZCGaussian(c=1, sigma=4), 5),
}
DELTA = 1e-4


class Row(NamedTuple):
    name: str
    queries: int
    published: float
    audited: float


def _label(mechanism: nzc.NoisyArgmax, name: str, queries: int, trials: int) -> Row:
    published = mechanism.promise(queries, queries).data_independent(DELTA)
    at = 0 if mechanism.screen is None else round(mechanism.screen.threshold)
    pairs = [worst_pair(mechanism.log_law, TEACHERS, CLASSES, range(at - 3, at + 4) if at else [])]
    if isinstance(mechanism.screen, StabilityScreen):  # the worst pair tells much, but too rarely for an audit
        tops = [TEACHERS // 2 + at + more for more in range(-3, 4)]
        pairs += [(np.array([top, TEACHERS - top, 0]), np.array([top - 1, TEACHERS - top + 1, 0])) for top in tops]
    rng = np.random.default_rng(0)
    found = (audit(mechanism.release, mechanism.log_law, pair, queries, trials, DELTA, rng) for pair in pairs)
    return Row(name, queries, published, max(each.epsilon for each in found))


def _interactive(trials: int) -> Row:
    """The student is certain of class 0, and the teachers' disagreement with it is near the threshold."""
    mechanism, queries = nzc.Interactive(threshold=10, sigma1=2, sigma=2, confidence=0.9), 5
    probs = np.array([[1.0, 0.0, 0.0]])
    pairs = [(np.array([TEACHERS - n, n, 0]), np.array([TEACHERS - n - 1, n + 1, 0])) for n in (8, 9, 10, 24, 25)]

    def law(votes: np.ndarray) -> np.ndarray:
        return mechanism.log_law(votes, np.broadcast_to(probs, votes.shape))

    def release(votes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return mechanism.release(votes, rng, np.broadcast_to(probs, votes.shape))

    rng = np.random.default_rng(0)
    found = max(audit(release, law, pair, queries, trials, DELTA, rng).epsilon for pair in pairs)
    return Row("Interactive", queries, mechanism.promise(queries, queries).data_independent(DELTA), found)


def _sparse(trials: int) -> Row:
    """A run ends at its cutoff-th report. Neighbours: near the threshold, and a tie that a vote flips."""
    mechanism = nzc.NoisyArgmax(nzc.NoNoise(), screen=SparseScreen(threshold=8.0, sigma1=3.0, cutoff=5))
    queries, best = 40, 0.0
    for here, there in (([31, 19], [30, 20]), ([36, 14], [35, 15]), ([25, 25], [24, 26])):
        answer = [0, -1][np.argmax(there)]  # the score of a label 1, where only `there` has it

        def score(votes: list[int], runs: int, rng: np.random.Generator, answer: int = answer) -> np.ndarray:
            drawn = mechanism.draw(np.tile([votes], (runs * queries, 1)), rng).reshape(runs, queries)
            labels = np.where(np.cumsum(drawn == -1, axis=1) >= 5, -1, drawn)
            return ((labels == 0) + answer * (labels == 1)).sum(axis=1).astype(float)

        rng = np.random.default_rng(0)
        found = lower_bound(partial(score, here), partial(score, there), trials, DELTA, rng)
        best = max(best, found.epsilon)
    return Row("SparseStable", queries, mechanism.worst_case_epsilon(queries, DELTA), best)


def _sanitised(trials: int) -> Row:
    """Labels and the draw of the bound together, at the pair of a tie. The published ε is random.

    For events where at most e was published, Pr[event] ≤ e^e Pr′[event] + δ. So their audited ε is at most e. The row
    is the one of several e with the least room.
    """
    mechanism, queries, rows = nzc.GNMax(1), 2, []
    (bound,) = mechanism.pricing.bounds
    chosen, pair = plan([(queries, bound)], DELTA), np.array([[25, 25], [26, 24]])
    ceiling = queries * float(bound.worst_case(np.array([chosen.order]))[0])
    log_bounds = [log_smooth_bound([(bound, np.array([votes] * queries))], chosen.order, chosen.beta) for votes in pair]
    (p, q), spread = mechanism.log_law(pair)[:, :-1], chosen.beta * chosen.noise
    means = [each + chosen.beta * chosen.margin for each in log_bounds]

    def score(which: int, most: float, runs: int, rng: np.random.Generator) -> np.ndarray:
        """Return the privacy loss of labels and draw where at most `most` was published, else 0."""
        labels = mechanism.release(np.tile(pair[which], (runs * queries, 1)), rng).reshape(runs, queries)
        y = np.array([draw(log_bounds[which], chosen, rng) for _ in range(runs)])
        loss = (p - q)[labels].sum(axis=1) + ((y - means[1]) ** 2 - (y - means[0]) ** 2) / (2 * spread**2)
        stated = np.array([chosen.convert(min(np.exp(each), ceiling), DELTA) for each in y])
        return np.where(stated <= most, loss, 0.0)

    largest = chosen.convert(ceiling, DELTA)
    for most in (0.25 * largest, 0.5 * largest, 0.75 * largest, largest):
        rng = np.random.default_rng(0)
        found = lower_bound(partial(score, 0, most), partial(score, 1, most), trials, DELTA, rng)
        inside = found.threshold < 0 if found.swapped else found.threshold > 0
        if inside:
            rows.append(Row("sanitised, labels too", queries, most, found.epsilon))
    return min(rows, key=lambda row: row.published - row.audited)


def rows(trials: int) -> Iterator[Row]:
    """Yield the published and the audited ε of every mechanism."""
    for name, (mechanism, queries) in MECHANISMS.items():
        yield _label(mechanism, name, queries, trials)
    yield _interactive(trials)
    yield _sparse(trials)
    yield _sanitised(trials)


@pytest.mark.slow
def test_no_audit_is_above_what_is_published() -> None:
    found = list(rows(100_000))
    assert len(found) == len(MECHANISMS) + 3
    assert [row for row in found if row.audited > row.published] == []
    assert all(row.audited > 0 for row in found if row.queries == 1)


if __name__ == "__main__":
    print(f"{'mechanism':22} {'queries':>7} {'published':>10} {'audited':>8}")
    for row in rows(100_000):
        print(f"{row.name:22} {row.queries:7} {row.published:10.3f} {row.audited:8.3f}", flush=True)
