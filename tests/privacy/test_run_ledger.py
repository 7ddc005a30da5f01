"""The ledger of runs: which releases it adds, and which data it takes for the same."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import FILE, VOTES, Command, RunNzc, newest_folder, parametrize
from pytest import MonkeyPatch

from nzc.data.npz import Npz
from nzc.data.table import Table
from nzc.privacy.ledger import Ledger
from nzc.runs.result import RunResult

pytestmark = pytest.mark.usefixtures("histograms")


def test_the_ledger_adds_releases_and_knows_repeats(run_nzc: RunNzc) -> None:
    def total(*arguments: str) -> float:
        return run_nzc(*FILE, *arguments).result["epsilon"]["ledger_total"]

    np.save("votes.npy", np.load("votes.npy")[:10])
    once = total("aggregator=gumbel")
    assert total("aggregator=gumbel") == once
    assert once < total("aggregator=gumbel", "seed=1") < 2 * once
    assert total("aggregator=gumbel", "paths.store=elsewhere") == once
    np.save("votes.npy", np.array([[25, 25]]))  # another dataset, with a tie
    assert total("aggregator=gumbel") < once
    assert total("aggregator=plurality") == "inf"


def test_trials_do_not_count_as_releases(run_nzc: RunNzc, command: Command) -> None:
    def run(gamma: float, *arguments: str) -> dict[str, float]:
        ran = run_nzc(
            *FILE, "aggregator=lnmax", f"aggregator.gamma={gamma}", "queries=10", *arguments
        )
        costs = ran.result["epsilon"]
        assert costs["exact"] <= costs["ledger_released"] <= costs["ledger_total"]
        return costs | {"trials": ran.result["ledger_trials"]}

    first = run(0.1)
    costly = run(0.5)
    again = run(0.1)
    sanitised = run(0.1, "rng=system", "bound=sanitised", "dataset.name=p")
    assert first["ledger_released"] == first["ledger_total"] == again["ledger_released"]
    assert first["ledger_total"] < costly["ledger_released"] < costly["ledger_total"]
    assert again["ledger_total"] == costly["ledger_total"]
    assert first["ledger_released"] < sanitised["ledger_released"] < sanitised["ledger_total"]
    trials = [costs["trials"] for costs in (first, costly, again, sanitised)]
    assert trials == [0, 1, 1, 2]

    assert command("store", "--forget")[0] == 2
    assert command("store", "--forget", "--yes")[0] == 0
    assert "forgot 0 trials" in command("store", "--forget", "--yes")[1]
    after = run(0.1)
    assert after["ledger_released"] == after["ledger_total"] > sanitised["ledger_released"]
    assert after["trials"] == 0


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


def test_a_name_counts_files_together(run_nzc: RunNzc, histograms: Path) -> None:
    """Also entries of a time when the data had no name."""
    other = np.load(histograms)
    other[0] = other[0][::-1]
    np.save("other.npy", other)

    def total(path: str, seed: int, *name: str) -> float:
        ran = run_nzc(*VOTES, f"teachers.path={path}", f"seed={seed}", "aggregator.sigma=40", *name)
        return float(ran.result["epsilon"]["ledger_total"])

    alone = total("votes.npy", 1)
    assert total("other.npy", 2, "dataset.name=hospital") <= 1.1 * alone
    both = total("votes.npy", 3, "dataset.name=hospital")
    assert both > 1.5 * alone  # two of votes.npy, one of other.npy
    assert total("other.npy", 4) > both
    assert Ledger(".nzc/ledger.db").names().popitem()[1] == {"hospital"}


def _releases() -> list[bytes]:
    return [entry.labels for entry in Ledger(Path(".nzc/ledger.db")).entries()]


def test_two_runs_with_noise_of_the_system_are_two_releases(
    run_nzc: RunNzc, histograms: Path
) -> None:
    """And a seeded one is a third."""
    labels = []
    for rng in ("system", "system", "seeded"):
        ran = run_nzc(*FILE, f"rng={rng}", "aggregator.sigma=40", "dataset.name=p")
        assert ran.result["rng"] == rng
        labels.append((newest_folder(ran) / "labels.csv").read_text())
    assert len(set(labels)) == len(set(_releases())) == len(_releases()) == 3


def test_a_run_that_was_killed_goes_on_with_the_noise_it_had(
    run_nzc: RunNzc, histograms: Path, monkeypatch: MonkeyPatch
) -> None:
    command = [*FILE, "rng=system", "aggregator.sigma=40", "budget.epsilon=0.5"]
    command.append("dataset.name=people")

    with monkeypatch.context() as broken:
        broken.setattr(RunResult, "write", lambda *_: signal.raise_signal(signal.SIGTERM))
        stopped = run_nzc(*command, code=130)
    first = (newest_folder(stopped) / "labels.csv").read_text()
    again = newest_folder(run_nzc(*command))
    assert (again / "labels.csv").read_text() == first
    assert len(_releases()) == 1
