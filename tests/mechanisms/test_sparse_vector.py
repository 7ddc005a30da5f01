"""Sparse stable labels: their ε against laws of whole runs, enumerated, and against adversarial
long runs.
"""

from itertools import product

import brute
import numpy as np
import pytest
from conftest import published_votes
from scipy.stats import binom, gamma, gumbel_r

from nzc.accounting.rdp import ORDERS
from nzc.mechanisms import ABSTAIN
from nzc.mechanisms.noise import GaussianNoise, NoNoise
from nzc.mechanisms.noisy_argmax import NoisyArgmax
from nzc.mechanisms.presets import SparseStable
from nzc.mechanisms.sparse_vector import SparseScreen

FEW = [np.array(votes) for votes in product(range(7), repeat=3) if sum(votes) == 6]
PAIRS = [(votes, np.array(moved)) for votes in FEW for moved in (*brute.moves(votes), votes)]


def sparse(threshold, scale, cutoff):
    return NoisyArgmax(NoNoise(), screen=SparseScreen(threshold, scale, cutoff))


def delta_cost(mechanism, queries):
    return mechanism.promise(queries, queries).delta_cost


def renyi(mechanism, orders, queries):
    (count, cost), _ = mechanism.promise(queries, queries).worst_case
    return count * cost.rdp(orders)


def unstable(mechanism, votes):
    return np.exp(mechanism.log_law(np.array(votes))[:, -1])


def answered(mechanism, votes):
    """The probability that d − scale·G ≥ threshold, by scipy's Gumbel law."""
    top = sorted(votes)[::-1]
    d = max(0.0, (top[0] - top[1]) / 2 - 1)
    return gumbel_r.cdf((d - mechanism.screen.threshold) / mechanism.screen.sigma1)


def runs(mechanism, choose, queries, outcome=(), reported=0):
    """Yield (outcome, P, P′) of all runs; `choose` maps the outcome so far to a pair of
    neighbouring histograms.
    """
    if len(outcome) == queries or reported == mechanism.screen.cutoff:
        yield outcome, 1.0, 1.0
        return
    here, there = choose(outcome)
    p, q = answered(mechanism, here), answered(mechanism, there)
    labels = int(np.argmax(here)), int(np.argmax(there))
    for label in {*labels, ABSTAIN}:
        first = 1 - p if label == ABSTAIN else p * (label == labels[0])
        second = 1 - q if label == ABSTAIN else q * (label == labels[1])
        for whole, x, y in runs(
            mechanism, choose, queries, (*outcome, label), reported + (label == ABSTAIN)
        ):
            yield whole, first * x, second * y


def adaptive(rng, pairs):
    """A way to choose queries that depends on the labels so far."""
    memory = {}
    return lambda outcome: memory.setdefault(outcome, pairs[rng.integers(len(pairs))])


def hockey_stick(law, epsilon):
    return max(
        sum(max(x - np.exp(epsilon) * y, 0) for x, y in pairs)
        for pairs in (law, [(y, x) for x, y in law])
    )


SETTINGS = [(2.5, 1.0, 2), (4.0, 2.0, 3), (6.0, 4.0, 2), (1.0, 2.0, 2), (0.0, 1.0, 1)]


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_delta_of_short_runs_is_never_above_the_stated_one(setting):
    """Queries chosen by the labels so far, and the same pair thrice, where losses add up; ties that
    flip among them.
    """
    mechanism, rng = sparse(*setting), np.random.default_rng(0)
    deltas = (1e-6, 1e-4, 1e-2, 0.1, 0.3, 0.6, 0.9)
    stated = {
        queries: [mechanism.worst_case_epsilon(queries, delta) for delta in deltas]
        for queries in (1, 2, 3)
    }
    assert np.isfinite([*stated.values()]).any()
    choices = [(adaptive(rng, PAIRS), int(rng.integers(1, 4))) for _ in range(250)]
    choices += [(lambda outcome, pair=pair: pair, 3) for pair in PAIRS]
    for choose, queries in choices:
        law = [(x, y) for _, x, y in runs(mechanism, choose, queries)]
        assert np.allclose(np.sum(law, axis=0), 1)
        for epsilon, delta in zip(stated[queries], deltas, strict=True):
            assert not np.isfinite(epsilon) or hockey_stick(law, epsilon) <= delta


@pytest.mark.parametrize(("threshold", "scale", "cutoff"), [(2.5, 1.0, 1), (6.0, 4.0, 3)])
def test_renyi_cost_bounds_the_bits_of_adaptive_runs(threshold, scale, cutoff):
    mechanism, rng = sparse(threshold, scale, cutoff), np.random.default_rng(1)
    stable = [(a, b) for a, b in PAIRS if np.argmax(a) == np.argmax(b)]
    orders = np.array([1.01, 1.1, 1.3, 1.5, 2.0, 3.0, 4.0])
    bound = renyi(mechanism, orders, 3)
    assert np.isfinite(bound).any()
    for _ in range(100):
        first, second = np.array(
            [(x, y) for _, x, y in runs(mechanism, adaptive(rng, stable), 3)]
        ).T
        for order, limit in zip(orders, bound, strict=True):
            for p, q in ((first, second), (second, first)):
                assert (
                    np.log(np.sum(p**order * q ** (1 - order))) / (order - 1)
                    <= limit * (1 + 1e-9) + 1e-12
                )


@pytest.mark.parametrize(
    ("scale", "cutoff"), [(13.0, 1), (13.0, 25), (12.5, 250), (50.0, 250), (3.0, 4)]
)
@pytest.mark.parametrize("distance", [3, 9])
def test_thousands_of_equal_queries(scale, cutoff, distance):
    """A long run at rate e^−distance at each query. All that matters is when the `cutoff`-th report
    comes.
    """
    threshold, delta, queries = 3 * scale, 1e-5, 20_000
    mechanism = sparse(threshold, scale, cutoff)
    epsilon = mechanism.worst_case_epsilon(queries, delta)
    for steps in (1, -1):
        p, q = (-np.expm1(-np.exp(-distance + shift / scale)) for shift in (0, steps))
        n = np.arange(cutoff, queries + 1)
        when_p, when_q = (
            binom.pmf(cutoff - 1, n - 1, x) * x for x in (p, q)
        )  # the last report is the n-th query
        few = np.arange(cutoff)
        law = np.array(
            [[*when, *binom.pmf(few, queries, x)] for when, x in ((when_p, p), (when_q, q))]
        ).T
        assert np.allclose(law.sum(axis=0), 1)
        assert hockey_stick(law, epsilon) + delta_cost(mechanism, queries) <= delta


@pytest.mark.parametrize(
    ("scale", "cutoff", "slack"),
    [(13.0, 1, 1.4), (13.0, 25, 1.15), (13, 250, 1.1), (50, 250, 1.12)],
)
def test_the_bound_is_nearly_reached(scale, cutoff, slack):
    """The limit of step 1's equality: the time of the cutoff-th event of a Poisson process of rate
    e^(−1/b), or 1.
    """
    mechanism, rate, delta = sparse(4 * scale, scale, cutoff), np.exp(-1 / scale), 1e-5
    epsilon = mechanism.worst_case_epsilon(10**6, delta)

    def reached(epsilon):
        start = (epsilon - cutoff * np.log(rate)) / (1 - rate)
        return gamma.sf(start * rate, cutoff) - np.exp(epsilon) * gamma.sf(start, cutoff)

    assert reached(epsilon) <= delta - delta_cost(mechanism, 10**6) < reached(epsilon / slack)


def test_flipped_labels_are_paid_from_delta():
    """Ties that a moved vote flips, query after query: exactly δ = 1 − (1 − p₀)^cutoff at ε = ∞."""
    mechanism = sparse(threshold=4.0, scale=2.0, cutoff=3)
    tie = np.array([2, 3, 0]), np.array([3, 2, 0])
    p0, queries = np.exp(-np.exp(2)), 8
    law = [(x, y) for _, x, y in runs(mechanism, lambda outcome: tie, queries)]
    leak = sum(x for x, y in law if y == 0)
    assert leak == pytest.approx(1 - (1 - p0) ** 3)
    assert leak <= delta_cost(mechanism, queries) == pytest.approx(3 * p0)
    assert (
        mechanism.worst_case_epsilon(queries, 3 * p0 * 0.999)
        == np.inf
        > mechanism.worst_case_epsilon(queries, 0.5)
    )
    assert delta_cost(mechanism, 2) == pytest.approx(2 * p0)


def test_epsilon_does_not_grow_with_stable_queries():
    mechanism = SparseStable(25, teachers=250, delta=1e-5)
    assert mechanism.worst_case_epsilon(0, 1e-5) == 0.0
    epsilons = [
        mechanism.worst_case_epsilon(queries, 1e-5) for queries in (1, 5, 24, 25, 1000, 10**6)
    ]
    assert epsilons == sorted(epsilons) and epsilons[3] == epsilons[-1]
    rdp, scale = renyi(mechanism, ORDERS, 1000), mechanism.screen.sigma1
    assert np.isinf(rdp[scale + 1 < ORDERS]).all() and np.isfinite(rdp[scale > ORDERS]).all()
    for teachers, cutoff, delta in ((250, 25, 1e-5), (1000, 250, 1e-6), (50, 1, 1e-5)):
        mechanism = SparseStable(cutoff, teachers=teachers, delta=delta)
        assert 0.0999 * delta < delta_cost(mechanism, 10**9) <= 0.1 * delta
        assert unstable(mechanism, [[0, teachers, 0]])[0] == pytest.approx(1e-2)
    assert sparse(1e100, 1e-100, 1).worst_case_epsilon(10, 1e-5) == np.inf
    assert (
        sparse(0.0, 1e100, 10**6).worst_case_epsilon(10, 1e-5) == np.inf
    )  # answered where d = 0 at a rate of 1/e


def test_release_follows_the_law():
    mechanism, rng = sparse(4.0, 2.0, 2), np.random.default_rng(5)
    votes = np.array([[9, 1], [2, 8], [9, 1]])
    law = {
        outcome: x
        for outcome, x, _ in runs(mechanism, lambda outcome: (votes[len(outcome)],) * 2, 3)
    }
    seen = [tuple(map(int, mechanism.release(votes, rng))) for _ in range(10_000)]
    for outcome, p in law.items():
        padded = outcome + (ABSTAIN,) * (3 - len(outcome))
        same = sum(x for other, x in law.items() if other + (ABSTAIN,) * (3 - len(other)) == padded)
        assert abs(seen.count(padded) / 10_000 - same) < 5 * np.sqrt(same / 10_000) + 1e-9, (
            padded,
            p,
        )
    assert unstable(mechanism, votes) == pytest.approx([1 - answered(mechanism, v) for v in votes])
    far, tie = [[100, 0]] * 4, [[50, 50]] * 3
    labels = sparse(20.0, 3.0, 3).release(np.array(far + tie + far), rng)
    assert list(labels) == [0] * 4 + [ABSTAIN] * 7  # a third report ends the run


def test_costs_of_a_run_are_those_of_its_reports():
    """`exact` is never above the promise, also of a long run; two runs cost twice."""
    votes = published_votes("mnist", 500)
    mechanism = SparseStable(25, teachers=250, delta=1e-5)
    labels = mechanism.release(votes, np.random.default_rng(0))
    cost = mechanism.cost(votes, labels)
    epsilon = cost.epsilon(1e-5)
    assert (labels >= 0).any()
    assert epsilon.exact <= epsilon.data_independent == mechanism.worst_case_epsilon(500, 1e-5)
    assert (cost.rdp(ORDERS) <= renyi(mechanism, ORDERS, 500) * (1 + 1e-12)).all()
    few = mechanism.cost(votes[:10], labels[:10])
    assert few.epsilon(1e-5).exact < few.data_independent(1e-5) < epsilon.data_independent
    doubled = SparseStable(50, 250, 2e-5, mechanism.screen.sigma1).worst_case_epsilon(500, 1e-5)
    assert (cost + cost).data_independent(1e-5) == pytest.approx(doubled, rel=0.01)
    whole = mechanism.worst_case_epsilon(1000, 1e-5)  # a budget admits a whole run or none
    for budget, admitted in ((whole, True), (whole * 0.999, False)):
        assert (
            mechanism.filter(budget, 1e-5, 1000).admit(np.ones(1000, dtype=bool)) == admitted
        ).all()


def test_labels_with_noise_are_all_paid():
    """Nearly all queries are stable, so that the labels cost what they cost without a screen; its
    reports cost less.
    """
    votes, labels, noise = (
        np.tile([60_000, 40_000], (2400, 1)),
        np.zeros(2400, dtype=int),
        GaussianNoise(10_000),
    )
    screened = NoisyArgmax(noise, screen=SparseScreen(1500, 500, cutoff=1)).cost(votes, labels)
    plain = NoisyArgmax(noise).cost(votes, labels)
    assert (screened.rdp(ORDERS) >= plain.rdp(ORDERS) * (1 - 1e-6)).all()
    assert screened.bounded == ()  # the theorem is of Gaussian noise on the screen
    few = (
        NoisyArgmax(noise, screen=SparseScreen(1500, 500, cutoff=1))
        .cost(votes[:5], labels[:5])
        .epsilon(1e-5)
    )
    assert few.exact_lower is None  # the end of a run may hide what five laws show
