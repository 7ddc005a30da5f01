"""Amplification by a secret Poisson sample: prices against enumeration and closed forms."""

from dataclasses import replace
from functools import cache, reduce
from itertools import product
from types import SimpleNamespace

import brute
import mpmath as mp
import numpy as np
from conftest import parametrize
from few_labels import placed
from pytest import approx, raises
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import chisquare

import nzc
from nzc.accounting import sampling
from nzc.accounting.data_independent import compose_worst_cases, gaussian_cost, pure_cost
from nzc.accounting.exact import Pairs
from nzc.accounting.gaussian import gaussian
from nzc.accounting.rdp import to_epsilon
from nzc.accounting.sampling import SampledGaussian, sampled
from nzc.mechanisms.adjacency import Adjacency, Sampled
from nzc.teachers.neighbours import Neighbours


def _one(q, mu, delta):
    """The exact ε of one release: δ(log(1 + q(e^ε − 1))) is q times that of all records."""

    def excess(epsilon):
        whole = np.log1p(np.expm1(epsilon) / q)
        return q * (ndtr(-whole / mu + mu / 2) - np.exp(whole) * ndtr(-whole / mu - mu / 2)) - delta

    return brentq(excess, 0, 50, xtol=1e-14) if excess(0) > 0 else 0.0


@parametrize(
    ("q", "mu", "releases", "delta"),
    [
        (0.05, 0.06, 1, 1e-5), (0.05, 1, 1, 1e-6), (0.5, 2, 1, 1e-9), (0.9, 0.3, 1, 1e-3),
        (1.0, 1.4, 1, 1e-5), (1.0, 0.1, 100, 1e-5), (1.0, 0.003, 10_000, 1e-9),
    ],
)  # fmt: skip
def test_closed_forms_of_one_release_and_of_all_records(q, mu, releases, delta):
    exact = _one(q, mu, delta) if releases == 1 else gaussian(mu * np.sqrt(releases), delta)
    assert 0 <= SampledGaussian(q, mu)(releases, delta) / exact - 1 < 2e-4


@parametrize(("q", "mu"), [(0.3, 1.2)])
def test_renyi_costs_by_quadrature(q, mu):
    """Both halves of the dominating pair; and no composition is above that of Rényi costs."""
    release = SampledGaussian(q, mu)
    cuts = [mu / 2, mu / 2 + 2, *range(int(mu + 4), int(20 * mu) + 16, 4)]

    def mixed(z):
        return (1 - q) * mp.npdf(z) + q * mp.npdf(z, mu)

    def integral(function):
        return mp.quad(function, cuts, method="gauss-legendre")

    with mp.workdps(20):
        rest = 1 - integral(mixed) - integral(mp.npdf)
        for order in (1.1, 20):
            total = rest
            for p, other in ((mixed, mp.npdf), (mp.npdf, mixed)):
                total += integral(lambda z, p=p, s=other, a=order: p(z) ** a * s(z) ** (1 - a))
            true = float(mp.log(total) / (order - 1))
            found = release.rdp(np.array([order]))[0]
            assert true * (1 - 1e-9) <= found
            assert found <= min(true * 1.001, order * mu**2 / 2 * (1 + 1e-12))
    for releases in (2, 30):
        renyi = to_epsilon(lambda orders, n=releases: n * release.rdp(orders), 1e-6)[0]
        assert release(releases, 1e-6) < renyi


@parametrize(("q", "mu", "releases"), [(0.1, 0.8, 2), (0.6, 0.5, 2)])
def test_two_releases_by_enumeration_of_losses(q, mu, releases):
    """Second route: the law of single losses on a fine grid of z, convolved outcome by outcome."""
    ends = np.append(np.linspace(mu / 2, mu + 9, 121), 60.0)
    q_mass = -np.diff(ndtr(-ends))
    p_mass = (1 - q) * q_mass - q * np.diff(ndtr(mu - ends))
    rest = 1 - p_mass.sum() - q_mass.sum()
    laws = [np.concatenate([*halves, [rest]]) for halves in ((p_mass, q_mass), (q_mass, p_mass))]
    here, there = (reduce(np.multiply.outer, [law] * releases).ravel() for law in laws)
    epsilon = SampledGaussian(q, mu)(releases, 1e-4)
    # Merging intervals is post-processing: δ can only fall, and by less than a hundredth here.
    assert brute.excess(here, there, epsilon) <= 1e-4
    assert brute.excess(here, there, epsilon * 0.999) > 1e-4 / 1.02


@parametrize("releases", [1, 2, 3])
def test_losses_beyond_the_grid_are_paid_for_from_delta(monkeypatch, releases):
    """Second route: δ of all sums of losses on the grid, by enumeration; all others count in full.

    Usually less than a billionth of δ is left out. Here a third may be, so that a rare loss lies
    beyond the grid.
    """
    delta = 0.01
    cut = 0.33
    rare = 4e-4
    response = 0.8
    monkeypatch.setattr(sampling, "_CUT", cut)
    yes = np.array([1, np.exp(-response)]) / (1 + np.exp(-response))
    here = (1 - rare) * yes
    far = [rare, rare * np.exp(-40)]  # an outcome and its mirror image
    law = Pairs(
        np.zeros(1, np.int64),
        np.log([[*here, *far]]),
        np.log([[*here[::-1], *far[::-1]]]),
        np.ones((1, 4)),
    )
    epsilon = sampling._composed.__wrapped__(SimpleNamespace(law=law), releases, delta)
    sums = [reduce(np.multiply.outer, [p] * releases).ravel() for p in (here, here[::-1])]
    assert 0 < epsilon < releases * response
    left = delta - releases * rare - cut * delta
    assert brute.excess(*sums, epsilon) <= left < brute.excess(*sums, epsilon * 0.999)


def test_costs_of_other_samples_are_never_taken_for_one():
    """Releases with equal μ but other samples, or none, compose by Rényi costs, which add."""
    rare, often, again, whole = (sampled(gaussian_cost(0.1), q) for q in (0.01, 0.5, 0.5, 1))
    alone = compose_worst_cases([(50, often)], 1e-5)
    both = compose_worst_cases([(50, rare), (50, often)], 1e-5)
    assert alone < both < compose_worst_cases([(50, often), (50, whole)], 1e-5)
    assert compose_worst_cases([(25, often), (25, again)], 1e-5) == alone
    assert sampled(pure_cost(2.0), 0.1).pure == approx(np.log1p(0.1 * np.expm1(2)))


@parametrize(
    "mechanism",
    [nzc.GNMax(0.8), nzc.LNMax(0.7), nzc.Gumbel(0.7), nzc.Confident(1.5, 1.2, 0.8)],
    ids=repr,
)
def test_nearest_neighbours_by_enumeration_of_all_samples_and_replacements(mechanism):
    """Two queries of five records on a line: every sample, every replaced record."""
    q = 0.4
    count = 2
    classes = 3
    delta = 1e-3
    epsilon, spent = mechanism.between(Sampled(q)).promise(2, 2).published(delta)
    samples = np.array(list(product([False, True], repeat=5)))
    chances = np.where(samples, q, 1 - q).prod(axis=1)

    @cache
    def label_law(votes):
        return np.exp(mechanism.log_law(np.array([votes]))[0])

    def law(places, labels):
        laws = []
        for query in (0.0, 1.1):
            order = np.argsort(np.abs(places - query), kind="stable")
            total = 0.0
            for sample, chance in zip(samples, chances, strict=True):
                near = labels[order[sample[order]]][:count]
                votes = np.bincount([*near, *range(len(near), count)], minlength=classes)
                total = total + chance * label_law(tuple(votes.tolist()))
            laws.append(total)
        return np.outer(*laws).ravel()

    places = np.array([0.1, 0.5, 0.9, 1.4, 3.0])
    labels = np.array([0, 0, 1, 2, 0])
    here = law(places, labels)
    for record, place, label in product(range(5), (-0.1, 0.6, 9.0), range(classes)):
        moved = np.where(np.arange(5) == record, place, places)
        there = law(moved, np.where(np.arange(5) == record, label, labels))
        assert brute.leak(here, [there], epsilon) <= spent * (1 + 1e-9) + 1e-15
    plain = mechanism.between(Adjacency()).promise(2, 2).published(delta)[0]
    assert epsilon < plain  # the sample helps


@parametrize("q", [0.05, 0.2, 0.4])
def test_a_record_is_in_a_sample_as_often_as_is_priced(q):
    """Of two records beside each other the nearer one votes: with the probability of the sample."""
    rows = 4000
    places = np.zeros((rows + 2, 1), np.float32)
    places[1] = 0.1
    splits = placed(places, np.array([1, 2]), np.arange(rows), rows, 3)
    votes = Neighbours(count=1, sampling=q).train(splits, None, None)
    expected = [(1 - q) ** 2, q, q * (1 - q)]  # none, the nearer one, the other one alone
    assert chisquare(votes.sum(axis=0), rows * np.array(expected)).pvalue > 1e-6


def test_the_votes_are_those_of_the_nearest_records_in_a_sample():
    rng = np.random.default_rng(0)
    places = rng.normal(size=(440, 3)).round(1).astype(np.float32)  # with ties
    labels = rng.integers(0, 4, 400)
    asked = np.arange(0, 40, 2)
    teachers = Neighbours(count=7, sampling=0.2)
    splits = placed(places, labels, asked, 40, 4)
    votes = teachers.train(splits, None, None)
    assert (votes == teachers.train(splits, None, None)).all()
    assert (votes.sum(axis=1) == np.tile([7, 0], 20)).all()
    whole = replace(teachers, sampling=1.0).train(splits, None, None)
    for row in asked:
        distances = ((places[:400] - places[400 + row]) ** 2).sum(axis=1)
        nearest = distances.argsort(kind="stable")[:7]
        assert (whole[row] == np.bincount(labels[nearest], minlength=4)).all()
    assert (votes != whole).any()
    for record in range(60):  # one replaced record moves at most one vote of each query
        moved = places.copy()
        moved[record] = 2 * rng.normal(size=3)
        changed = labels.copy()
        changed[record] = rng.integers(4)
        others = teachers.train(placed(moved, changed, asked, 40, 4), None, None)
        assert abs(others - votes).sum(axis=1).max() <= 2


def test_labels_without_noise_are_refused_where_records_are_sampled():
    with raises(nzc.InputError, match="must have another screen"):
        nzc.Stable(5, 1.2).between(Sampled(0.4))
