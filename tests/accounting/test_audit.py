"""The audit: its lower bound is one, finds what leaks, and is never above a number that may be published."""

from functools import partial

import numpy as np
import pytest
from scipy.stats import binom, norm

import nzc
from nzc.accounting.audit import Contradiction, audit, lower_bound, worst_pair
from nzc.accounting.data_independent import gaussian
from nzc.mechanisms.screen import StabilityScreen
from nzc.mechanisms.sparse_vector import SparseScreen

#: The law of the plurality.
certain = nzc.NoisyArgmax(nzc.NoNoise()).log_law


@pytest.mark.parametrize("stay", [0.5, 0.7])
def test_lower_bound_is_above_the_truth_in_at_most_one_in_twenty(stay):
    """Randomised response, whose ε at δ is known; the binomial test is at a false-alarm rate of 1e-6."""
    runs, delta, rng = 1000, 1e-5, np.random.default_rng(0)
    truth = max(0.0, np.log((stay - delta) / (1 - stay)))

    def bit(probability):
        return lambda trials, rng: (rng.random(trials) < probability).astype(float)

    bounds = [lower_bound(bit(stay), bit(1 - stay), 600, delta, rng) for _ in range(runs)]
    assert sum(bound > truth for bound in bounds) <= binom.ppf(1 - 1e-6, runs, 0.05)
    assert np.median(bounds) >= 0.5 * truth


def test_gaussian_shift_is_found_from_either_side_and_stays_below_the_exact_epsilon():
    delta, rng, mu = 1e-5, np.random.default_rng(2), 1.5

    def shifted(by, sign):
        return lambda trials, rng: sign * rng.normal(by, size=trials)

    for p, q, sign in ((mu, 0.0, 1), (0.0, mu, -1)):
        found = lower_bound(shifted(p, sign), shifted(q, sign), 200_000, delta, rng)
        assert 2.0 < found < gaussian(mu, delta)
    # an event on which only Q is likely: the direction is chosen too
    one_sided = lower_bound(lambda n, r: np.zeros(n), lambda n, r: (r.random(n) < 0.01) * -1.0, 100_000, delta, rng)
    assert one_sided > 3


def _evidence(log_law, pair):
    """The log-likelihood ratio of labels by their law."""
    p, q = (np.maximum(log_law(votes[None])[0], -700) for votes in pair)
    return lambda labels: (p - q)[labels]


def test_gnmax_stays_below_its_bound_and_finds_most_of_what_the_trials_can_show():
    """A thousand labels of a tie: their counts differ by a mean of √(2/π) of the noise's own shift."""
    sigma, queries, delta = 40.0, 1000, 1e-5
    mechanism = nzc.GNMax(sigma)
    pair = worst_pair(mechanism.log_law, 250, 2)
    assert sorted(pair[0]) == [125, 125] and abs(pair[0] - pair[1]).sum() == 2
    found = audit(mechanism.release, mechanism.evidence(pair), pair, queries, 10_000, delta, np.random.default_rng(3))
    mu = np.sqrt(2 * queries) / sigma
    visible = np.log(norm.cdf(mu * np.sqrt(2 / np.pi) + norm.ppf(0.01)) / 0.01)  # an event seen 50 times in 5,000
    assert 0.7 * visible < found < gaussian(mu, delta)


def test_a_sampler_with_less_noise_than_is_charged_fails_loudly(monkeypatch):
    """σ mistaken by a factor of 3."""
    monkeypatch.setattr(nzc.GaussianNoise, "sample", lambda self, shape, rng: rng.normal(scale=40 / 3, size=shape))
    with pytest.raises(Contradiction, match=r"ε ≥ .* at 95 % confidence, but epsilon\.data_independent="):
        nzc.audit(nzc.GNMax(40), 250, 2, 100, rng=np.random.default_rng(4))


def test_nzc_leaks_as_much_as_the_trials_can_show():
    boosted, pair, found = nzc.NZC(c=1e100, gamma=0.05).release, worst_pair(certain, 250, 10), []
    for trials in (1000, 10_000, 100_000):
        found.append(audit(boosted, _evidence(certain, pair), pair, 1, trials, 1e-5, np.random.default_rng(5)))
        assert found[-1] == pytest.approx(np.log(trials / 2 / -np.log(0.025)), abs=0.02)
    assert found[0] < found[1] < found[2]


@pytest.mark.parametrize(("teachers", "classes"), [(1, 2), (2, 3), (3, 2), (7, 150), (250, 10), (5000, 3)])
def test_worst_pair_is_a_pair_of_neighbours_that_flips_a_plurality(teachers, classes):
    p, q = worst_pair(certain, teachers, classes)
    assert p.sum() == q.sum() == teachers and p.min() >= 0 and q.min() >= 0 and abs(p - q).sum() == 2
    assert p.argmax() != q.argmax()


@pytest.mark.parametrize("sigma", [0.7, 20.0])
def test_worst_pair_is_as_bad_as_any_of_two_classes(sigma):
    """Second route: every pair of neighbours, by the normal distribution function."""

    def chi(here, there):
        p, q = (norm.cdf(np.array([n[0] - n[1], n[1] - n[0]]) / (2**0.5 * sigma)) for n in (here, there))
        return max((p**2 / q).sum(), (q**2 / p).sum())

    pair = worst_pair(nzc.GNMax(sigma).log_law, 20, 2)
    assert chi(*pair) >= max(chi([n, 20 - n], [n - 1, 21 - n]) for n in range(1, 21)) - 1e-9


# Every kind of number that may be published, against its audit.

TEACHERS, CLASSES = 50, 3
#: Mechanisms and queries; noise is small enough for an audit to see something.
MECHANISMS = [
    (nzc.GNMax(2), 1), (nzc.GNMax(5), 20), (nzc.LNMax(0.5), 1), (nzc.LNMax(0.2), 10), (nzc.Gumbel(1.0), 1),
    (nzc.Gumbel(0.3), 10), (nzc.PermuteAndFlip(1.0), 1), (nzc.PermuteAndFlip(0.3), 10),
    (nzc.Confident(threshold=30, sigma1=1.5, sigma=2), 1),
    (nzc.Confident(threshold=30, sigma1=4, sigma=3), 10), (nzc.Stable(threshold=6, sigma1=1.5), 1),
    (nzc.Stable(threshold=18, sigma1=4), 10), (nzc.NZC(c=2, gamma=1.0, sensitivity="global"), 1),
    (nzc.NZC(c=2, gamma=0.3, sensitivity="global"), 10), (nzc.NZC(c=1, gamma=0.2), 5),
    (nzc.NZC(c=1, gamma=0.2, sensitivity="local"), 5), (nzc.NZC(c=1, gamma=0.2, sensitivity="smooth", beta=0.1), 5),
    (nzc.NZCGaussian(c=2, sigma=2, sensitivity="global"), 5), (nzc.NZCGaussian(c=1, sigma=4), 5),
]  # fmt: skip
DELTA = 1e-4


#: How many queries, the published and the audited ε.
Row = tuple[int, float, float]


def _label(mechanism: nzc.NoisyArgmax, queries: int, trials: int) -> Row:
    published = mechanism.promise(queries, queries).data_independent(DELTA)
    at = 0 if mechanism.screen is None else round(mechanism.screen.threshold)
    pairs = [worst_pair(mechanism.log_law, TEACHERS, CLASSES, range(at - 3, at + 4) if at else [])]
    if isinstance(mechanism.screen, StabilityScreen):  # the worst pair tells much, but too rarely for an audit
        tops = [TEACHERS // 2 + at + more for more in range(-3, 4)]
        pairs += [(np.array([top, TEACHERS - top, 0]), np.array([top - 1, TEACHERS - top + 1, 0])) for top in tops]
    rng = np.random.default_rng(0)
    found = (audit(mechanism.release, mechanism.evidence(pair), pair, queries, trials, DELTA, rng) for pair in pairs)
    return queries, published, max(found)


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
    found = max(audit(release, _evidence(law, pair), pair, queries, trials, DELTA, rng) for pair in pairs)
    return queries, mechanism.promise(queries, queries).data_independent(DELTA), found


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
        best = max(best, found)
    return queries, mechanism.worst_case_epsilon(queries, DELTA), best


@pytest.mark.slow
def test_no_audit_is_above_what_is_published() -> None:
    trials = 100_000
    rows = [_label(mechanism, queries, trials) for mechanism, queries in MECHANISMS]
    rows += [_interactive(trials), _sparse(trials)]
    assert [row for row in rows if row[2] > row[1]] == []
    assert all(audited > 0 for queries, _, audited in rows if queries == 1)
