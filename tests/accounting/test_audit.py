"""The audit: is its lower bound one, does it find what leaks, and is a contradiction loud?"""

import numpy as np
import pytest
from scipy.special import log_ndtr
from scipy.stats import binom, norm

from nzc.accounting.audit import Audit, Contradiction, audit, check, lower_bound, worst_pair
from nzc.accounting.data_independent import gaussian
from nzc.validation import InputError

DELTA = 1e-5


def gnmax(sigma):
    """Sampler and exact law of argmax(n + N(0, σ²)) for two classes (and an abstention that never happens)."""

    def label(votes, rng):
        return (votes + rng.normal(scale=sigma, size=votes.shape)).argmax(axis=1)

    def log_law(votes):
        z = (votes[:, 0] - votes[:, 1]) / (np.sqrt(2) * sigma)
        return np.stack([log_ndtr(z), log_ndtr(-z), np.full(len(votes), -np.inf)], axis=1)

    return label, log_law


def boosted(votes, rng):
    """NZC at c = 1e100."""
    scores = votes.astype(float)
    scores[np.arange(len(votes)), votes.argmax(axis=1)] += 1e100
    return (scores + rng.laplace(scale=20, size=votes.shape)).argmax(axis=1)


def certain(votes):
    """The law of a deterministic plurality."""
    law = np.full((len(votes), votes.shape[1] + 1), -np.inf)
    law[np.arange(len(votes)), votes.argmax(axis=1)] = 0.0
    return law


def screened(votes):
    """Law of one screen's answer at T = 30, σ₁ = 1: class 0 or abstain."""
    passes = (votes.max(axis=1) - 30) / 1.0
    return np.stack([log_ndtr(passes), log_ndtr(-passes)], axis=1)


def test_lower_bound_is_above_the_truth_in_at_most_one_in_twenty():
    """Randomised response, whose ε at δ is known; the binomial test is at a false-alarm rate of 1e-6."""
    stay, runs, rng = 0.7, 1000, np.random.default_rng(0)
    truth = np.log((stay - DELTA) / (1 - stay))

    def bit(probability):
        return lambda trials, rng: (rng.random(trials) < probability).astype(float)

    bounds = [lower_bound(bit(stay), bit(1 - stay), 600, DELTA, rng).epsilon for _ in range(runs)]
    assert sum(bound > truth for bound in bounds) <= binom.ppf(1 - 1e-6, runs, 0.05)
    assert np.median(bounds) > 0.5 * truth


def test_equal_samplers_show_nothing():
    rng, draw = np.random.default_rng(1), lambda trials, rng: rng.normal(size=trials)
    assert sum(lower_bound(draw, draw, 500, DELTA, rng).epsilon > 0 for _ in range(200)) <= binom.ppf(
        1 - 1e-6, 200, 0.05
    )


def test_gaussian_shift_is_found_from_either_side_and_stays_below_the_exact_epsilon():
    rng, mu = np.random.default_rng(2), 1.5

    def shifted(by, sign):
        return lambda trials, rng: sign * rng.normal(by, size=trials)

    for p, q, sign in ((mu, 0.0, 1), (0.0, mu, -1)):
        found = lower_bound(shifted(p, sign), shifted(q, sign), 200_000, DELTA, rng)
        assert 2.0 < found.epsilon < gaussian(mu, DELTA)
    # an event on which only Q is likely: the direction is chosen too
    one_sided = lower_bound(lambda n, r: np.zeros(n), lambda n, r: (r.random(n) < 0.01) * -1.0, 100_000, DELTA, rng)
    assert one_sided.swapped and one_sided.epsilon > 3


def test_gnmax_stays_below_its_bound_and_finds_most_of_what_the_trials_can_show():
    """A thousand labels of a tie: their counts differ by a mean of √(2/π) of the noise's own shift."""
    sigma, queries = 40.0, 1000
    label, log_law = gnmax(sigma)
    pair = worst_pair(log_law, 250, 2)
    assert sorted(pair[0]) == [125, 125] and abs(pair[0] - pair[1]).sum() == 2
    found = audit(label, log_law, pair, queries, 10_000, DELTA, np.random.default_rng(3))
    mu = np.sqrt(2 * queries) / sigma
    visible = np.log(norm.cdf(mu * np.sqrt(2 / np.pi) + norm.ppf(0.01)) / 0.01)  # an event seen 50 times in 5,000
    assert 0.7 * visible < found.epsilon < gaussian(mu, DELTA)
    check(found, data_independent=gaussian(mu, DELTA), theorem=None)


def test_a_sampler_with_less_noise_than_is_charged_fails_loudly():
    """Noise added into an integer array, as in a public implementation, and σ mistaken by a factor of 3."""
    quiet, _ = gnmax(40.0 / 3)
    _, log_law = gnmax(40.0)
    pair = worst_pair(log_law, 250, 2)
    found = audit(quiet, log_law, pair, 100, 20_000, DELTA, np.random.default_rng(4))
    with pytest.raises(Contradiction, match="data_independent"):
        check(found, data_independent=gaussian(np.sqrt(200) / 40, DELTA))


def test_nzc_leaks_as_much_as_the_trials_can_show():
    pair, found = worst_pair(certain, 250, 10), []
    for trials in (1000, 10_000, 100_000):
        found.append(audit(boosted, certain, pair, 1, trials, DELTA, np.random.default_rng(5)).epsilon)
        assert found[-1] == pytest.approx(np.log(trials / 2 / -np.log(0.025)), abs=0.02)
    assert found[0] < found[1] < found[2]
    with pytest.raises(Contradiction, match="data_independent"):
        check(Audit(found[-1], 0.0, False), data_independent=0.5)
    check(Audit(found[-1], 0.0, False), data_independent=np.inf)


@pytest.mark.parametrize("teachers", [1, 2, 3, 7, 250, 5000])
@pytest.mark.parametrize("classes", [2, 3, 10, 150])
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


@pytest.mark.parametrize("sigma", [0.7, 3.0, 20.0])
def test_worst_pair_is_as_bad_as_any_of_two_classes(sigma):
    """Second route: every pair of neighbours, by the normal distribution function."""
    _, log_law = gnmax(sigma)
    pair = worst_pair(log_law, 20, 2)
    assert chi(pair[0], pair[1], sigma) >= max(chi([n, 20 - n], [n - 1, 21 - n], sigma) for n in range(1, 21)) - 1e-9


def chi(here, there, sigma):
    p, q = (norm.cdf(np.array([n[0] - n[1], n[1] - n[0]]) / (2**0.5 * sigma)) for n in (here, there))
    return max((p**2 / q).sum(), (q**2 / p).sum())


@pytest.mark.parametrize(("field", "value"), [("trials", 1), ("delta", 0.0), ("confidence", 1.0)])
def test_bad_input(field, value):
    draw = lambda trials, rng: rng.normal(size=trials)  # noqa: E731
    settings = {"trials": 100, "delta": DELTA, "confidence": 0.95, field: value}
    with pytest.raises(InputError, match=field):
        lower_bound(draw, draw, rng=np.random.default_rng(0), **settings)
