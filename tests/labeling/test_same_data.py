"""Which changes of a private file start a new ledger? The table in docs/privacy.md, and how dataset.name mends it."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import VOTES, Nzc

from nzc.data.npz import Npz
from nzc.data.table import Table
from nzc.labeling.ledger import Ledger

ROWS = 60
ROLE = np.array((["private"] * 40) + (["public"] * 12) + (["test"] * 8))
#: Changes of the private rows of an .npz file, and whether the ledger still knows them.
NPZ = {
    "nothing": True,
    "the file's name, or compression": True,
    "the order of arrays": True,
    "rows of the test split": True,
    "groups, or unit": True,
    "float64 for float32": True,
    "the order of rows": False,
    "the order of columns": False,
    "a column of zeros": False,
    "a row less": False,
    "another target": False,
    "public rows, by which features are scaled": False,
}
#: The same for a table, whose file identifies it.
TABLE = {
    "nothing": True,
    "the file's name": True,
    "the public file, or dataset.drop": True,
    "dataset.label: another target": True,
    "the order of rows": False,
    "the order of columns": False,
    "a row less": False,
    "Parquet for CSV": False,
}


def _npz(change: str) -> str:
    rng = np.random.default_rng(0)
    x, y, role = rng.normal(size=(ROWS, 3)).astype(np.float32), np.arange(ROWS) % 3, ROLE.copy()
    extra: dict[str, Any] = {}
    if change == "rows of the test split":
        x[52:] += 1
    if change == "groups, or unit":
        extra["group"] = np.arange(ROWS) // 2
    if change == "the order of rows":
        x[[0, 1]], y[[0, 1]] = x[[1, 0]], y[[1, 0]]
    if change == "the order of columns":
        x = x[:, ::-1]
    if change == "a column of zeros":
        x = np.hstack([x, np.zeros((ROWS, 1), np.float32)])
    if change == "a row less":
        x, y, role = x[1:], y[1:], role[1:]
    if change == "another target":
        y = (y + 1) % 3
    if change == "public rows, by which features are scaled":
        x[45] += 1
    if change == "float64 for float32":
        x = x.astype(np.float64)
    arrays = {"x": x, "y": y, "role": role} | extra
    if change == "the order of arrays":
        arrays = dict(reversed(arrays.items()))
    save, path = np.savez, Path("data.npz")
    if change == "the file's name, or compression":
        save, path = np.savez_compressed, Path("other.npz")
    save(path, **arrays)
    return Npz(path=str(path), seed=0, private=0.5, public=0.2, classes=3).load().private_digest


def _table(change: str) -> str:
    rng = np.random.default_rng(0)
    rows = [[str(value) for value in (*rng.normal(size=2), at % 3, at % 2)] for at in range(40)]
    head, path, label, drop = ["age", "dose", "ward", "dead"], Path("private.csv"), "ward", ["dead"]
    if change == "the file's name":
        path = Path("other.csv")
    if change == "the order of rows":
        rows[0], rows[1] = rows[1], rows[0]
    if change == "the order of columns":
        rows, head = [row[::-1] for row in rows], head[::-1]
    if change == "a row less":
        rows = rows[1:]
    if change == "dataset.label: another target":
        label, drop = "dead", ["ward"]
    with path.open("w") as file:
        csv.writer(file).writerows([head, *rows])
    if change == "Parquet for CSV":
        import pandas as pd

        pd.read_csv(path).to_parquet(path := Path("private.parquet"))
    if change == "the public file, or dataset.drop":
        drop = ["dead", "dose"]
    with Path("public.csv").open("w") as file:
        csv.writer(file).writerows([["age", "dose"], *([*map(str, rng.normal(size=2))] for _ in range(12))])
    table = Table(private=str(path), public="public.csv", label=label, drop=drop)
    return table.load().private_digest


@pytest.mark.parametrize(("make", "changes"), [(_npz, NPZ), (_table, TABLE)])
def test_which_changes_start_a_new_ledger(
    make: Any, changes: dict[str, bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first = make("nothing")
    assert {change: make(change) == first for change in changes} == changes
    table = (Path(__file__).parents[2] / "docs/privacy.md").read_text()
    for change, known in changes.items():
        assert change == "nothing" or f"| {change} | {'the same' if known else 'new'} |" in table, change


def test_a_name_counts_files_together(nzc: Nzc, histograms: Path) -> None:
    """Also entries of a time when the data had no name."""
    other = np.load(histograms)
    other[0] = other[0][::-1]
    np.save("other.npy", other)
    rng = ["rng=system", "aggregator.sigma=40"]

    def released(path: str, *name: str) -> float:
        epsilon = nzc(*VOTES, f"teachers.path={path}", *rng, *name).result["epsilon"]
        return float(epsilon["ledger_released"])

    alone = released("votes.npy")
    assert released("other.npy", "dataset.name=hospital") <= 1.1 * alone
    both = released("votes.npy", "dataset.name=hospital")
    assert both > 1.5 * alone  # two of votes.npy, one of other.npy
    assert released("other.npy") > both
    assert Ledger(".nzc/ledger.db").names().popitem()[1] == {"hospital"}
