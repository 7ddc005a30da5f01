"""Which changes of a private file start a new ledger? The table in docs/privacy.md, and how
dataset.name mends it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from conftest import VOTES, Nzc, parametrize

from nzc.data.npz import Npz
from nzc.data.table import Table
from nzc.privacy.ledger import Ledger

ROWS = 60
NUMBERS = np.arange(ROWS)
SWAPPED = [1, 0, *range(2, ROWS)]
ROLE = np.repeat(["private", "public", "test"], [40, 12, 8])
COLUMNS = ["age", "dose"]
Arrays = dict[str, np.ndarray]


def _plus_one(arrays: Arrays, rows: np.ndarray) -> Arrays:
    return arrays | {"x": arrays["x"] + rows[:, None].astype(np.float32)}


def _rows(arrays: Arrays, rows: Any) -> Arrays:
    return {name: array[rows] for name, array in arrays.items()}


#: Changes of the private rows of an .npz file: whether the ledger still knows them, and how to make
#: them.
NPZ = {
    "nothing": (True, dict),
    "the file's name, or compression": (True, dict),
    "the order of arrays": (True, lambda arrays: dict(reversed(arrays.items()))),
    "rows of the test split": (True, lambda arrays: _plus_one(arrays, ROLE == "test")),
    "groups, or unit": (True, lambda arrays: arrays | {"group": NUMBERS // 2}),
    "float64 for float32": (True, lambda arrays: arrays | {"x": arrays["x"].astype(np.float64)}),
    "the order of rows": (False, lambda arrays: _rows(arrays, SWAPPED)),
    "the order of columns": (False, lambda arrays: arrays | {"x": arrays["x"][:, ::-1]}),
    "a column of zeros": (False, lambda arrays: arrays | {"x": np.c_[arrays["x"], 0.0 * NUMBERS]}),
    "a row less": (False, lambda arrays: _rows(arrays, slice(1, None))),
    "another target": (False, lambda arrays: arrays | {"y": (arrays["y"] + 1) % 3}),
    "public rows, by which features are scaled": (
        False,
        lambda arrays: _plus_one(arrays, NUMBERS == 45),
    ),
}
#: The same for a table, whose file identifies it: the change of its rows, and other settings.
TABLE = {
    "nothing": (True, pd.DataFrame, {}),
    "the file's name": (True, pd.DataFrame, {"private": "other.csv"}),
    "the public file, or dataset.drop": (True, pd.DataFrame, {"drop": ["dead", "dose"]}),
    "dataset.label: another target": (True, pd.DataFrame, {"label": "dead", "drop": ["ward"]}),
    "the order of rows": (False, lambda table: table.iloc[SWAPPED], {}),
    "the order of columns": (False, lambda table: table[table.columns[::-1]], {}),
    "a row less": (False, lambda table: table[1:], {}),
    "Parquet for CSV": (False, pd.DataFrame, {"private": "private.parquet"}),
}


def _npz(change: str) -> str:
    x = np.random.default_rng(0).normal(size=(ROWS, 3)).astype(np.float32)
    arrays = NPZ[change][1]({"x": x, "y": NUMBERS % 3, "role": ROLE})
    if change == "the file's name, or compression":
        path = "other.npz"
        np.savez_compressed(path, **arrays)
    else:
        path = "data.npz"
        np.savez(path, **arrays)
    return Npz(path=path, seed=0, private=0.5, public=0.2, classes=3).load().private_digest


def _table(change: str) -> str:
    _, changed, settings = TABLE[change]
    numbers = pd.DataFrame(np.random.default_rng(0).normal(size=(ROWS, 2)), columns=COLUMNS)
    numbers[:12].sample(12, random_state=len(change)).to_csv("public.csv", index=False)
    table = changed(numbers.assign(ward=NUMBERS % 3, dead=NUMBERS % 2))
    path = settings.get("private", "private.csv")
    if path.endswith("parquet"):
        table.to_parquet(path)
    else:
        table.to_csv(path, index=False)
    usual = {"private": path, "public": "public.csv", "label": "ward", "drop": ["dead"]}
    return Table(**(usual | settings)).load().private_digest


@parametrize(("make", "changes"), [(_npz, NPZ), (_table, TABLE)])
def test_which_changes_start_a_new_ledger(
    make: Callable[[str], str], changes: dict[str, Any], here: Path
) -> None:
    page = (Path(__file__).parents[2] / "docs/privacy.md").read_text()
    header = "| ledger | `dataset=npz` | `dataset=table` |"
    listed = {}
    for line in page.partition(header)[2].splitlines()[2:4]:
        kind, *cells = line.strip("| ").split(" | ")
        listed |= dict.fromkeys(cells[changes is TABLE].split("; "), kind == "the same")
    first = make("nothing")
    for change, (known, *_) in changes.items():
        assert (make(change) == first) == known, change
    listed["nothing"] = True
    assert listed == {change: known for change, (known, *_) in changes.items()}


def test_a_name_counts_files_together(nzc: Nzc, histograms: Path) -> None:
    """Also entries of a time when the data had no name."""
    other = np.load(histograms)
    other[0] = other[0][::-1]
    np.save("other.npy", other)

    def total(path: str, seed: int, *name: str) -> float:
        ran = nzc(*VOTES, f"teachers.path={path}", f"seed={seed}", "aggregator.sigma=40", *name)
        return float(ran.result["epsilon"]["ledger_total"])

    alone = total("votes.npy", 1)
    assert total("other.npy", 2, "dataset.name=hospital") <= 1.1 * alone
    both = total("votes.npy", 3, "dataset.name=hospital")
    assert both > 1.5 * alone  # two of votes.npy, one of other.npy
    assert total("other.npy", 4) > both
    assert Ledger(".nzc/ledger.db").names().popitem()[1] == {"hospital"}
