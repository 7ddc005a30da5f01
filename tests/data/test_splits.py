"""Splits: a changed record moves no other, and labels decide nothing public."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
import pandas as pd
from conftest import parametrize
from numpy.random import default_rng
from numpy.testing import assert_array_equal
from PIL import Image
from pytest import MonkeyPatch, raises
from sklearn.tree import DecisionTreeClassifier

from nzc.data import DataSplits, Split
from nzc.data.digits import Digits
from nzc.data.folder import Folder
from nzc.data.npz import Npz
from nzc.data.splits import SPLITS, Records
from nzc.data.table import Table
from nzc.teachers.sklearn import Sklearn
from nzc.teachers.votes import VoteFile
from nzc.validation import InputError

TEACHERS = Sklearn(count=20, estimator=DecisionTreeClassifier(), seed=0)
SHARES = {"seed": 0, "private": 0.6, "public": 0.2}


@dataclass(frozen=True)
class Record:
    """A record whose value no other has. Two records share a name, and their classes differ; four
    share a group.
    """

    name: str
    group: str
    value: int
    label: int

    @property
    def image(self) -> np.ndarray:
        return np.full((4, 4), 0, np.uint8) + np.array([*divmod(self.value, 256), 0, 0], np.uint8)


RECORDS = [
    Record(f"{n // 2:03d}.png", f"person {n // 4}", n, (n // 2 + n % 2) % 3) for n in range(120)
]
Load = Callable[[list[Record], Path], DataSplits]


def _npz(records: list[Record], home: Path, *arrays: str, unit: Any = None) -> DataSplits:
    table = pd.DataFrame(records)
    named = {"id": table.name.to_numpy(str), "group": table.group.to_numpy(str)}
    x = np.array([record.image for record in records])
    more = {name: named[name] for name in arrays}
    np.savez(home / "f.npz", x=x, y=table.label, **more)
    return Npz(str(home / "f.npz"), **SHARES, classes=3, unit=unit).load()


def _folder(records: list[Record], home: Path) -> DataSplits:
    rmtree(home / "images", ignore_errors=True)
    for record in records:
        path = home / "images" / f"class {record.label}" / record.name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(record.image).save(path)
    return Folder(str(home / "images"), **SHARES, grey=True).load()


def _table(records: list[Record], home: Path, **columns: str) -> DataSplits:
    files = {"private": str(home / "private.csv"), "public": str(home / "public.csv")}
    public = pd.DataFrame({"value": np.arange(200) + 0.5, "name": range(200)})
    pd.DataFrame(records).to_csv(files["private"], index=False)
    public.to_csv(files["public"], index=False)
    drop = sorted({"name", "group"} - {*columns.values()})
    return Table(**files, label="label", drop=drop, classes=["0", "1", "2"], **columns).load()


NAMED = {
    "folder, names that repeat": _folder,
    "npz with id": lambda *at: _npz(*at, "id"),
    "npz with group": lambda *at: _npz(*at, "group"),
    "table with id": partial(_table, id="name"),
    "table with group": partial(_table, group="group"),
}
NUMBERED = {
    "npz": _npz,
    "npz with group, of which ε protects a record": lambda *at: _npz(*at, "group", unit="record"),
    "table": _table,
}
OPERATIONS = ["relabeled", "removed", "renamed"]


def _operated(operation: str, at: int) -> list[Record]:
    """Return the records, one of which was changed."""
    record = RECORDS[at]
    new = {
        "changed": [replace(record, value=record.value + 1000)],
        "relabeled": [replace(record, label=3 - _classes_of_name(at))],
        "removed": [],
        "renamed": [replace(record, name=f"new {at}.png", group=f"new {at}")],
    }
    return [*RECORDS[:at], *new[operation], *RECORDS[at + 1 :]]


def _classes_of_name(at: int) -> int:
    """Return the sum of the classes of the two records of this name; 3 less it is the class without
    such a file.
    """
    return RECORDS[at // 2 * 2].label + RECORDS[at // 2 * 2 + 1].label


def _moves(before: DataSplits, after: DataSplits) -> tuple[int, int]:
    """Return how many teachers have other records, in another order too, and how many rows are in
    another split.

    A row that is in one of the datasets only is not counted.
    """
    shards, splits = [], []
    for data in (before, after):
        shards.append([_rows(data.private, shard) for shard in TEACHERS.shards(data)])
        split_of = {}
        for name in SPLITS:
            split_of |= dict.fromkeys(_values(getattr(data, name)), name)
        splits.append(split_of)
    teachers = sum(one != other for one, other in zip(*shards, strict=True))
    return teachers, sum(splits[0][x] != splits[1][x] for x in splits[0].keys() & splits[1].keys())


def _values(split: Split) -> list[bytes]:
    return [*map(bytes, split.x[:])]


def _rows(split: Split, rows: np.ndarray) -> list[tuple[bytes, int]]:
    return list(zip(map(bytes, split.x[rows]), split.y[rows].tolist(), strict=True))


def _figures(load: Load, operation: str, home: Path) -> tuple[int, int]:
    """Return the most teachers and the most other records that move, over two private records."""
    before = load(RECORDS, home)
    private = {*_values(before.private)}
    figures = []
    for at in range(0, len(RECORDS), 11):
        changed = load(_operated("changed", at), home)
        if {*_values(changed.private)} != private:
            after = changed
            if operation != "changed":
                after = load(_operated(operation, at), home)
            figures.append(_moves(before, after))
        if len(figures) == 2:
            break
    teachers, records = np.max(figures, axis=0)
    if operation == "renamed":  # a record that is renamed may change split itself
        records = max(0, records - 1)
    return teachers, records


@parametrize("operation", OPERATIONS)
@parametrize("kind", NAMED)
def test_a_record_with_a_name_moves_no_other(kind: str, operation: str, tmp_path: Path) -> None:
    teachers, records = _figures(NAMED[kind], operation, tmp_path)
    assert records == 0
    assert 1 <= teachers <= (2 if operation == "renamed" else 1)


@parametrize("operation", ["changed", "relabeled", "renamed"])
@parametrize("kind", NUMBERED)
def test_a_record_known_by_its_row_number_moves_no_other(
    kind: str, operation: str, tmp_path: Path
) -> None:
    teachers, records = _figures(NUMBERED[kind], operation, tmp_path)
    assert records == 0
    assert (operation != "renamed") <= teachers <= 1  # its group may decide its split


def test_a_removed_row_renames_all_later_rows(tmp_path: Path) -> None:
    """What an `id` mends; it shows that the test above can fail."""
    assert min(_figures(_npz, "removed", tmp_path)) > 10


def test_labels_decide_nothing_public(monkeypatch: MonkeyPatch) -> None:
    """Where labels alone are private: neither they, nor an order of rows that follows from them,
    change the pool.
    """
    monkeypatch.setattr("nzc.data.splits._POOL", 500)
    splits, rng = Digits(0, 300, 400, unit="label").read(), default_rng(0)
    assert splits.labels_only and len(splits.pool) == 500
    assert_array_equal(splits.pool[:400], splits.public.x)
    assert_array_equal(splits.pool[400:], splits.private.x[splits.joined])
    assert splits.summary["features"] == 100
    order = rng.permutation(300)
    other = replace(splits, private=Records(splits.private.x[order], rng.integers(0, 10, 300)))
    assert (other.pool == splits.pool).all()
    plain = Digits(0, 300, 400).read()
    assert plain.pool is plain.public.x
    assert splits.unit == "label"
    assert "nothing protects" in splits.neighbours
    with raises(InputError, match=r"^path="):
        VoteFile("votes.npy").check(splits)
