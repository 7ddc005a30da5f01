"""The ledger: is every release counted once, whatever runs at the same time and whenever it is
killed?
"""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from nzc.accounting.data_independent import gaussian
from nzc.accounting.rdp import CHOICES, ORDERS, adaptive_epsilon, to_epsilon
from nzc.labeling.ledger import Ledger
from nzc.labeling.ledger_entry import RELEASE, TRIAL, LedgerEntry
from nzc.labeling.run_ledger import RunLedger
from nzc.validation import InputError

DELTA = 1e-5
NEVER = pytest.raises(InputError, match="a release is never forgotten")
WRITER = """
import sys
import numpy as np
from nzc.labeling.ledger import Ledger
from nzc.labeling.ledger_entry import LedgerEntry
path, worker, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rng, orders = np.random.default_rng(worker), np.array([2.0, 8.0])
for _ in range(count):
    key = int(rng.integers(0, 60))
    mine = LedgerEntry("d", str(key), orders, orders * (key + 1), f"{worker}".encode() * 50_000)
    stored = Ledger(path).record(mine)
    assert stored.key == str(key) and len(set(stored.labels)) == 1 and len(stored.labels) == 50_000
    print(key, flush=True)
"""


def release(key="a", cost=0.01, labels=b"labels", dataset="digest", orders=ORDERS, kind=RELEASE):
    return LedgerEntry(
        dataset, key, orders, cost * orders, labels, "GNMax", {"queries": 10}, kind=kind
    )


def write_as_before(path, *entries):
    """Write a file as it was before entries had a kind."""
    columns = ("dataset TEXT", "key TEXT", "recorded TEXT", "description TEXT", "facts TEXT", "orders BLOB", "rdp BLOB",
               "leak REAL", "labels BLOB")  # fmt: skip
    with sqlite3.connect(path) as connection:
        declared = "".join(f"{column} NOT NULL, " for column in columns)
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS releases ({declared} PRIMARY KEY (dataset, key)) STRICT"
        )
        for entry in entries:
            orders, rdp = entry.orders.astype("<f8").tobytes(), entry.rdp.astype("<f8").tobytes()
            values = (
                entry.dataset,
                entry.key,
                "2026-01-01",
                entry.description,
                "{}",
                orders,
                rdp,
                0.0,
                entry.labels,
            )
            names = ", ".join(column.split()[0] for column in columns)
            connection.execute(
                f"INSERT INTO releases ({names}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values
            )


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "store" / "ledger.sqlite")


def writer(path, worker, count):
    command = [sys.executable, "-c", WRITER, str(path), str(worker), str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run_ledger(ledger, dataset, *own):
    entries = {entry.key: entry for entry in own}
    return RunLedger(ledger.path, dataset, None, "seeded", 0, 1, "one differs", entries=entries)


@pytest.mark.parametrize(
    ("cost", "delta"), [(0.0, 1e-5), (1e-12, 1e-12), (1e-9, 1e-5), (1e-5, 1e-12)]
)
def test_a_release_that_costs_next_to_nothing_has_no_more_in_the_ledger(ledger, cost, delta):
    """Between what Gaussian noise of that cost needs, and the optimum of ρα + log(1/δ)/(α − 1) over
    all orders.
    """
    ledger.record(release(cost=cost))
    total = ledger.total("digest", delta)
    assert (
        gaussian(np.sqrt(2 * cost), delta)
        <= total
        <= 1.01 * (cost + 2 * np.sqrt(cost * -np.log(delta))) + 1e-5
    )


def test_what_is_recorded_is_what_is_returned(ledger):
    orders = np.array([1.5, 2.0, 40.0])
    given = LedgerEntry(
        "d", "k", orders, np.array([0.1, 0.25, np.inf]), bytes(range(256)), "NZC", {"c": 1e100}
    )
    for got in (ledger.record(given), ledger.entries()[0], ledger.entries("d")[0]):
        assert (got.orders == orders).all() and (got.rdp == given.rdp).all() and got.recorded
        assert (got.labels, got.description, got.facts) == (given.labels, "NZC", {"c": 1e100})
    assert ledger.entries("other") == []


def test_a_repeated_release_has_its_first_labels_and_the_larger_cost(ledger):
    ledger.record(release("a", 0.5, labels=b"first"))
    for cost, kept in ((0.4, 0.5), (0.7, 0.7), (0.5, 0.7)):
        for stored in (
            ledger.record(release("a", cost, labels=b"second")),
            *ledger.entries("digest"),
        ):
            assert stored.labels == b"first" and (stored.rdp == release("a", kept).rdp).all()
    assert (
        ledger.record(release("a", 0.1, orders=ORDERS[:3])).rdp[:3] == release("a", 0.7).rdp[:3]
    ).all()


def test_total_is_the_composition_of_all_distinct_releases_of_the_dataset(ledger):
    for key in "abc":
        ledger.record(release(key))
    ledger.record(release("z", cost=9.0, dataset="another"))
    assert ledger.total("digest", DELTA) == pytest.approx(
        adaptive_epsilon(0.03 * CHOICES, DELTA), rel=0.02
    )
    alone = to_epsilon(lambda orders: 9.0 * orders, DELTA)[0]  # on its own orders
    assert ledger.total("another", DELTA) == pytest.approx(alone, rel=5e-3)
    assert ledger.total("nothing", DELTA) == 0.0
    ledger.record(release("nzc", cost=np.inf))
    assert ledger.total("digest", DELTA) == np.inf


def test_costs_between_different_neighbours_have_no_sum(ledger):
    """Of patients and of wards, of labels and of records, and where it was not recorded what a cost
    compares.
    """
    kinds = ("one patient differs", "one ward differs", "one label differs", None)
    for dataset, first in enumerate(kinds):
        for second, other in enumerate(kinds):
            for key, neighbours in (("a", first), ("b", other)):
                facts = None if neighbours is None else {"neighbours": neighbours}
                ledger.record(replace(release(key, dataset=f"{dataset}{second}"), facts=facts))
            assert np.isinf(ledger.total(f"{dataset}{second}", DELTA)) == (first != other)
            assert ledger.total(f"{dataset}{second}", DELTA) > 0


def test_releases_on_other_orders_are_rounded_up(ledger):
    """Never below the true composition, which is known here: both are Gaussian."""
    ledger.record(release("a", orders=np.arange(2.0, 64.0, 3)))
    ledger.record(release("b", orders=np.geomspace(1.1, 50, 40)))
    exact = to_epsilon(lambda a: 0.02 * a, DELTA)[0]
    assert exact <= ledger.total("digest", DELTA) < 1.3 * exact


def test_a_release_is_never_forgotten(ledger):
    """Whatever else is recorded under its key, and whichever trials are to be forgotten with it."""
    first = ledger.record(release("a"))
    assert ledger.record(release("a", kind=TRIAL)).kind == RELEASE
    tried = ledger.record(release("b", kind=TRIAL))
    for chosen in (
        [first],
        [tried, first],
        [release("a", kind=TRIAL)],
        [release("nothing", kind=TRIAL)],
    ):
        with NEVER:
            ledger.forget(chosen)
        assert [entry.key for entry in ledger.entries()] == ["a", "b"]
    assert ledger.record(release("b")).kind == RELEASE  # its labels were passed on
    with NEVER:
        ledger.forget([tried])


@pytest.mark.parametrize("seed", range(2))
def test_a_forgotten_trial_changes_no_total_of_releases(ledger, seed):
    rng = np.random.default_rng(seed)
    kinds = [RELEASE, TRIAL, *rng.choice([RELEASE, TRIAL], 6)]
    for key, kind in enumerate(kinds):
        ledger.record(
            release(
                str(key), cost=rng.choice([1e-3, 0.1, np.inf], p=[0.6, 0.3, 0.1]), kind=str(kind)
            )
        )
    trials = [entry for entry in ledger.entries() if entry.kind == TRIAL]
    released, everything = ledger.total("digest", DELTA, RELEASE), ledger.total("digest", DELTA)
    assert released <= everything
    forgotten = [trial for trial in trials if rng.random() < 0.5]
    ledger.forget(forgotten)
    assert (
        ledger.total("digest", DELTA, RELEASE)
        == released
        <= ledger.total("digest", DELTA)
        <= everything
    )
    assert len(ledger.entries()) == len(kinds) - len(forgotten)
    ledger.forget(trial for trial in trials if trial not in forgotten)
    assert ledger.total("digest", DELTA) == released and ledger.total("digest", DELTA, TRIAL) == 0


def test_what_a_run_recorded_counts_even_if_someone_forgot_it(ledger):
    own, other = (ledger.record(release(key, kind=TRIAL)) for key in "ab")
    ledger.forget([own])
    counted, trials = run_ledger(ledger, "digest", own).split()
    assert [entry.key for entry in counted] == ["a"] and [entry.key for entry in trials] == [
        other.key
    ]


def test_an_old_ledger_keeps_its_total(tmp_path):
    path = tmp_path / "ledger.db"
    write_as_before(path, *(release(key) for key in "abc"))
    ledger, expected = Ledger(path), adaptive_epsilon(0.03 * CHOICES, DELTA)
    assert (
        ledger.total("digest", DELTA, RELEASE)
        == ledger.total("digest", DELTA)
        >= expected * (1 - 1e-12)
    )
    assert {(entry.key, entry.labels) for entry in ledger.entries()} == {
        (key, b"labels") for key in "abc"
    }
    write_as_before(path, release("d"))  # an older version may still use the file
    assert ledger.total("digest", DELTA, RELEASE) > expected
    with NEVER:
        ledger.forget([release("d", kind=TRIAL)])
    assert (
        ledger.record(release("d", kind=TRIAL)).kind == TRIAL
    )  # the same key: its noise had this seed
    assert (
        ledger.record(release("c")).kind == ledger.record(release("c", kind=TRIAL)).kind == RELEASE
    )
    assert (
        ledger.total("digest", DELTA)
        > expected
        >= ledger.total("digest", DELTA, RELEASE) * (1 - 1e-12)
    )


def test_processes_lose_nothing_and_double_nothing(ledger):
    ledger.path.unlink()  # they make it, too
    writers = [writer(ledger.path, worker, 30) for worker in range(3)]
    outputs = [process.communicate(timeout=120) for process in writers]
    assert [process.returncode for process in writers] == [0] * 3, outputs
    stored = ledger.entries("d")
    assert sorted({line for out, _ in outputs for line in out.split()}) == sorted(
        got.key for got in stored
    )
    assert all((got.rdp == got.orders * (int(got.key) + 1)).all() for got in stored)


def test_a_kill_loses_nothing_that_was_confirmed(ledger):
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
    journal = ledger.path.with_name(
        "ledger.sqlite-journal"
    )  # it stays, without a transaction to undo: NFS needs that
    assert journal.read_bytes()[:8] == bytes(8)


@pytest.mark.parametrize(
    "content", [b"not a database" * 100, b"SQLite format 3\x00" + b"\xff" * 5000, b"", None]
)
def test_a_damaged_or_empty_file_is_no_new_ledger(tmp_path, content):
    """Nor is a database of another program."""
    path = tmp_path / "ledger.sqlite"
    if content is None:
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE releases (x)")
    else:
        path.write_bytes(content)
    before = path.read_bytes()
    with pytest.raises(InputError, match=r"ledger=.*ledger\.sqlite: must be a whole ledger"):
        Ledger(path)
    assert path.read_bytes() == before


def test_a_lost_file_is_not_made_anew_and_a_locked_one_waited_for_no_longer_than_said(ledger):
    with sqlite3.connect(ledger.path, isolation_level=None) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        with pytest.raises(RuntimeError, match=r"the ledger .* locked"):
            Ledger(ledger.path, wait=0.2)
    ledger.path.unlink()
    with pytest.raises(RuntimeError, match="unable to open"):
        ledger.record(release())
    assert not ledger.path.exists()


def test_datasets_of_one_name_count_together(ledger):
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
    assert ledger.total("old", DELTA) == pytest.approx(
        adaptive_epsilon(0.03 * CHOICES, DELTA), rel=0.02
    )
    assert ledger.total("apart", DELTA) == alone
    counted, _ = run_ledger(ledger, "new", ledger.entries("new")[1]).split()
    assert sorted(entry.dataset for entry in counted) == ["bridge", "new", "old"]


@pytest.mark.parametrize(
    ("orders", "rdp"), [([1, 2], [0, 0]), ([3, 2], [0, 0]), ([2], [0, 0]), ([2], [np.nan])]
)
def test_bad_costs_are_refused(orders, rdp):
    with pytest.raises(InputError, match=r"orders|rdp"):
        LedgerEntry("d", "k", np.array(orders, float), np.array(rdp), b"")
