"""nzc store: what is stored and released, and how it is pruned."""

from pathlib import Path

import numpy as np
import pytest
from conftest import Command, parametrize

from nzc.privacy.ledger import Ledger
from nzc.privacy.ledger_entry import LedgerEntry
from nzc.storage.predictions import PredictionStore


@pytest.fixture
def store(tmp_path: Path) -> PredictionStore:
    return PredictionStore(tmp_path / "s")


@pytest.fixture
def listed(store: PredictionStore, command: Command) -> Command:
    """`nzc store --root STORE ARGUMENTS`: exit code, output, errors.

    There are two entries, and releases of three data.
    """
    estimator = {"class": "sklearn.tree.Tree", "max_depth": 3}
    for count in (10, 250):
        request = {"count": count, "data": "feedbeef99", "code": "c0de", "estimator": estimator}
        predictions = np.zeros((count, 100), int)
        store.fetch(request | {"augment": None}, lambda _, found=predictions: found)
    ledger = Ledger(store.root / "ledger.db")
    for dataset in ("d00dad99", "d00f", "bb33"):
        orders = np.array([2.0, 8.0])
        ledger.record(LedgerEntry(dataset, "key", orders, np.array([0.1, 0.4]), b""))
    return lambda *arguments: command("store", "--root", str(store.root), *arguments)


def test_the_listing_shows_what_is_stored_and_released(
    store: PredictionStore, listed: Command
) -> None:
    code, out, err = listed()
    assert (code, err) == (0, "")
    total = 1e3 * Ledger(store.root / "ledger.db").total("d00dad99", 1e-5)
    words = ["feedbeef", "count=250", "Tree(max_depth=3)", "d00dad99"]
    words.append(f"{np.ceil(total) / 1e3:.3f}")  # rounded up
    for word in (*words, *(entry.path.stem for entry in store.entries())):
        assert word in out, word
    store.entries()[0].path.write_bytes(b"no archive")
    assert listed()[0] == 0


def test_prune(store: PredictionStore, listed: Command) -> None:
    """Of a person's own file nothing is removed."""
    own = store.root / "predictions" / "mine.npz"
    own.write_text("a person's own")
    first, second = store.entries()
    assert listed("--all")[0] == 2 and len(store.entries()) == 2
    assert listed("--prune", first.path.stem[:8], "--yes")[0] == 0
    assert [entry.path.stem for entry in store.entries()] == [second.path.stem]
    assert listed("--all", "--yes")[0] == 0 and store.entries() == []
    assert len(Ledger(store.root / "ledger.db").entries()) == 3
    assert own.read_text() == "a person's own"


@parametrize(
    ("arguments", "says"),
    [
        (["--prune", "zz"], "--prune=zz: "),
        (["--forget", "key", "--yes"], "--forget=key: "),
        (["--delta", "2"], "between 0 and 1"),
        (["--root", "/nowhere"], "--root=/nowhere"),
    ],
)
def test_wrong_arguments_end_in_a_line(listed: Command, arguments: list[str], says: str) -> None:
    code, out, err = listed(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1) and says in err
