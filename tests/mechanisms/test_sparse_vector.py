"""Sparse stable labels: their ε against laws of whole runs, enumerated, and of long bad runs."""

from itertools import product

import brute
import numpy as np
import pytest
from conftest import published_votes
from scipy.stats import binom, gumbel_r

from nzc.accounting.rdp import ORDERS
from nzc.mechanisms import ABSTAIN, GaussianNoise, NoisyArgmax, NoNoise, SparseScreen, SparseStable

FEW = [votes for votes in product(range(7), repeat=3) if sum(votes) == 6]
PAIRS = [(votes, moved) for votes in FEW for moved in (*brute.moves(votes), votes)]


def sparse(threshold, scale, cutoff):
    return NoisyArgmax(NoNoise(), screen=SparseScreen(threshold, scale, cutoff))


def delta_cost(mechanism, queries):
    return mechanism.promise(queries, queries).delta_cost


def renyi(mechanism, orders, queries):
    (count, cost), _ = mechanism.promise(queries, queries).worst_case
    return count * cost.rdp(orders)


def answered(mechanism, votes):
    """The probability that d − scale·G ≥ threshold, by scipy's Gumbel law."""
    first, second, *_ = sorted(votes)[::-1]
    d = max(0.0, (first - second) / 2 - 1)
    return gumbel_r.cdf((d - mechanism.screen.threshold) / mechanism.screen.sigma1)


def runs(mechanism, choose, queries, outcome=()):
    """Yield (outcome, P, P′) of all runs; `choose` maps an outcome so far to neighbours."""
    if len(outcome) == queries or outcome.count(ABSTAIN) == mechanism.screen.cutoff:
        yield outcome, 1.0, 1.0
        return
    laws = []
    for votes in choose(outcome):
        p = answered(mechanism, votes)
        laws.append({ABSTAIN: 1 - p, int(np.argmax(votes)): p})
    here, there = laws
    for label in here | there:
        for whole, p, q in runs(mechanism, choose, queries, (*outcome, label)):
            yield whole, here.get(label, 0) * p, there.get(label, 0) * q


def law_of(mechanism, choose, queries):
    """Return P and P′ of all runs, [runs, 2]."""
    return np.array([(p, q) for _, p, q in runs(mechanism, choose, queries)])


def adaptive(rng, pairs):
    """A way to choose queries that depends on the labels so far."""
    memory = {}
    return lambda outcome: memory.setdefault(outcome, pairs[rng.integers(len(pairs))])


@pytest.mark.parametrize(
    "setting", [(2.5, 1.0, 2), (4.0, 2.0, 3), (6.0, 4.0, 2), (1.0, 2.0, 2), (0.0, 1.0, 1)], ids=str
)
def test_delta_of_short_runs_is_never_above_the_stated_one(setting):
    """Queries chosen by the labels so far; and one pair thrice: losses add up, ties flip."""
    mechanism = sparse(*setting)
    rng = np.random.default_rng(0)
    deltas = (1e-6, 1e-4, 1e-2, 0.1, 0.3, 0.6, 0.9)
    choices = [(adaptive(rng, PAIRS), queries) for queries in (1, 2, 3) for _ in range(20)]
    choices += [(lambda outcome, pair=pair: pair, 3) for pair in PAIRS]
    laws = [(law_of(mechanism, choose, queries), queries) for choose, queries in choices]
    finite = 0
    for delta in deltas:
        epsilon = [mechanism.worst_case_epsilon(queries, delta) for queries in range(4)]
        for law, queries in laws:
            assert np.allclose(law.sum(axis=0), 1)
            if np.isfinite(epsilon[queries]):
                finite += 1
                assert brute.leak(law[:, 0], [law[:, 1]], epsilon[queries]) <= delta
    assert finite


@pytest.mark.parametrize(("threshold", "scale", "cutoff"), [(2.5, 1.0, 1), (6.0, 4.0, 3)])
def test_renyi_cost_bounds_the_bits_of_adaptive_runs(threshold, scale, cutoff):
    mechanism = sparse(threshold, scale, cutoff)
    rng = np.random.default_rng(1)
    stable = [(a, b) for a, b in PAIRS if np.argmax(a) == np.argmax(b)]
    orders = np.array([1.01, 1.1, 1.3, 1.5, 2.0, 3.0, 4.0])
    bound = renyi(mechanism, orders, 3)
    assert np.isfinite(bound).any()
    for _ in range(60):
        law = law_of(mechanism, adaptive(rng, stable), 3)
        for p, q in (law.T[..., None], law.T[::-1, :, None]):
            divergence = np.log(np.sum(p**orders * q ** (1 - orders), axis=0)) / (orders - 1)
            assert (divergence <= bound * (1 + 1e-9) + 1e-12).all()


@pytest.mark.parametrize(
    ("scale", "cutoff"), [(13.0, 1), (13.0, 25), (12.5, 250), (50.0, 250), (3.0, 4)]
)
@pytest.mark.parametrize("distance", [3, 9])
def test_thousands_of_equal_queries(scale, cutoff, distance):
    """A long run at rate e^−distance. All that matters is when the `cutoff`-th report comes."""
    delta = 1e-5
    queries = 20_000
    mechanism = sparse(3 * scale, scale, cutoff)
    epsilon = mechanism.worst_case_epsilon(queries, delta)

    def law(shift):
        report = -np.expm1(-np.exp(-distance + shift / scale))
        last = binom.pmf(cutoff - 1, np.arange(cutoff, queries + 1) - 1, report) * report
        return np.append(last, binom.pmf(np.arange(cutoff), queries, report))

    for shift in (1, -1):
        here = law(0)
        there = law(shift)
        assert np.allclose([here.sum(), there.sum()], 1)
        assert brute.leak(here, [there], epsilon) + delta_cost(mechanism, queries) <= delta


def test_flipped_labels_are_paid_from_delta():
    """Ties that a moved vote flips, query after query: δ = 1 − (1 − p₀)^cutoff at ε = ∞."""
    mechanism = sparse(threshold=4.0, scale=2.0, cutoff=3)
    p0 = np.exp(-np.exp(2))
    law = law_of(mechanism, lambda outcome: ([2, 3, 0], [3, 2, 0]), 8)
    leak = law[law[:, 1] == 0, 0].sum()
    assert leak == pytest.approx(1 - (1 - p0) ** 3)
    assert leak <= delta_cost(mechanism, 8) == pytest.approx(3 * p0)
    assert mechanism.worst_case_epsilon(8, 3 * p0 * 0.999) == np.inf
    assert mechanism.worst_case_epsilon(8, 0.5) < np.inf
    assert delta_cost(mechanism, 2) == pytest.approx(2 * p0)


def test_epsilon_does_not_grow_with_stable_queries():
    mechanism = SparseStable(25, teachers=250, delta=1e-5)
    lengths = (0, 1, 5, 24, 25, 1000, 10**6)
    epsilons = [mechanism.worst_case_epsilon(queries, 1e-5) for queries in lengths]
    assert epsilons == sorted(epsilons)
    assert epsilons[0] == 0
    assert epsilons[4] == epsilons[-1]
    rdp = renyi(mechanism, ORDERS, 1000)
    scale = mechanism.screen.sigma1
    assert np.isinf(rdp[scale + 1 < ORDERS]).all()
    assert np.isfinite(rdp[scale > ORDERS]).all()


@pytest.mark.parametrize(
    ("teachers", "cutoff", "delta"), [(250, 25, 1e-5), (1000, 250, 1e-6), (50, 1, 1e-5)]
)
def test_the_default_noise_uses_a_tenth_of_delta(teachers, cutoff, delta):
    mechanism = SparseStable(cutoff, teachers=teachers, delta=delta)
    assert 0.0999 * delta < delta_cost(mechanism, 10**9) <= 0.1 * delta
    unanimous = mechanism.log_law(np.array([[0, teachers, 0]]))
    assert np.exp(unanimous[0, -1]) == pytest.approx(1e-2)


def test_release_follows_the_law():
    mechanism = sparse(4.0, 2.0, 2)
    rng = np.random.default_rng(5)
    votes = np.array([[9, 1], [2, 8], [9, 1]])
    law = {}
    for outcome, p, _ in runs(mechanism, lambda outcome: (votes[len(outcome)],) * 2, 3):
        padded = outcome + (ABSTAIN,) * (3 - len(outcome))
        law[padded] = law.get(padded, 0) + p
    seen = [tuple(mechanism.release(votes, rng).tolist()) for _ in range(3_000)]
    for outcome, p in law.items():
        assert abs(seen.count(outcome) / 3_000 - p) < 5 * np.sqrt(p / 3_000) + 1e-9, outcome
    unstable = np.exp(mechanism.log_law(votes)[:, -1])
    assert unstable == pytest.approx([1 - answered(mechanism, row) for row in votes])


def test_costs_of_a_run_are_those_of_its_reports():
    """`exact` is never above the promise, also of a long run; two runs cost twice."""
    votes = published_votes("mnist", 200)
    mechanism = SparseStable(25, teachers=250, delta=1e-5)
    labels = mechanism.release(votes, np.random.default_rng(0))
    cost = mechanism.cost(votes, labels)
    epsilon = cost.epsilon(1e-5)
    assert (labels >= 0).any()
    assert epsilon.exact <= epsilon.data_independent == mechanism.worst_case_epsilon(200, 1e-5)
    assert (cost.rdp(ORDERS) <= renyi(mechanism, ORDERS, 200) * (1 + 1e-12)).all()
    few = mechanism.cost(votes[:10], labels[:10])
    assert few.epsilon(1e-5).exact < few.data_independent(1e-5) < epsilon.data_independent
    doubled = SparseStable(50, 250, 2e-5, mechanism.screen.sigma1).worst_case_epsilon(200, 1e-5)
    assert (cost + cost).data_independent(1e-5) == pytest.approx(doubled, rel=0.01)


@pytest.mark.parametrize(("share", "admitted"), [(1, True), (0.999, False)])
def test_a_budget_admits_a_whole_run_or_none(share, admitted):
    mechanism = SparseStable(25, teachers=250, delta=1e-5)
    budget = share * mechanism.worst_case_epsilon(1000, 1e-5)
    admits = mechanism.filter(budget, 1e-5, 1000).admit(np.ones(1000, dtype=bool))
    assert (admits == admitted).all()


def test_labels_with_noise_are_all_paid():
    """Nearly all queries are stable: labels cost as much as without a screen, reports less."""
    votes = np.tile([60_000, 40_000], (2400, 1))
    labels = np.zeros(2400, dtype=int)
    plain = NoisyArgmax(GaussianNoise(10_000))
    screened = NoisyArgmax(GaussianNoise(10_000), screen=SparseScreen(1500, 500, cutoff=1))
    cost = screened.cost(votes, labels)
    assert (cost.rdp(ORDERS) >= plain.cost(votes, labels).rdp(ORDERS) * (1 - 1e-6)).all()
    assert cost.bounded == ()  # the theorem is of Gaussian noise on the screen
    few = screened.cost(votes[:5], labels[:5]).epsilon(1e-5)
    assert few.exact_lower is None  # the end of a run may hide what five laws show
