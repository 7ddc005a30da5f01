"""Own cells: a private record counts once, at the asked row that it is nearest to; of a group, so
many count.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from nzc.data import UNKNOWN, DataSplits, Embedding, Split
from nzc.data.splits import Records
from nzc.storage.predictions import PredictionStore
from nzc.teachers.cells import Cells
from nzc.training.trainer import TrainerSettings
from nzc.validation import InputError

TRAINER = TrainerSettings(progress=False)
CELLS, ASKED = Cells(per_group=1, seed=3), np.arange(0, 40, 8)


def _splits(private: int = 400, public: int = 40, seed: int = 0) -> DataSplits:
    rng = np.random.default_rng(seed)
    places = rng.normal(size=(private + public, 3)).astype(np.float32)
    rows = [
        Split(np.zeros((size, 1), np.float32), rng.integers(3, size=size))
        for size in (private, public, 2)
    ]
    return DataSplits(
        *rows, 3, embedding=Embedding(places[:private], places[private:]), asked=ASKED
    )


def _counts(splits: DataSplits, tmp_path: Path) -> np.ndarray:
    counts = CELLS.vote(splits, CELLS.train(splits, PredictionStore(tmp_path), TRAINER)).votes
    assert not np.delete(counts, ASKED, axis=0).any()  # rows that nobody asks have no votes
    return counts[ASKED]


def test_a_cell_counts_its_records_and_nothing_else(tmp_path: Path) -> None:
    splits = _splits()
    assert splits.embedding is not None
    rows = splits.embedding.public[ASKED]
    home = KNeighborsClassifier(1).fit(rows, np.arange(5)).predict(splits.embedding.private)
    expected = [np.bincount(splits.private.y[home == cell], minlength=3) for cell in range(5)]
    assert np.array_equal(_counts(splits, tmp_path), expected)


def test_a_replaced_record_takes_one_count_and_adds_one(tmp_path: Path) -> None:
    rng, splits = np.random.default_rng(1), _splits(private=60)
    before, changed = _counts(splits, tmp_path), set()
    assert splits.embedding is not None
    for _ in range(60):
        places, labels, row = (
            splits.embedding.private.copy(),
            splits.private.y.copy(),
            int(rng.integers(60)),
        )
        places[row], labels[row] = 2 * rng.normal(size=3), rng.integers(3)
        other = replace(
            splits,
            private=Records(splits.private.x, labels),
            embedding=Embedding(places, splits.embedding.public),
        )
        change = _counts(other, tmp_path) - before
        assert change.sum() == 0 and abs(change).sum() in (0, 2)
        changed.add(int(abs(change).any(axis=1).sum()))
    assert {1, 2} <= changed <= {0, 1, 2}


@pytest.mark.parametrize("most", [1, 3])
def test_a_changed_group_changes_its_own_counts_only(most: int) -> None:
    """Records of a group are drawn by its name and size: those of all others stay, and so does the
    number of rows.
    """
    rng, cells = np.random.default_rng(0), Cells(per_group=most, seed=3)
    groups = rng.integers(20, size=90) * 1000
    splits = replace(_splits(90), groups=groups)
    chosen = cells.counted(
        replace(splits, private=Records(np.arange(90)[:, None], splits.private.y))
    )
    names, sizes = np.unique(groups, return_counts=True)
    assert len(chosen.private) == most * len(names) == cells.check(splits).teachers
    known = chosen.private.y != UNKNOWN
    rows = chosen.private.x[known, 0]
    assert (
        len(set(rows.tolist())) == len(rows) == np.minimum(sizes, most).sum()
    )  # no record counts twice
    assert np.array_equal(
        np.bincount(groups[rows] // 1000, minlength=20),
        np.minimum(np.bincount(groups // 1000, minlength=20), most),
    )
    fewer = np.flatnonzero(
        (groups != names[4]) | (np.arange(90) == np.flatnonzero(groups == names[4])[0])
    )
    left = cells.counted(
        replace(
            splits, private=Records(fewer[:, None], splits.private.y[fewer]), groups=groups[fewer]
        )
    )
    same = chosen.groups != names[4]
    assert np.array_equal(left.groups, chosen.groups)
    assert np.array_equal(left.private.x[same], chosen.private.x[same])
    assert np.array_equal(left.private.y[same], chosen.private.y[same])


def test_several_records_a_group_need_groups() -> None:
    splits = _splits()
    assert CELLS.counted(splits) is splits
    with pytest.raises(InputError, match=r"^per_group=3: "):
        Cells(per_group=3, seed=0).check(splits)
