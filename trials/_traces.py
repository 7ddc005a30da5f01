"""What commands left in the folder of a trial: results, labels, ledger, store and tracked runs."""

import json
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _nzc import TRAINED

from nzc.labeling.ledger import Ledger
from nzc.runs.layout import LABELS, RESULT

#: Keys of result.json that measure time. They may differ between two runs of one seed.
_CLOCKS = ("seconds", "finished")


@dataclass
class Traces:
    """What commands left in their folder.

    results   result.json of every job of the newest command, without times. In a sweep only the last job keeps what
              the ledger adds up: jobs of an interrupted sweep are in the ledger before the first job is run again
    labels    labels.csv of the same jobs
    releases  the rows of the ledger, without times
    draws     how many draws of unfinished runs the ledger holds
    trained   how often each teacher was trained by all commands together
    store     the names of the files in the store
    states    how many tracked runs have which state
    """

    results: list[dict[str, Any]]
    labels: list[str]
    releases: set[tuple[Any, ...]]
    draws: int
    trained: Counter[str]
    store: set[str]
    states: Counter[str]

    def differences(self, other: "Traces", seeded: bool) -> list[str]:
        """Return in words which fields differ. The states of tracked runs are not compared.

        seeded  false: noise is from the operating system, so only the numbers of results and releases are compared
        """
        compared = {name: getattr(self, name) == getattr(other, name) for name in ("draws", "trained", "store")}
        for name in ("results", "labels", "releases"):
            own, others = getattr(self, name), getattr(other, name)
            compared[name] = own == others if seeded else len(own) == len(others)
        return [f"{name} differ" for name, same in compared.items() if not same]


def traces_of(folder: Path) -> Traces:
    """Return what commands left in `folder`."""
    newest = max([*folder.glob("outputs/[0-9]*/*/"), *folder.glob("outputs/sweeps/*/*/")], default=folder / "none")
    paths = sorted(newest.glob(f"**/{RESULT}"))
    results = [result(path) for path in paths]
    for each in results[:-1]:
        del each["epsilon"]["ledger_total"], each["ledger_trials"]
    return Traces(
        results,
        [(path.parent / LABELS).read_text() for path in paths if (path.parent / LABELS).is_file()],
        releases(folder / ".nzc"),
        pending_draws(folder / ".nzc"),
        trained(folder),
        store_files(folder),
        run_states(folder),
    )


def store_files(folder: Path) -> set[str]:
    """Return the names of the files in the store of a trial's folder."""
    return {str(path.relative_to(folder)) for path in folder.glob(".nzc/**/*")}


def result(path: Path) -> dict[str, Any]:
    """Return the content of a result.json without times."""
    return {key: value for key, value in json.loads(path.read_text()).items() if key not in _CLOCKS}


def trained(folder: Path) -> Counter[str]:
    """Return how often each teacher was trained by the commands in this folder."""
    path = folder / TRAINED
    return Counter(path.read_text().split() if path.is_file() else [])


def releases(store: Path) -> set[tuple[Any, ...]]:
    """Return the releases in the ledger of a store, without times."""
    if not (store / "ledger.db").is_file():
        return set()
    entries = Ledger(store / "ledger.db").entries()
    return {(entry.dataset, entry.key, entry.kind, entry.rdp.tobytes(), entry.labels) for entry in entries}


def pending_draws(store: Path) -> int:
    """Return how many draws of unfinished runs the ledger of a store holds."""
    if not (store / "ledger.db").is_file():
        return 0
    with closing(sqlite3.connect(store / "ledger.db")) as connection:
        count: int = connection.execute("SELECT COUNT(*) FROM draws").fetchone()[0]
    return count


def run_states(folder: Path) -> Counter[str]:
    """Return how many runs in the folder's mlflow.db have which state.

    The file is read as a plain SQLite database, because MLflow would change it.
    """
    if not (folder / "mlflow.db").is_file():
        return Counter()
    with closing(sqlite3.connect(folder / "mlflow.db")) as connection:
        try:
            return Counter(state for (state,) in connection.execute("SELECT status FROM runs"))
        except sqlite3.OperationalError:  # the table is not created yet
            return Counter()
