"""SparseStable: its ε against laws of whole runs, enumerated by a second route, and against adversarial long runs."""

from itertools import product

import brute
import numpy as np
import pytest
from conftest import published_votes
from scipy.stats import binom, gamma, gumbel_r

from nzc.accounting.data_independent import gaussian
from nzc.accounting.rdp import ORDERS, to_epsilon
from nzc.mechanisms import ABSTAIN
from nzc.mechanisms.sparse_vector import SparseStable
from nzc.validation import InputError

FEW = [np.array(votes) for votes in product(range(7), repeat=3) if sum(votes) == 6]
PAIRS = [(votes, np.array(moved)) for votes in FEW for moved in (*brute.moves(votes), votes)]


def answered(mechanism, votes):
    """The probability that d − scale·G ≥ threshold, by scipy's Gumbel law."""
    top = sorted(votes)[::-1]
    d = max(0.0, (top[0] - top[1]) / 2 - 1)
    return gumbel_r.cdf((d - mechanism.threshold) / mechanism.scale)


def runs(mechanism, choose, queries, outcome=(), reported=0):
    """Yield (outcome, P, P′) of all runs; `choose` maps the outcome so far to a pair of neighbouring histograms."""
    if len(outcome) == queries or reported == mechanism.cutoff:
        yield outcome, 1.0, 1.0
        return
    here, there = choose(outcome)
    p, q = answered(mechanism, here), answered(mechanism, there)
    labels = int(np.argmax(here)), int(np.argmax(there))
    for label in {*labels, ABSTAIN}:
        first = 1 - p if label == ABSTAIN else p * (label == labels[0])
        second = 1 - q if label == ABSTAIN else q * (label == labels[1])
        for whole, x, y in runs(mechanism, choose, queries, (*outcome, label), reported + (label == ABSTAIN)):
            yield whole, first * x, second * y


def adaptive(rng, pairs):
    """A way to choose queries that depends on the labels so far."""
    memory = {}
    return lambda outcome: memory.setdefault(outcome, pairs[rng.integers(len(pairs))])


def hockey_stick(law, epsilon):
    return max(sum(max(x - np.exp(epsilon) * y, 0) for x, y in pairs) for pairs in (law, [(y, x) for x, y in law]))


SETTINGS = [(2.5, 1.0, 1), (2.5, 1.0, 2), (4.0, 2.0, 3), (3.0, 1.5, 2), (6.0, 4.0, 2), (1.0, 2.0, 2), (0.0, 1.0, 1)]


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_delta_of_short_runs_is_never_above_the_stated_one(setting):
    mechanism, rng = SparseStable(*setting), np.random.default_rng(0)
    stated = {}
    for queries in (1, 2, 3):
        for delta in (1e-6, 1e-4, 1e-2, 0.1, 0.3, 0.6, 0.9):
            stated[queries, delta] = mechanism.epsilon(delta, queries)
    assert any(np.isfinite(list(stated.values())))
    for _ in range(250):
        queries = int(rng.integers(1, 4))
        law = [(x, y) for _, x, y in runs(mechanism, adaptive(rng, PAIRS), queries)]
        assert np.allclose(np.sum(law, axis=0), 1)
        for (asked, delta), epsilon in stated.items():
            if asked == queries and np.isfinite(epsilon):
                assert hockey_stick(law, epsilon) <= delta


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_every_pair_of_neighbours_thrice(setting):
    """The same pair at each query: with it, losses add up. Ties that flip are among the pairs."""
    mechanism = SparseStable(*setting)
    epsilons = {delta: mechanism.epsilon(delta, 3) for delta in (1e-6, 1e-3, 0.1, 0.3, 0.6, 0.9)}
    for pair in PAIRS:
        law = [(x, y) for _, x, y in runs(mechanism, lambda outcome, pair=pair: pair, 3)]
        for delta, epsilon in epsilons.items():
            assert not np.isfinite(epsilon) or hockey_stick(law, epsilon) <= delta


@pytest.mark.parametrize(("threshold", "scale", "cutoff"), [(2.5, 1.0, 1), (4.0, 2.0, 2), (6.0, 4.0, 3), (9.0, 4.0, 2)])
def test_renyi_cost_bounds_the_bits_of_adaptive_runs(threshold, scale, cutoff):
    mechanism, rng = SparseStable(threshold, scale, cutoff), np.random.default_rng(1)
    stable = [(a, b) for a, b in PAIRS if np.argmax(a) == np.argmax(b)]
    orders = np.array([1.01, 1.1, 1.3, 1.5, 2.0, 3.0, 4.0])
    bound = mechanism.rdp(orders, 3)
    assert np.isfinite(bound).any()
    for _ in range(200):
        first, second = np.array([(x, y) for _, x, y in runs(mechanism, adaptive(rng, stable), 3)]).T
        for order, limit in zip(orders, bound, strict=True):
            for p, q in ((first, second), (second, first)):
                assert np.log(np.sum(p**order * q ** (1 - order))) / (order - 1) <= limit * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize(("scale", "cutoff"), [(13.0, 1), (13.0, 25), (12.5, 250), (50.0, 250), (3.0, 4)])
@pytest.mark.parametrize("distance", [3, 5, 7, 9])
def test_thousands_of_equal_queries(scale, cutoff, distance):
    """A long run at rate e^−distance at each query. All that matters is when the `cutoff`-th report comes."""
    threshold, delta, queries = 3 * scale, 1e-5, 20_000
    mechanism = SparseStable(threshold, scale, cutoff)
    epsilon = mechanism.epsilon(delta, queries)
    for steps in (1, -1):
        p, q = (-np.expm1(-np.exp(-distance + shift / scale)) for shift in (0, steps))
        n = np.arange(cutoff, queries + 1)
        when_p, when_q = (binom.pmf(cutoff - 1, n - 1, x) * x for x in (p, q))  # the last report is the n-th query
        few = np.arange(cutoff)
        law = np.array([[*when, *binom.pmf(few, queries, x)] for when, x in ((when_p, p), (when_q, q))]).T
        assert np.allclose(law.sum(axis=0), 1)
        assert hockey_stick(law, epsilon) + mechanism.delta_cost(queries) <= delta


@pytest.mark.parametrize(
    ("scale", "cutoff", "slack"), [(13.0, 1, 1.4), (13.0, 25, 1.15), (13, 250, 1.1), (50, 250, 1.12)]
)
def test_the_bound_is_nearly_reached(scale, cutoff, slack):
    """The limit of step 1's equality: the time of the cutoff-th event of a Poisson process of rate e^(−1/b), or 1."""
    mechanism, rate, delta = SparseStable(4 * scale, scale, cutoff), np.exp(-1 / scale), 1e-5
    epsilon = mechanism.epsilon(delta, 10**6)

    def reached(epsilon):
        start = (epsilon - cutoff * np.log(rate)) / (1 - rate)
        return gamma.sf(start * rate, cutoff) - np.exp(epsilon) * gamma.sf(start, cutoff)

    assert reached(epsilon) <= delta - mechanism.delta_cost(10**6) < reached(epsilon / slack)


def test_flipped_labels_are_paid_from_delta():
    """Ties that a moved vote flips, query after query: exactly δ = 1 − (1 − p₀)^cutoff at ε = ∞."""
    mechanism = SparseStable(threshold=4.0, scale=2.0, cutoff=3)
    tie = np.array([2, 3, 0]), np.array([3, 2, 0])
    p0, queries = np.exp(-np.exp(2)), 8
    law = [(x, y) for _, x, y in runs(mechanism, lambda outcome: tie, queries)]
    leak = sum(x for x, y in law if y == 0)
    assert leak == pytest.approx(1 - (1 - p0) ** 3)
    assert leak <= mechanism.delta_cost(queries) == pytest.approx(3 * p0)
    assert mechanism.epsilon(3 * p0 * 0.999, queries) == np.inf > mechanism.epsilon(0.5, queries)
    assert mechanism.delta_cost(2) == pytest.approx(2 * p0)


def test_a_cutoff_of_many_costs_about_as_much_as_gaussian_noise():
    mechanism = SparseStable.for_teachers(4000, 1000, 1e-5)
    left = 1e-5 - mechanism.delta_cost(10**6)
    same = gaussian(np.sqrt(1000) / mechanism.scale, left)
    assert same < mechanism.epsilon(1e-5, 10**6) < 1.16 * same
    loose = to_epsilon(lambda orders: 1000 * orders / (2 * mechanism.scale**2), left)[0]
    assert mechanism.epsilon(1e-5, 10**6) > loose


def test_epsilon_does_not_grow_with_stable_queries():
    mechanism = SparseStable.for_teachers(250, 25, 1e-5)
    assert mechanism.epsilon(1e-5, 0) == 0.0
    epsilons = [mechanism.epsilon(1e-5, queries) for queries in (1, 5, 24, 25, 1000, 10**6)]
    assert epsilons == sorted(epsilons) and epsilons[3] == epsilons[-1]
    rdp = mechanism.rdp(ORDERS, 1000)
    assert np.isinf(rdp[mechanism.scale + 1 < ORDERS]).all() and np.isfinite(rdp[mechanism.scale > ORDERS]).all()


def test_the_rule_keeps_its_promises():
    for teachers, cutoff, delta in ((250, 25, 1e-5), (1000, 250, 1e-6), (50, 1, 1e-5)):
        mechanism = SparseStable.for_teachers(teachers, cutoff, delta)
        assert 0.0999 * delta < mechanism.delta_cost(10**9) <= 0.1 * delta
        assert mechanism.unstable([[0, teachers, 0]])[0] == pytest.approx(1e-2)


def test_release_follows_the_law():
    mechanism, rng = SparseStable(4.0, 2.0, 2), np.random.default_rng(5)
    votes = np.array([[9, 1], [2, 8], [9, 1]])
    law = {outcome: x for outcome, x, _ in runs(mechanism, lambda outcome: (votes[len(outcome)],) * 2, 3)}
    seen = [tuple(map(int, mechanism.release(votes, rng))) for _ in range(20_000)]
    for outcome, p in law.items():
        padded = outcome + (ABSTAIN,) * (3 - len(outcome))
        same = sum(x for other, x in law.items() if other + (ABSTAIN,) * (3 - len(other)) == padded)
        assert abs(seen.count(padded) / 20_000 - same) < 5 * np.sqrt(same / 20_000) + 1e-9, (padded, p)
    assert mechanism.unstable(votes) == pytest.approx([1 - answered(mechanism, v) for v in votes])


def test_a_run_stops_and_may_be_continued():
    mechanism, votes = SparseStable(20.0, 3.0, 3), np.array([[100, 0]] * 4 + [[50, 50]] * 3 + [[100, 0]] * 4)
    whole = mechanism.release(votes, np.random.default_rng(0))
    assert list(whole) == [0] * 4 + [ABSTAIN] * 7
    first = mechanism.release(votes[:6], np.random.default_rng(0))
    later = mechanism.release(votes[7:], np.random.default_rng(0), reported=2)
    assert list(first) == [0] * 4 + [ABSTAIN] * 2 and list(later) == [0] * 4
    assert (mechanism.release(votes, np.random.default_rng(0), reported=3) == ABSTAIN).all()
    assert len(mechanism.release(votes[:0], np.random.default_rng(0))) == 0


def test_extreme_settings_neither_overflow_nor_promise_anything():
    tiny, huge = SparseStable(1e100, 1e-100, 1), SparseStable(0.0, 1e100, 10**6)
    assert tiny.epsilon(1e-5, 10) == np.inf
    assert list(tiny.release(np.array([[5, 5], [9, 1]]), np.random.default_rng(0))) == [ABSTAIN, ABSTAIN]
    assert huge.epsilon(1e-5, 10) == np.inf  # a query with d = 0 is answered with probability 1/e
    for wrong in ((-1, 1, 1), (1, 0, 1), (1, 1, 0), (1, 1, 1.5)):
        with pytest.raises(InputError):
            SparseStable(*wrong)


def test_published_votes():
    votes = published_votes("mnist")
    mechanism, rng = SparseStable.for_teachers(250, 250, 1e-5), np.random.default_rng(0)
    labels = mechanism.release(votes[rng.permutation(len(votes))], rng)
    assert (labels >= 0).sum() > 500
    assert mechanism.epsilon(1e-5, len(votes)) == pytest.approx(5.1294, abs=1e-3)
