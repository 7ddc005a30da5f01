"""The ledger: is every release counted once, whatever runs at the same time and whenever it is
killed?
"""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import parametrize
from pytest import approx, raises
from sessions import release

from nzc.accounting.rdp import CHOICES, ORDERS, adaptive_epsilon, to_epsilon
from nzc.privacy.ledger import Ledger
from nzc.privacy.ledger_entry import RELEASE, TRIAL, LedgerEntry
from nzc.privacy.run_ledger import RunLedger
from nzc.validation import InputError

DELTA = 1e-5
#: ε of three releases that cost 0.01 α each.
THREE = adaptive_epsilon(0.03 * CHOICES, DELTA)
NEVER = raises(InputError, match="a release is never forgotten")
WRITER = """
import sys
import numpy as np
from nzc.privacy.ledger import Ledger
from nzc.privacy.ledger_entry import LedgerEntry
path, worker, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rng, orders = np.random.default_rng(worker), np.array([2.0, 8.0])
for _ in range(count):
    key = int(rng.integers(0, 60))
    mine = LedgerEntry("d", str(key), orders, orders * (key + 1), f"{worker}".encode() * 50_000)
    stored = Ledger(path).record(mine)
    assert stored.key == str(key) and len(set(stored.labels)) == 1 and len(stored.labels) == 50_000
    print(key, flush=True)
"""


def trial(key: str = "a", **fields: Any) -> LedgerEntry:
    return release(key, kind=TRIAL, **fields)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "store" / "ledger.sqlite")


def writer(path: Path, worker: int, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), str(worker), str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run_ledger(ledger: Ledger, dataset: str, *own: LedgerEntry) -> RunLedger:
    entries = {entry.key: entry for entry in own}
    return RunLedger(ledger.path, dataset, None, "seeded", 0, 1, "one differs", entries=entries)


def keys(entries: list[LedgerEntry]) -> list[str]:
    return [entry.key for entry in entries]


def test_what_is_recorded_is_what_is_returned(ledger: Ledger) -> None:
    orders = np.array([1.5, 2.0, 40.0])
    rdp = np.array([0.1, 0.25, np.inf])
    given = LedgerEntry("d", "k", orders, rdp, bytes(range(256)), "NZC", {"c": 1e100})
    for stored in (ledger.record(given), *ledger.entries(), *ledger.entries("d")):
        assert (stored.orders == orders).all() and (stored.rdp == rdp).all() and stored.recorded
        about = (stored.labels, stored.description, stored.facts)
        assert about == (given.labels, "NZC", {"c": 1e100})
    assert ledger.entries("other") == []


def test_a_repeated_release_has_first_labels_and_larger_cost(ledger: Ledger) -> None:
    ledger.record(release(cost=0.5, labels=b"first"))
    for cost, larger in ((0.4, 0.5), (0.7, 0.7), (0.5, 0.7)):
        returned = ledger.record(release(cost=cost, labels=b"second"))
        for stored in (returned, *ledger.entries("digest")):
            assert stored.labels == b"first" and (stored.rdp == larger * ORDERS).all()
    fewer = ledger.record(release(cost=0.1, orders=ORDERS[:3]))
    assert (fewer.rdp[:3] == 0.7 * ORDERS[:3]).all()


def test_total_is_the_composition_of_distinct_releases(ledger: Ledger) -> None:
    for key in "abc":
        ledger.record(release(key))
    ledger.record(release("z", cost=9.0, dataset="another"))
    assert ledger.total("digest", DELTA) == approx(THREE, rel=0.02)
    alone = to_epsilon(lambda orders: 9.0 * orders, DELTA)[0]  # on its own orders
    assert ledger.total("another", DELTA) == approx(alone, rel=5e-3)
    assert ledger.total("nothing", DELTA) == 0.0
    ledger.record(release("nzc", cost=np.inf))
    assert ledger.total("digest", DELTA) == np.inf


def test_a_release_is_never_forgotten(ledger: Ledger) -> None:
    """Whatever else is recorded under its key, and whichever trials are to be forgotten with it."""
    first = ledger.record(release("a"))
    assert ledger.record(trial("a")).kind == RELEASE
    tried = ledger.record(trial("b"))
    for chosen in ([first], [tried, first], [trial("a")], [trial("nothing")]):
        with NEVER:
            ledger.forget(chosen)
        assert keys(ledger.entries()) == ["a", "b"]
    assert ledger.record(release("b")).kind == RELEASE  # its labels were passed on
    with NEVER:
        ledger.forget([tried])


def test_a_forgotten_trial_changes_no_total_of_releases(ledger: Ledger) -> None:
    for key in "ab":
        ledger.record(release(key))
    trials = [ledger.record(trial(key, cost=cost)) for key, cost in (("c", 0.1), ("d", np.inf))]
    released = ledger.total("digest", DELTA, RELEASE)
    assert np.isinf(ledger.total("digest", DELTA))
    ledger.forget(trials[1:])
    assert released < ledger.total("digest", DELTA) < np.inf
    ledger.forget(trials[:1])
    assert released == ledger.total("digest", DELTA) == ledger.total("digest", DELTA, RELEASE)
    assert keys(ledger.entries()) == ["a", "b"]


def test_what_a_run_recorded_counts_even_if_someone_forgot_it(ledger: Ledger) -> None:
    own, other = (ledger.record(trial(key)) for key in "ab")
    ledger.forget([own])
    counted, trials = run_ledger(ledger, "digest", own).split()
    assert keys(counted) == ["a"]
    assert keys(trials) == [other.key]


def test_processes_lose_nothing_and_double_nothing(ledger: Ledger) -> None:
    ledger.path.unlink()  # they make it, too
    writers = [writer(ledger.path, worker, 20) for worker in range(2)]
    outputs = [process.communicate(timeout=120) for process in writers]
    assert [process.returncode for process in writers] == [0] * 2, outputs
    stored = ledger.entries("d")
    written = {key for out, _ in outputs for key in out.split()}
    assert sorted(written) == sorted(keys(stored))
    assert all((entry.rdp == entry.orders * (int(entry.key) + 1)).all() for entry in stored)


def test_a_kill_loses_nothing_that_was_confirmed(ledger: Ledger) -> None:
    with writer(ledger.path, 7, 10_000) as process:
        first = process.stdout.readline()
        time.sleep(0.05)
        os.kill(process.pid, signal.SIGKILL)
        # Not communicate(): it reads behind what readline() has buffered.
        confirmed = {first.strip(), *process.stdout.read().split()} - {""}
    stored = {got.key: got for got in Ledger(ledger.path).entries("d")}
    assert confirmed <= set(stored) and len(stored) <= len(confirmed) + 1
    assert all(got.labels == b"7" * 50_000 for got in stored.values())
    Ledger(ledger.path).record(release())
    journal = ledger.path.with_name("ledger.sqlite-journal")
    # It stays, without a transaction to undo: NFS needs that.
    assert journal.read_bytes()[:8] == bytes(8)


@parametrize(
    "content", [b"not a database" * 100, b"SQLite format 3\x00" + b"\xff" * 5000, b"", None]
)
def test_a_damaged_or_empty_file_is_no_new_ledger(tmp_path: Path, content: bytes | None) -> None:
    """Nor is a database of another program."""
    path = tmp_path / "ledger.sqlite"
    if content is None:
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE releases (x)")
    else:
        path.write_bytes(content)
    before = path.read_bytes()
    with raises(InputError, match=r"ledger=.*ledger\.sqlite: must be a whole ledger"):
        Ledger(path)
    assert path.read_bytes() == before


def test_a_lost_ledger_is_no_new_one_and_a_locked_one_times_out(
    ledger: Ledger,
) -> None:
    with sqlite3.connect(ledger.path, isolation_level=None) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        with raises(RuntimeError, match=r"the ledger .* locked"):
            Ledger(ledger.path, wait=0.2)
    ledger.path.unlink()
    with raises(RuntimeError, match="unable to open"):
        ledger.record(release())
    assert not ledger.path.exists()


def test_datasets_of_one_name_count_together(ledger: Ledger) -> None:
    """Also through a third dataset that has both names."""
    for key, dataset in enumerate(("old", "new", "bridge", "apart")):
        ledger.record(release(str(key), dataset=dataset))
    alone = ledger.total("old", DELTA)
    ledger.name("old", "hospital")
    ledger.name("new", "clinic")
    assert ledger.counted_with("old") == {"old"} and ledger.total("new", DELTA) == alone
    for name in ("hospital", "clinic"):
        ledger.name("bridge", name)
    assert ledger.counted_with("new") == {"old", "new", "bridge"}
    assert ledger.total("old", DELTA) == approx(THREE, rel=0.02)
    assert ledger.total("apart", DELTA) == alone
    counted, _ = run_ledger(ledger, "new", ledger.entries("new")[1]).split()
    assert sorted(entry.dataset for entry in counted) == ["bridge", "new", "old"]
