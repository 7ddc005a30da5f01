"""Individual budgets: each record's ε is that of its group, in the price and in the votes.

tests/publishing/test_statement.py has what is published.
"""

from itertools import product

import brute
import numpy as np
from conftest import parametrize
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import approx, raises
from scipy.optimize import brentq
from sessions import policy_of

import nzc as library
from nzc.accounting.rdp import ORDERS
from nzc.data.hashing import keys_of
from nzc.data.splits import DataSplits, Records, Split, Units
from nzc.mechanisms import Adjacency, NoisyArgmax, OwnCells
from nzc.mechanisms.adjacency import SeveralVotes
from nzc.privacy.promise import Promise
from nzc.protocols.group_budgets import shares, weigh, weights
from nzc.teachers.sharded import partition

DELTA = 1e-3


def _moved(row: list[int]) -> list[np.ndarray]:
    """All histograms of which at most two votes moved, each from any to any class."""
    others = {tuple(row)}
    for _ in range(2):
        for other in list(others):
            others.update(map(tuple, brute.moves(other)))
    return list(map(np.array, others))


@parametrize(
    "mechanism",
    [
        library.GNMax(3),
        library.LNMax(0.2),
        library.Gumbel(0.2),
        library.PermuteAndFlip(0.2),
        library.Confident(4, 3, 4),
    ],
    ids=repr,
)
def test_a_record_in_several_teachers_by_enumeration_of_all_labels_and_neighbours(
    mechanism: NoisyArgmax,
) -> None:
    """Second route: the largest δ at the price of two queries, over all ways in which two votes of
    each can move.
    """
    mechanism = mechanism.between(SeveralVotes(2))
    epsilon = mechanism.worst_case_epsilon(2, DELTA)
    for votes in ([[3, 1, 0], [2, 1, 1]], [[2, 2], [4, 0]], [[10, 0], [5, 5]]):
        here = brute.joint_law(mechanism, np.array(votes))
        for other in product(*map(_moved, votes)):
            there = brute.joint_law(mechanism, np.array(other))
            assert brute.leak(here, [there], epsilon) <= DELTA
    # No theorem of the papers holds.
    assert not mechanism.cost(np.array(votes), np.zeros(2, int)).bounded


def test_prices_are_those_of_individualized_pate() -> None:
    """Rényi costs of its upsampling and weighting: s²α/σ² a label and s²α/(2σ₁²) a screen, at
    sensitivity s.
    """
    for s in (1, 2, 5):
        confident = library.Confident(200, 150, 40).between(Adjacency().times(s))
        (_, screen), (_, label) = confident.worst_case()
        assert_allclose(screen.rdp(ORDERS), s**2 * ORDERS / (2 * 150**2))
        assert_allclose(label.rdp(ORDERS), s**2 * ORDERS / 40**2)
        # Composition by induction is proved for one moved vote.
        (_, _), (_, flip) = library.PermuteAndFlip(0.1).between(Adjacency().times(s)).worst_case()
        assert (flip.hint is None) == (s > 1)
        counts = library.Counts(0.1).between(OwnCells().times(s))
        assert counts.worst_case_epsilon(9, 1e-5) == approx(0.2 * s)
    with raises(library.InputError):
        library.Stable(5, 1.2).between(SeveralVotes(2))


@parametrize("budget", [2.0, 100.0])
def test_a_smaller_group_pays_for_what_may_be_asked(budget: float) -> None:
    """Also where the budget is larger than the cost of all queries."""
    groups = shares({"careful": budget / 4, "open": budget}, Adjacency())
    mechanism = library.Confident(200, 150, 40).between(groups["open"].adjacency)
    promise = Promise.of(policy_of(mechanism, budget, delta=DELTA, shares=groups), [100])
    alone = mechanism.between(groups["careful"].adjacency).worst_case_epsilon(100, DELTA)
    assert promise.individual["open"] == promise.epsilon
    assert 0 < promise.individual["careful"] <= min(alone, budget / 4)
    assert (promise.individual["careful"] == alone) == (promise.epsilon < budget)
    if promise.epsilon == budget:  # at most so much of μ is spent, of which hers is a quarter
        mu = brentq(lambda mu: brute.gaussian_leak(mu, budget) - DELTA, 0.01, 10) / 4
        assert brute.gaussian_leak(mu, promise.individual["careful"]) == approx(DELTA, rel=1e-3)


def test_weights_are_in_proportion_and_never_above_it() -> None:
    assert weights({"a": 0.5, "b": 1, "c": 2}) == {"a": 1, "b": 2, "c": 4}
    assert weights({"a": 1.0, "b": 1.5}) == {"a": 2, "b": 3}
    assert weights({"a": 3.0}) == {"a": 1}
    for budgets in default_rng(0).uniform(0.1, 4, (50, 4)):
        whole = np.array([*weights(dict(zip("abcd", budgets, strict=True))).values()])
        ratio = whole / whole.max() * budgets.max() / budgets
        assert (ratio <= 1 + 1e-9).all() and (ratio >= 0.95).all()
    assert {*shares([0.5, 2.0], Adjacency())} == {"0.5", "2"}  # as the names in a file
    with raises(library.InputError, match=r"^budget.groups=0.001: "):
        weights({"a": 0.001, "b": 1})


def test_a_person_whose_records_have_several_budgets_gets_the_smallest() -> None:
    x, y = np.zeros((6, 2), np.float32), np.zeros(6, np.int64)
    none = Split(x[:0], y[:0])
    people = np.repeat([1, 2, 3], 2)
    budgets = np.array(["open", "careful", "open", "open", "careful", "careful"])
    splits = DataSplits(Records(x, y), none, none, 2, Units(people, budgets=budgets))
    weighed = weigh(splits, shares({"careful": 0.5, "open": 2.0}, Adjacency()), True)
    assert weighed.units.weights.tolist() == [1, 1, 4, 4, 1, 1]


def test_a_record_that_changes_with_its_group_reaches_no_more_teachers_than_the_larger_weight() -> (
    None
):
    names = keys_of(np.arange(200))
    before = default_rng(0).integers(1, 6, 200)

    def shards(*weight: np.ndarray) -> list[np.ndarray]:
        return partition(200, 31, 7, names, *weight)

    assert sum(map(len, shards(before))) == before.sum()
    assert all(map(np.array_equal, shards(np.ones_like(before)), shards()))
    for record, weight in ((3, 1), (50, 5), (99, 2)):
        after = before.copy()
        after[record] = weight
        touched = 0
        for old, new in zip(shards(before), shards(after), strict=True):
            touched += record in old or record in new
            # All others stay where they were, in the same order.
            assert_array_equal(old[old != record], new[new != record])
        assert touched <= max(before[record], weight)
