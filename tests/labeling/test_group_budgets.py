"""Individual budgets: each record's ε is that of its group, in the price, in the votes, and in what
is published.
"""

import json
from itertools import combinations_with_replacement, product

import brute
import numpy as np
import pandas as pd
import pytest
from conftest import Nzc, newest_folder

import nzc as library
from nzc.accounting.rdp import ORDERS
from nzc.app.publish import publish_run
from nzc.data.hashing import keys_of
from nzc.data.splits import DataSplits, Records, Split
from nzc.labeling.group_budgets import shares, weigh, weights
from nzc.mechanisms import Adjacency, OwnCells
from nzc.mechanisms.adjacency import SeveralVotes
from nzc.teachers.sharded import partition

DELTA = 1e-3


def _moved(votes, times):
    """All pairs of queries of which so many votes moved, each from any to any class."""
    rows = []
    for row in votes:
        moves = list(product(range(len(row)), repeat=2))
        others = {tuple(row + sum(np.eye(len(row), dtype=int)[b] - np.eye(len(row), dtype=int)[a] for a, b in some))
                  for some in combinations_with_replacement(moves, times)}  # fmt: skip
        rows.append([np.array(other) for other in others if min(other) >= 0])
    return [np.array(pair) for pair in product(*rows)]


def _joint(mechanism, votes):
    first, second = np.exp(mechanism.log_law(votes))
    return np.outer(first, second).ravel()


@pytest.mark.parametrize(
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
def test_a_record_in_several_teachers_by_enumeration_of_all_labels_and_neighbours(mechanism):
    """Second route: the largest δ at the price of two queries, over all ways in which two votes of
    each can move.
    """
    mechanism = mechanism.between(SeveralVotes(2))
    for votes in ([[3, 1, 0], [2, 1, 1]], [[2, 2], [4, 0]], [[10, 0], [5, 5]]):
        epsilon = mechanism.worst_case_epsilon(2, DELTA)
        here = _joint(mechanism, np.array(votes))
        for other in _moved(np.array(votes), 2):
            there = _joint(mechanism, other)
            assert (
                max(brute.excess(here, there, epsilon), brute.excess(there, here, epsilon)) <= DELTA
            )
    assert not mechanism.cost(
        np.array(votes), np.zeros(2, int)
    ).bounded  # no theorem of the papers holds


def test_prices_are_those_of_individualized_pate():
    """Rényi costs of its upsampling and weighting: s²α/σ² a label and s²α/(2σ₁²) a screen, at
    sensitivity s.
    """
    for s in (1, 2, 5):
        (_, screen), (_, label) = (
            library.Confident(200, 150, 40).between(Adjacency().times(s)).worst_case()
        )
        np.testing.assert_allclose(screen.rdp(ORDERS), s**2 * ORDERS / (2 * 150**2))
        np.testing.assert_allclose(label.rdp(ORDERS), s**2 * ORDERS / 40**2)
        assert library.Counts(0.1).between(OwnCells().times(s)).worst_case_epsilon(
            9, 1e-5
        ) == pytest.approx(0.2 * s)
    for stable in (
        library.Stable(5, 1.2),
        library.SparseStable(cutoff=5, teachers=100, delta=1e-5),
    ):
        with pytest.raises(library.InputError):
            stable.between(SeveralVotes(2))


def test_weights_are_in_proportion_and_never_above_it():
    assert weights({"a": 0.5, "b": 1, "c": 2}) == {"a": 1, "b": 2, "c": 4}
    assert weights({"a": 1.0, "b": 1.5}) == {"a": 2, "b": 3} and weights({"a": 3.0}) == {"a": 1}
    for budgets in np.random.default_rng(0).uniform(0.1, 4, (50, 4)).tolist():
        got = weights(dict(zip("abcd", budgets, strict=True)))
        ratio = np.array([*got.values()]) / max(got.values()) * max(budgets) / budgets
        assert (ratio <= 1 + 1e-9).all() and (ratio >= 0.95).all()
    assert {*shares([0.5, 2.0], Adjacency())} == {"0.5", "2"}  # as the names in a file
    with pytest.raises(library.InputError, match=r"^budget.groups=0.001: "):
        weights({"a": 0.001, "b": 1})


def test_a_person_whose_records_have_several_budgets_gets_the_smallest():
    x, y, people = np.zeros((6, 2), np.float32), np.zeros(6, np.int64), np.array([1, 1, 2, 2, 3, 3])
    budgets = np.array(["open", "careful", "open", "open", "careful", "careful"])
    none = Split(x[:0], y[:0])
    splits = DataSplits(Records(x, y), none, none, 2, groups=people, budgets=budgets)
    weighed = weigh(splits, shares({"careful": 0.5, "open": 2.0}, Adjacency()), True)
    assert weighed.weights.tolist() == [1, 1, 4, 4, 1, 1]


def test_a_record_that_changes_with_its_group_reaches_no_more_teachers_than_the_larger_weight():
    names, before = keys_of(np.arange(200)), np.random.default_rng(0).integers(1, 6, 200)
    shards = partition(np.zeros(200, int), 31, 7, False, names, before)
    assert sum(map(len, shards)) == before.sum()
    without = partition(np.zeros(200, int), 31, 7, False, names)
    assert all(
        map(
            np.array_equal,
            partition(np.zeros(200, int), 31, 7, False, names, before * 0 + 1),
            without,
        )
    )
    for record, weight in ((3, 1), (50, 5), (99, 2)):
        after = before.copy()
        after[record] = weight
        other = partition(np.zeros(200, int), 31, 7, False, names, after)
        touched = [a for a, b in zip(shards, other, strict=True) if record in a or record in b]
        assert len(touched) <= max(before[record], weight)
        for a, b in zip(
            shards, other, strict=True
        ):  # all others stay where they were, in the same order
            np.testing.assert_array_equal(a[a != record], b[b != record])


RUN = ["student=linear", "rng=system", "trainer.progress=false", "trainer.accelerator=cpu"]
GROUPS = "budget.groups={careful: 0.5, open: 2}"
CELLS = [*RUN, "recipe=near_zero", "queries=6"]
TREES = [*RUN, "teachers=logistic", "teachers.count=60", "queries=10", "aggregator=gnmax"]


def _data(folder):
    rng, y = np.random.default_rng(0), np.arange(300) % 3
    x = (np.eye(3)[y] * 3 + rng.normal(size=(300, 3))).astype(np.float32)
    role = np.where(
        np.arange(300) < 200, "private", np.where(np.arange(300) < 270, "public", "test")
    )
    budget = rng.choice(["careful", "open"], 300)
    np.savez(folder / "own.npz", x=x, y=y, role=role, budget=budget)
    np.savez(folder / "none.npz", x=x, y=y, role=role)
    table = pd.DataFrame(x, columns=["a", "b", "c"]).assign(y=y, whose=budget)
    table[role == "private"].to_csv(folder / "private.csv", index=False)
    table[role == "public"].drop(columns="whose").to_csv(folder / "public.csv", index=False)
    return ["dataset=npz", "dataset.classes=3", "dataset.path=own.npz"]


@pytest.mark.parametrize("kind", ["teachers", "table"])
def test_a_run_states_and_publishes_the_epsilon_of_each_group(nzc: Nzc, tmp_path, kind):
    data = _data(tmp_path)
    if kind == "table":
        data = [
            "dataset=table",
            "dataset.private=private.csv",
            "dataset.public=public.csv",
            "dataset.label=y",
        ]
        data += ["dataset.budget=whose", 'dataset.classes=["0","1","2"]']
    noise = ["aggregator.sigma=null"] if kind == "teachers" else []
    ran = nzc(*data, *(TREES if kind == "teachers" else CELLS), *noise, GROUPS)
    assert ran.code == 0, ran.err
    own = ran.result["individual"]
    assert own["open"] == ran.result["epsilon"]["published"] == pytest.approx(2, rel=1e-3)
    assert (
        own["careful"] == pytest.approx(0.5, rel=1e-9)
        if kind != "teachers"
        else 0.35 < own["careful"] <= 0.5
    )
    publish_run(newest_folder(ran), tmp_path / "published", name="clinic")
    assert json.loads((tmp_path / "published" / "privacy.json").read_text())["individual"] == own
    assert f"| careful | {own['careful']} |" in (tmp_path / "published" / "README.md").read_text()


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ([], "budget.groups=null: "),
        (["budget.groups={careful: 1}"], "budget.groups="),
        (["budget.groups={careful: 1, open: -2}"], "budget.groups.open=-2"),
        ([GROUPS, "budget.epsilon=1"], "budget.epsilon=1"),
        ([GROUPS, "dataset.path=none.npz"], "budget.groups="),
        ([GROUPS, "aggregator.gamma=9"], "budget."),
    ],
)
def test_wrong_budgets_are_refused_before_anything_runs(nzc: Nzc, tmp_path, settings, named):
    ran = nzc(*_data(tmp_path), *CELLS, *settings)
    assert ran.code == 2 and named in ran.err
