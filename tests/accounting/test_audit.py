"""The audit: its lower bound is one, finds what leaks, and is never above a number that may be published.

`python tests/accounting/test_audit.py` prints the audited and the published ε of every mechanism.
"""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import log_ndtr
from scipy.stats import binom, norm

import nzc
from nzc.accounting.audit import Audit, Contradiction, audit, check, lower_bound, worst_pair
from nzc.accounting.data_independent import gaussian
from nzc.accounting.sanitised import draw, log_smooth_bound, plan
from nzc.mechanisms.screen import StabilityScreen
from nzc.mechanisms.sparse_vector import SparseScreen
from nzc.validation import InputError

#: The law of the plurality.
certain = nzc.NoisyArgmax(nzc.NoNoise()).log_law


def screened(votes):
    """Law of one screen's answer at T = 30, σ₁ = 1: class 0 or abstain."""
    passes = (votes.max(axis=1) - 30) / 1.0
    return np.stack([log_ndtr(passes), log_ndtr(-passes)], axis=1)


@pytest.mark.parametrize("stay", [0.5, 0.7])
def test_lower_bound_is_above_the_truth_in_at_most_one_in_twenty(stay):
    """Randomised response, whose ε at δ is known; the binomial test is at a false-alarm rate of 1e-6."""
    runs, delta, rng = 1000, 1e-5, np.random.default_rng(0)
    truth = max(0.0, np.log((stay - delta) / (1 - stay)))

    def bit(probability):
        return lambda trials, rng: (rng.random(trials) < probability).astype(float)

    bounds = [lower_bound(bit(stay), bit(1 - stay), 600, delta, rng).epsilon for _ in range(runs)]
    assert sum(bound > truth for bound in bounds) <= binom.ppf(1 - 1e-6, runs, 0.05)
    assert np.median(bounds) >= 0.5 * truth


def test_gaussian_shift_is_found_from_either_side_and_stays_below_the_exact_epsilon():
    delta, rng, mu = 1e-5, np.random.default_rng(2), 1.5

    def shifted(by, sign):
        return lambda trials, rng: sign * rng.normal(by, size=trials)

    for p, q, sign in ((mu, 0.0, 1), (0.0, mu, -1)):
        found = lower_bound(shifted(p, sign), shifted(q, sign), 200_000, delta, rng)
        assert 2.0 < found.epsilon < gaussian(mu, delta)
    # an event on which only Q is likely: the direction is chosen too
    one_sided = lower_bound(lambda n, r: np.zeros(n), lambda n, r: (r.random(n) < 0.01) * -1.0, 100_000, delta, rng)
    assert one_sided.swapped and one_sided.epsilon > 3


def test_gnmax_stays_below_its_bound_and_finds_most_of_what_the_trials_can_show():
    """A thousand labels of a tie: their counts differ by a mean of √(2/π) of the noise's own shift."""
    sigma, queries, delta = 40.0, 1000, 1e-5
    mechanism = nzc.GNMax(sigma)
    pair = worst_pair(mechanism.log_law, 250, 2)
    assert sorted(pair[0]) == [125, 125] and abs(pair[0] - pair[1]).sum() == 2
    found = audit(mechanism.release, mechanism.log_law, pair, queries, 10_000, delta, np.random.default_rng(3))
    mu = np.sqrt(2 * queries) / sigma
    visible = np.log(norm.cdf(mu * np.sqrt(2 / np.pi) + norm.ppf(0.01)) / 0.01)  # an event seen 50 times in 5,000
    assert 0.7 * visible < found.epsilon < gaussian(mu, delta)
    check(found, data_independent=gaussian(mu, delta), theorem=None)


def test_a_sampler_with_less_noise_than_is_charged_fails_loudly():
    """Noise added into an integer array, as in a public implementation, and σ mistaken by a factor of 3."""
    quiet, log_law = nzc.GNMax(40 / 3).release, nzc.GNMax(40).log_law
    found = audit(quiet, log_law, worst_pair(log_law, 250, 2), 100, 20_000, 1e-5, np.random.default_rng(4))
    with pytest.raises(Contradiction, match="data_independent"):
        check(found, data_independent=gaussian(np.sqrt(200) / 40, 1e-5))


def test_nzc_leaks_as_much_as_the_trials_can_show():
    boosted, pair, found = nzc.NZC(c=1e100, gamma=0.05).release, worst_pair(certain, 250, 10), []
    for trials in (1000, 10_000, 100_000):
        found.append(audit(boosted, certain, pair, 1, trials, 1e-5, np.random.default_rng(5)).epsilon)
        assert found[-1] == pytest.approx(np.log(trials / 2 / -np.log(0.025)), abs=0.02)
    assert found[0] < found[1] < found[2]
    with pytest.raises(Contradiction, match="data_independent"):
        check(Audit(found[-1], 0.0, False), data_independent=0.5)
    check(Audit(found[-1], 0.0, False), data_independent=np.inf)


@pytest.mark.parametrize(("teachers", "classes"), [(1, 2), (2, 3), (3, 2), (7, 150), (250, 10), (5000, 3)])
def test_worst_pair_is_a_pair_of_neighbours_that_flips_a_plurality(teachers, classes):
    p, q = worst_pair(certain, teachers, classes)
    assert p.sum() == q.sum() == teachers and p.min() >= 0 and q.min() >= 0 and abs(p - q).sum() == 2
    assert p.argmax() != q.argmax()


def test_worst_pair_finds_the_threshold():
    """A screen at σ₁ = 1 gives most away a few votes off its threshold, where one answer is rare."""
    p, q = worst_pair(screened, 50, 2, largest=range(25, 36))
    assert 25 <= min(p.max(), q.max()) <= 35
    counts = np.arange(25, 51)
    law = screened(np.stack([counts, 50 - counts], axis=1))
    best = max(np.exp(2 * a - b).sum(axis=1).max() for a, b in ((law[1:], law[:-1]), (law[:-1], law[1:])))
    here, there = screened(np.stack([p, q]))
    assert max(np.exp(2 * a - b).sum() for a, b in ((here, there), (there, here))) == pytest.approx(best)


@pytest.mark.parametrize("sigma", [0.7, 20.0])
def test_worst_pair_is_as_bad_as_any_of_two_classes(sigma):
    """Second route: every pair of neighbours, by the normal distribution function."""

    def chi(here, there):
        p, q = (norm.cdf(np.array([n[0] - n[1], n[1] - n[0]]) / (2**0.5 * sigma)) for n in (here, there))
        return max((p**2 / q).sum(), (q**2 / p).sum())

    pair = worst_pair(nzc.GNMax(sigma).log_law, 20, 2)
    assert chi(*pair) >= max(chi([n, 20 - n], [n - 1, 21 - n]) for n in range(1, 21)) - 1e-9


@pytest.mark.parametrize(("field", "value"), [("trials", 1), ("delta", 0.0), ("confidence", 1.0)])
def test_wrong_settings_are_refused(field, value):
    draw = lambda trials, rng: rng.normal(size=trials)  # noqa: E731
    settings = {"trials": 100, "delta": 1e-5, "confidence": 0.95, field: value}
    with pytest.raises(InputError, match=field):
        lower_bound(draw, draw, rng=np.random.default_rng(0), **settings)


# Every kind of number that may be published, against its audit.

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
