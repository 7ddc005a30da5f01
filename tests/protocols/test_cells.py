"""Own cells: a private record counts once, at the nearest asked row; of a group, so many count."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from conftest import parametrize
from few_labels import QUIET
from numpy.random import default_rng
from pytest import raises
from sessions import ledger_of, policy_of
from sklearn.neighbors import KNeighborsClassifier

import nzc
from nzc.data import UNKNOWN, DataSplits, Embedding, Split, Units
from nzc.data.splits import Records
from nzc.privacy.promise import Promise
from nzc.privacy.session import Session
from nzc.protocols import Data
from nzc.protocols.cells import Cells, counts_of
from nzc.protocols.query_selection import QuerySelection
from nzc.teachers import VoteHistograms
from nzc.validation import InputError

CELLS = Cells(per_group=1, seed=3)
ASKED = np.arange(0, 40, 8)


def _splits(private: int) -> tuple[DataSplits, Embedding]:
    """Rows at random places, with labels of three classes; 40 are public."""
    rng = default_rng(0)
    places = rng.normal(size=(private + 40, 3)).astype(np.float32)
    records = Split(np.zeros((private, 1), np.float32), rng.integers(3, size=private))
    public = Split(np.zeros((40, 1), np.float32), np.zeros(40, np.int64))
    return DataSplits(records, public, public, 3), Embedding(places[:-40], places[-40:])


def test_a_cell_counts_its_records_and_nothing_else() -> None:
    splits, embedding = _splits(400)
    asked = embedding.public[ASKED]
    home = KNeighborsClassifier(1).fit(asked, np.arange(5)).predict(embedding.private)
    expected = np.zeros((40, 3))  # rows that nobody asks have no votes
    for cell, row in enumerate(ASKED):
        expected[row] = np.bincount(splits.private.y[home == cell], minlength=3)
    assert np.array_equal(counts_of(splits, embedding, ASKED), expected)


@parametrize("most", [1, 3])
def test_a_changed_group_changes_its_own_counts_only(most: int) -> None:
    """Records of a group are drawn by its name and size, and always as many: all others stay."""
    cells = Cells(per_group=most, seed=3)
    groups = default_rng(0).integers(20, size=90)
    splits = replace(_splits(90)[0], units=Units(groups * 1000))
    numbered = replace(splits, private=Records(np.arange(90)[:, None], splits.private.y))
    chosen = cells.counted(numbered)
    sizes = np.bincount(groups, minlength=20)
    assert len(chosen.private) == most * np.count_nonzero(sizes) == cells.check(splits).voters
    rows = chosen.private.x[chosen.private.y != UNKNOWN, 0]
    assert len(set(rows)) == len(rows)  # no record counts twice
    counted = np.bincount(groups[rows], minlength=20)
    assert np.array_equal(counted, np.minimum(sizes, most))

    group = groups[0]
    remaining = np.flatnonzero((groups != group) | (np.arange(90) == 0))
    private = Records(remaining[:, None], splits.private.y[remaining])
    units = Units(splits.units.groups[remaining])
    left = cells.counted(replace(splits, private=private, units=units))
    others = chosen.units.groups != 1000 * group
    assert np.array_equal(left.units.groups, chosen.units.groups)
    assert np.array_equal(left.private.x[others], chosen.private.x[others])


def test_several_records_a_group_need_groups() -> None:
    splits, _ = _splits(60)
    assert CELLS.counted(splits) is splits
    with raises(InputError, match=r"^per_group=3: "):
        Cells(per_group=3, seed=0).check(splits)


@parametrize("labels_only", [False, True])
def test_sums_of_cells_are_used_only_where_features_are_public(
    labels_only: bool, here: Path
) -> None:
    """A sum tells how many private records are in a cell, unless labels alone are private."""
    splits, embedding = _splits(400)
    splits = replace(splits, labels_only=labels_only)
    policy = policy_of(nzc.Counts(0.5).between(CELLS.adjacency(labels_only)))
    session = Session(Promise.of(policy, [5]), 40, ledger_of(policy))
    counted = VoteHistograms(counts_of(splits, embedding, ASKED), 400)
    session.ask(counted.votes, 400, ASKED)
    task = CELLS.check(splits)
    data = Data(splits, task, QuerySelection("first"), None, QUIET, None, embedding)
    expected = CELLS.totals(counted, data, session).expected
    assert np.array_equal(expected, counted.votes[ASKED].sum(axis=1)) == labels_only
