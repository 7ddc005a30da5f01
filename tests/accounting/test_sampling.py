"""Amplification by a secret Poisson sample: prices against enumeration, closed forms and
quadrature.
"""

from dataclasses import replace
from functools import reduce
from itertools import product
from types import SimpleNamespace

import brute
import mpmath as mp
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import chisquare

import nzc
from nzc.accounting import sampling
from nzc.accounting.data_independent import compose, gaussian, gaussian_cost, pure_cost
from nzc.accounting.exact import Pairs
from nzc.accounting.rdp import to_epsilon
from nzc.accounting.sampling import SampledGaussian, sampled
from nzc.data.splits import DataSplits, Embedding, Split
from nzc.mechanisms.adjacency import Adjacency, Sampled
from nzc.teachers.neighbours import Neighbours


def _one(q, mu, delta):
    """The exact ε of one release: δ(log(1 + q(e^ε − 1))) is q times that of all records."""

    def excess(epsilon):
        whole = np.log1p(np.expm1(epsilon) / q)
        return q * (ndtr(-whole / mu + mu / 2) - np.exp(whole) * ndtr(-whole / mu - mu / 2)) - delta

    return brentq(excess, 0, 50, xtol=1e-14) if excess(0) > 0 else 0.0


@pytest.mark.parametrize(
    ("q", "mu", "delta"), [(0.05, 0.06, 1e-5), (0.05, 1, 1e-6), (0.5, 2, 1e-9), (0.9, 0.3, 1e-3)]
)
def test_one_release_is_as_in_the_closed_form(q, mu, delta):
    assert 0 <= SampledGaussian(q, mu)(1, delta) / _one(q, mu, delta) - 1 < 2e-4


@pytest.mark.parametrize(
    ("releases", "mu", "delta"), [(1, 1.4, 1e-5), (100, 0.1, 1e-5), (10_000, 0.003, 1e-9)]
)
def test_where_all_are_in_the_sample_it_is_gaussian_composition(releases, mu, delta):
    exact = gaussian(mu * np.sqrt(releases), delta)
    assert 0 <= SampledGaussian(1.0, mu)(releases, delta) / exact - 1 < 2e-4


@pytest.mark.parametrize(("q", "mu"), [(0.05, 0.0566), (0.3, 1.2)])
def test_renyi_costs_by_quadrature(q, mu):
    """Both halves of the dominating pair, with mpmath; and no composition is above that of Rényi
    costs.
    """

    def density(z, of):
        return (1 - q) * mp.npdf(z) + q * mp.npdf(z, mu) if of else mp.npdf(z)

    for order in (1.1, 2, 8, 40):
        cuts = [mu / 2, mu / 2 + 2, *range(int(mu + 4), int(order * mu) + 40, 4)]
        parts = [
            mp.quad(
                lambda z, of=of, a=order: density(z, of) ** a * density(z, not of) ** (1 - a), cuts
            )
            for of in (True, False)
        ]
        rest = 1 - sum(mp.quad(lambda z, of=of: density(z, of), cuts) for of in (True, False))
        true = float(mp.log(parts[0] + parts[1] + rest) / (order - 1))
        found = SampledGaussian(q, mu).rdp(np.array([order]))[0]
        assert true * (1 - 1e-9) <= found <= min(true * 1.001, order * mu**2 / 2 * (1 + 1e-12))
    for releases in (2, 300):
        of = SampledGaussian(q, mu)
        assert (
            of(releases, 1e-6)
            < to_epsilon(lambda orders, n=releases, of=of: n * of.rdp(orders), 1e-6)[0]
        )


@pytest.mark.parametrize(("q", "mu"), [(0.1, 0.8), (0.6, 0.5)])
def test_two_and_three_releases_by_enumeration_of_losses(q, mu):
    """Second route: the law of single losses on a fine grid of z, convolved outcome by outcome."""
    z = np.linspace(mu / 2, mu + 9, 121)
    ends = np.append(z, 60.0)
    q_mass = ndtr(-ends[:-1]) - ndtr(-ends[1:])
    p_mass = (1 - q) * q_mass + q * (ndtr(mu - ends[:-1]) - ndtr(mu - ends[1:]))
    rest = 1 - p_mass.sum() - q_mass.sum()
    p, other = np.concatenate([p_mass, q_mass, [rest]]), np.concatenate([q_mass, p_mass, [rest]])
    for releases in (2, 3):
        here, there = (reduce(np.multiply.outer, [of] * releases).ravel() for of in (p, other))
        epsilon = SampledGaussian(q, mu)(releases, 1e-4)
        # Merging intervals is post-processing: δ can only fall, and by less than a hundredth at
        # this grid.
        assert (
            brute.excess(here, there, epsilon)
            <= 1e-4
            < 1.02 * brute.excess(here, there, epsilon * 0.999)
        )


@pytest.mark.parametrize("releases", [1, 2, 3])
def test_losses_beyond_the_grid_are_paid_for_from_delta(monkeypatch, releases):
    """Second route: δ of all sums of losses that are on the grid, by enumeration; what is left out
    counts in full.

    Usually less than a billionth of δ is left out. Here a third may be, so that a rare loss lies
    beyond the grid.
    """
    delta, cut, rare, most, response = 0.01, 0.33, 4e-4, 40.0, 0.8
    monkeypatch.setattr(sampling, "_CUT", cut)
    yes = np.array([1, np.exp(-response)]) / (1 + np.exp(-response))
    here, there = (1 - rare) * yes, (1 - rare) * yes[::-1]
    far = np.log([rare * np.exp(-most), rare])  # of an outcome and its mirror image
    law = Pairs(
        np.zeros(1, np.int64),
        np.append(np.log(here), far[::-1])[None],
        np.append(np.log(there), far)[None],
        np.ones((1, 4)),
    )
    epsilon = sampling._composed.__wrapped__(SimpleNamespace(law=law), releases, delta)
    sums = [reduce(np.multiply.outer, [of] * releases).ravel() for of in (here, there)]
    assert 0 < epsilon < releases * response
    for factor, enough in ((1, True), (0.999, False)):
        on_grid = brute.excess(*sums, epsilon * factor)
        assert (on_grid + releases * rare + cut * delta <= delta) == enough


def test_costs_of_other_samples_are_never_taken_for_one():
    """Releases with equal μ but other samples, or none, compose by Rényi costs, which add."""
    rare, often, whole = (sampled(gaussian_cost(0.1), q) for q in (0.01, 0.5, 1))
    alone = compose([(50, often)], 1e-5)
    assert (
        alone < compose([(50, rare), (50, often)], 1e-5) < compose([(50, often), (50, whole)], 1e-5)
    )
    assert compose([(25, often), (25, sampled(gaussian_cost(0.1), 0.5))], 1e-5) == alone
    assert sampled(pure_cost(2.0), 0.1).pure == pytest.approx(np.log1p(0.1 * np.expm1(2)))


@pytest.mark.parametrize(
    "mechanism",
    [nzc.GNMax(0.8), nzc.LNMax(0.7), nzc.Gumbel(0.7), nzc.Confident(1.5, 1.2, 0.8)],
    ids=repr,
)
def test_nearest_neighbours_by_enumeration_of_all_samples_and_replacements(mechanism):
    """Two queries of five records on a line: every sample, every replaced record, both directions."""
    q, count, classes, delta = 0.4, 2, 3, 1e-3
    own = mechanism.between(Sampled(q))
    epsilon, spent = own.promise(2, 2).published(delta)

    def law(places, labels):
        whole = np.ones(1)
        for query in (0.0, 1.1):
            order, total = np.argsort(np.abs(places - query), kind="stable"), 0.0
            for sample in product([False, True], repeat=5):
                near = labels[[at for at in order if sample[at]][:count]].tolist()
                votes = np.bincount([*near, *range(len(near), count)], minlength=classes)
                chance = q ** sum(sample) * (1 - q) ** (5 - sum(sample))
                total = total + chance * np.exp(mechanism.log_law(votes[None])[0])
            whole = np.outer(whole, total).ravel()
        return whole

    places, labels = np.array([0.1, 0.5, 0.9, 1.4, 3.0]), np.array([0, 0, 1, 2, 0])
    here, largest = law(places, labels), 0.0
    for record, place, label in product(range(5), (-0.1, 0.6, 9.0), range(classes)):
        other, named = places.copy(), labels.copy()
        other[record], named[record] = place, label
        there = law(other, named)
        largest = max(
            largest, brute.excess(here, there, epsilon), brute.excess(there, here, epsilon)
        )
    assert largest <= spent * (1 + 1e-9) + 1e-15
    plain = mechanism.between(Adjacency()).promise(2, 2).published(delta)[0]
    assert epsilon < plain  # the sample helps


def test_a_record_is_in_a_sample_as_often_as_is_priced():
    """Two records beside each other, of which the nearer one votes: it does so with the probability
    of the sample.
    """
    places, rows = np.array([[0.0], [0.1]], np.float32), 4000
    public = Split(np.zeros((rows, 1), np.float32), np.zeros(rows, np.int64))
    splits = DataSplits(Split(np.zeros((2, 1), np.float32), np.array([1, 2])), public, public, 3)
    splits = replace(
        splits, embedding=Embedding(places, np.zeros((rows, 1), np.float32)), asked=np.arange(rows)
    )
    for q in (0.05, 0.2, 0.4):
        votes = Neighbours(count=1, sampling=q).train(
            replace(splits, coins=np.arange(4, dtype=np.uint64)), None, None
        )
        expected = rows * np.array(
            [(1 - q) ** 2, q, q * (1 - q)]
        )  # none, the nearer one, the other one alone
        assert chisquare(votes.sum(axis=0), expected).pvalue > 1e-6


def test_the_votes_are_those_of_the_nearest_records_in_a_sample():
    rng = np.random.default_rng(0)
    places, y = (
        rng.normal(size=(440, 3)).round(1).astype(np.float32),
        rng.integers(0, 4, 400),
    )  # with ties
    public = Split(np.zeros((40, 1), np.float32), np.zeros(40, np.int64))
    splits = DataSplits(Split(np.zeros((400, 1), np.float32), y), public, public, 4)
    splits = replace(
        splits, embedding=Embedding(places[:400], places[400:]), asked=np.arange(0, 40, 2)
    )
    splits = replace(splits, coins=np.arange(4, dtype=np.uint64))
    of = Neighbours(count=7, sampling=0.2)
    votes, again = (of.train(splits, None, None) for _ in range(2))
    assert (votes == again).all() and (votes[::2].sum(axis=1) == 7).all() and not votes[1::2].any()
    whole = replace(of, sampling=1.0).train(replace(splits, coins=None), None, None)
    for row in range(0, 40, 2):
        order = np.lexsort((np.arange(400), ((places[:400] - places[400 + row]) ** 2).sum(axis=1)))
        assert (whole[row] == np.bincount(y[order[:7]], minlength=4)).all()
    assert (votes != whole).any()
    for trial in range(60):  # one replaced record moves at most one vote of each query
        record, at, label = trial, places.copy(), y.copy()
        at[record], label[record] = 2 * rng.normal(size=3), rng.integers(4)
        changed = replace(
            splits, private=Split(splits.private.x, label), embedding=Embedding(at[:400], at[400:])
        )
        assert abs(of.train(changed, None, None) - votes).sum(axis=1).max() <= 2
    few = replace(splits, coins=np.arange(4, dtype=np.uint64) + 9)
    assert (replace(of, sampling=0.001, count=7).train(few, None, None)[::2].sum(axis=1) == 7).all()
