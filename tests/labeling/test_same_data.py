"""Which changes of a private file start a new ledger? The table in docs/privacy.md, and how
dataset.name mends it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import VOTES, Nzc

from nzc.data.npz import Npz
from nzc.data.table import Table
from nzc.labeling.ledger import Ledger

ROWS = 60
SWAPPED = [1, 0, *range(2, ROWS)]
ROLE = np.array((["private"] * 40) + (["public"] * 12) + (["test"] * 8))
Arrays = dict[str, np.ndarray]


def _plus_one(arrays: Arrays, rows: np.ndarray) -> Arrays:
    return arrays | {"x": arrays["x"] + rows[:, None].astype(np.float32)}


#: Changes of the private rows of an .npz file: whether the ledger still knows them, and how to make
#: them.
NPZ: dict[str, tuple[bool, Callable[[Arrays], Arrays]]] = {
    "nothing": (True, dict),
    "the file's name, or compression": (True, dict),
    "the order of arrays": (True, lambda arrays: dict(reversed(arrays.items()))),
    "rows of the test split": (True, lambda arrays: _plus_one(arrays, ROLE == "test")),
    "groups, or unit": (True, lambda arrays: arrays | {"group": np.arange(ROWS) // 2}),
    "float64 for float32": (True, lambda arrays: arrays | {"x": arrays["x"].astype(np.float64)}),
    "the order of rows": (
        False,
        lambda arrays: {name: array[SWAPPED] for name, array in arrays.items()},
    ),
    "the order of columns": (False, lambda arrays: arrays | {"x": arrays["x"][:, ::-1]}),
    "a column of zeros": (
        False,
        lambda arrays: arrays | {"x": np.pad(arrays["x"], [(0, 0), (0, 1)])},
    ),
    "a row less": (False, lambda arrays: {name: array[1:] for name, array in arrays.items()}),
    "another target": (False, lambda arrays: arrays | {"y": (arrays["y"] + 1) % 3}),
    "public rows, by which features are scaled": (
        False,
        lambda arrays: _plus_one(arrays, np.arange(ROWS) == 45),
    ),
}
#: The same for a table, whose file identifies it: the change of its rows, and other settings.
TABLE: dict[str, tuple[bool, Callable[[pd.DataFrame], pd.DataFrame], dict[str, Any]]] = {
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
    other = change == "the file's name, or compression"
    save, path = (np.savez_compressed, "other.npz") if other else (np.savez, "data.npz")
    save(path, **NPZ[change][1]({"x": x, "y": np.arange(ROWS) % 3, "role": ROLE}))
    return Npz(path=path, seed=0, private=0.5, public=0.2, classes=3).load().private_digest


def _table(change: str) -> str:
    _, change_rows, settings = TABLE[change]
    numbers = pd.DataFrame(np.random.default_rng(0).normal(size=(ROWS, 2)), columns=["age", "dose"])
    numbers[:12].sample(12, random_state=len(change)).to_csv("public.csv", index=False)
    table = change_rows(numbers.assign(ward=np.arange(ROWS) % 3, dead=np.arange(ROWS) % 2))
    settings = {
        "private": "private.csv",
        "public": "public.csv",
        "label": "ward",
        "drop": ["dead"],
    } | settings
    path = settings["private"]
    table.to_parquet(path) if path.endswith("parquet") else table.to_csv(path, index=False)
    return Table(**settings).load().private_digest


@pytest.mark.parametrize(("make", "changes"), [(_npz, NPZ), (_table, TABLE)])
def test_which_changes_start_a_new_ledger(
    make: Callable[[str], str],
    changes: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    first, page = make("nothing"), (Path(__file__).parents[2] / "docs/privacy.md").read_text()
    listed = {}
    for line in page.partition("| ledger | `dataset=npz` | `dataset=table` |")[2].splitlines()[2:4]:
        kind, *cells = line.strip("| ").split(" | ")
        listed |= dict.fromkeys(cells[changes is TABLE].split("; "), kind == "the same")
    for change, (known, *_) in changes.items():
        assert (make(change) == first) == known, change
    assert listed == {
        change: known for change, (known, *_) in changes.items() if change != "nothing"
    }


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
