"""The privacy ledger: the cost of everything drawn from a private dataset, in an SQLite file.

An entry is a release or a trial. A release has noise of the operating system: its labels may be published from the
moment they are drawn, so it is never deleted. A trial has seeded noise. `nzc publish` refuses it, and its owner may
delete it if nobody saw its labels. Entries of a file that an older version wrote count as releases.

An entry of a run has a key: a hash of what was asked about which public rows, with which seed, and of the labels.
Recording the same key again returns the stored entry and costs nothing, because the labels are the same. With noise of
the operating system the key identifies one draw. Draws of unfinished runs are kept too: a run that is killed and
started again publishes what it drew before. A finished run leaves the digests of its files, by which `nzc publish`
knows them. The file is private (costs may depend on votes), and only its owner may read it.
"""

import json
import os
import sqlite3
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from stat import S_ISREG
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import numpy as np

from nzc.accounting.cost import Cost
from nzc.accounting.rdp import ORDERS
from nzc.labeling.ledger_entry import RELEASE, TRIAL, LedgerEntry, total_epsilon
from nzc.validation import InputError

_SCHEMA = """
CREATE TABLE IF NOT EXISTS releases (
    dataset TEXT NOT NULL, key TEXT NOT NULL, recorded TEXT NOT NULL, description TEXT NOT NULL, facts TEXT NOT NULL,
    orders BLOB NOT NULL, rdp BLOB NOT NULL, leak REAL NOT NULL, labels BLOB NOT NULL,
    PRIMARY KEY (dataset, key)
) STRICT;
CREATE TABLE IF NOT EXISTS draws (
    dataset TEXT NOT NULL, question TEXT NOT NULL, drawn BLOB NOT NULL, PRIMARY KEY (dataset, question)
) STRICT;
CREATE TABLE IF NOT EXISTS names (name TEXT NOT NULL, dataset TEXT NOT NULL, PRIMARY KEY (name, dataset)) STRICT;
CREATE TABLE IF NOT EXISTS runs (
    id TEXT PRIMARY KEY, dataset TEXT NOT NULL, recorded TEXT NOT NULL, facts TEXT NOT NULL
) STRICT
"""
#: The first version of the table had no kind. What it holds, and what an older version adds, gets this default.
_ADD_KIND = "ALTER TABLE releases ADD COLUMN kind TEXT NOT NULL DEFAULT 'unknown'"
#: A release stays a release. An entry of unknown kind that has a trial's key is that trial: the key contains the seed.
_INSERT = """
INSERT INTO releases (dataset, key, recorded, description, facts, orders, rdp, leak, labels, kind)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (dataset, key) DO UPDATE SET kind = excluded.kind WHERE kind <> 'release'
"""


class Ledger:
    """The ledger in the file `path`. Processes may share it: each method is one transaction, on disk on return.

    wait  seconds to wait for another process that writes
    InputError: the file is no ledger, is damaged or empty, or cannot be read and written.
    """

    def __init__(self, path: str | Path, wait: float = 60.0) -> None:
        self.path, self.wait = Path(path), wait
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not os.path.lexists(self.path):
                self._create()
            state = self.path.stat()
        except OSError as error:
            raise self._wrong(error.strerror) from error
        if not S_ISREG(state.st_mode) or not os.access(self.path, os.R_OK | os.W_OK):
            raise self._wrong("it is no file that you can read and write")
        if not state.st_size:
            raise self._wrong("it is empty, and its entries would be lost: restore a copy")
        with self._transaction(self.path) as connection:
            if "rdp" not in _columns(connection):
                raise self._wrong("it is a database of another program, or has lost its entries: restore a copy")
            _prepare(connection)

    def _create(self) -> None:
        """Make the file, whole and for its owner only. Another process may do the same."""
        partial = self.path.with_name(f".{self.path.name}.{uuid4().hex}.partial")
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        try:
            with self._transaction(partial) as connection:
                _prepare(connection)
            with suppress(FileExistsError):
                os.link(partial, self.path)
        finally:
            partial.unlink()
            partial.with_name(f"{partial.name}-journal").unlink(missing_ok=True)

    def add(
        self,
        dataset: str,
        cost: Cost,
        *,
        key: str | None = None,
        labels: bytes = b"",
        description: str = "",
        facts: Mapping[str, Any] | None = None,
        kind: str = RELEASE,
    ) -> LedgerEntry:
        """Record a release from `dataset` at its exact cost, and return what is stored for it.

        key   identifies the release: an entry of the same key is returned, and only its labels may be published. Its
              cost becomes the larger of both. None: a new release
        kind  TRIAL where the noise is seeded and the labels stay where they are
        """
        key, rdp = uuid4().hex if key is None else key, cost.rdp(ORDERS)
        about = (labels, description, facts, "", cost.delta_cost, kind)
        return self.record(LedgerEntry(dataset, key, ORDERS, rdp, *about))

    def record(self, entry: LedgerEntry) -> LedgerEntry:
        """Store `entry` unless its dataset and key are known, and return what is stored for them.

        A stored trial becomes a release where `entry` is one; a release stays a release. Of two costs of one entry,
        the larger is stored: the accounting of an older version may have been too low.
        """
        facts = json.dumps(dict(entry.facts or {}), sort_keys=True)
        orders, rdp = (each.astype("<f8").tobytes() for each in (entry.orders, entry.rdp))
        said = (entry.dataset, entry.key, _now(), entry.description, facts)
        with self._transaction() as connection:
            connection.execute(_INSERT, (*said, orders, rdp, entry.delta_cost, entry.labels, entry.kind))
            where = "WHERE dataset = ? AND key = ?"
            stored = self._select(connection, where, entry.dataset, entry.key)[0]
            larger = np.maximum(stored.rdp, entry.at(stored.orders))
            dearer = replace(stored, rdp=larger, delta_cost=max(stored.delta_cost, entry.delta_cost))
            costs = larger.astype("<f8").tobytes(), dearer.delta_cost
            connection.execute(f"UPDATE releases SET rdp = ?, leak = ? {where}", (*costs, entry.dataset, entry.key))
            return dearer

    def name(self, dataset: str, name: str) -> None:
        """Give a dataset a name of the user's own. Datasets of one name are about the same people: they count together.

        A dataset may have several names; names are never taken back. InputError: the name is empty.
        """
        name = unicodedata.normalize("NFC", name).strip()  # as different systems write one name
        if not name:
            raise InputError("dataset.name", name, "must be a name, or null")
        with self._transaction() as connection:
            connection.execute("INSERT OR IGNORE INTO names VALUES (?, ?)", (name, dataset))

    def names(self) -> dict[str, set[str]]:
        """Return the names of every dataset that has one."""
        found: dict[str, set[str]] = {}
        with self._transaction() as connection:
            for name, dataset in connection.execute("SELECT name, dataset FROM names"):
                found.setdefault(dataset, set()).add(name)
        return found

    def counted_with(self, dataset: str) -> set[str]:
        """Return all datasets whose names connect them with `dataset`, itself included."""
        names, same = self.names(), {dataset}
        while further := {
            other for other in names if other not in same and any(names[other] & names.get(one, set()) for one in same)
        }:
            same |= further
        return same

    def entries(self, dataset: str | None = None) -> list[LedgerEntry]:
        """Return the releases and trials of all datasets, or of one and those that count with it, as recorded."""
        same = None if dataset is None else self.counted_with(dataset)
        with self._transaction() as connection:
            found = self._select(connection, "ORDER BY rowid")
        return [each for each in found if same is None or each.dataset in same]

    def split(self, dataset: str, own: dict[str, LedgerEntry]) -> tuple[list[LedgerEntry], list[LedgerEntry]]:
        """Return all releases of a dataset with the entries of one run, `own` by key; and the trials of other runs."""
        recorded = [each for each in self.entries(dataset) if each.dataset != dataset or each.key not in own]
        trials = [each for each in recorded if each.kind == TRIAL]
        return [*own.values(), *(each for each in recorded if each.kind == RELEASE)], trials

    def total(self, dataset: str, delta: float, kind: str | None = None) -> float:
        """Return ε at δ of all entries of a dataset together, or of those of one kind (`total_epsilon`)."""
        return total_epsilon([each for each in self.entries(dataset) if kind in (None, each.kind)], delta)

    def forget(self, trials: Iterable[LedgerEntry]) -> None:
        """Delete trials, all or none. It is honest only if nobody saw their labels, or chose anything by them.

        InputError: one of them is a release, or is not stored.
        """
        with self._transaction() as connection:
            for each in trials:
                where = "WHERE dataset = ? AND key = ? AND kind = 'trial'"
                if not connection.execute(f"DELETE FROM releases {where}", (each.dataset, each.key)).rowcount:
                    raise InputError("key", each.key, "must be a stored trial; a release is never forgotten")

    def keep_draw(self, dataset: str, question: str, drawn: bytes) -> bytes:
        """Return what was drawn for a question before; if nothing was, store and return `drawn`."""
        with self._transaction() as connection:
            connection.execute("INSERT OR IGNORE INTO draws VALUES (?, ?, ?)", (dataset, question, drawn))
            where = "SELECT drawn FROM draws WHERE dataset = ? AND question = ?"
            kept: bytes = connection.execute(where, (dataset, question)).fetchone()[0]
        return kept

    def finish_run(self, run: str, dataset: str, facts: Mapping[str, Any], questions: Iterable[str]) -> None:
        """Record a run whose results are stored, and delete its draws: a later run draws anew, which is a release.

        run    digest of its result.json
        facts  what `nzc publish` compares: digests of files, keys of entries, and what its ε follows from
        """
        with self._transaction() as connection:
            values = (run, dataset, _now(), json.dumps(dict(facts), sort_keys=True))
            connection.execute("INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?)", values)
            rows = ((dataset, question) for question in questions)
            connection.executemany("DELETE FROM draws WHERE dataset = ? AND question = ?", rows)

    def run(self, run: str) -> tuple[dict[str, Any], list[LedgerEntry]] | None:
        """Return the facts of a finished run and those of its entries that are stored; None: there is no such run."""
        with self._transaction() as connection:
            found = connection.execute("SELECT dataset, facts FROM runs WHERE id = ?", (run,)).fetchone()
            if found is None:
                return None
            facts: dict[str, Any] = json.loads(found[1])
            stored = self._select(connection, "WHERE dataset = ? ORDER BY rowid", found[0])
        return facts, [each for each in stored if each.key in facts["entries"]]

    @staticmethod
    def _select(connection: sqlite3.Connection, where: str, *values: str | None) -> list[LedgerEntry]:
        columns = "dataset, key, orders, rdp, labels, description, facts, recorded, leak, kind"
        rows = connection.execute(f"SELECT {columns} FROM releases {where}", values)
        try:
            return [
                LedgerEntry(
                    dataset, key, np.frombuffer(orders, "<f8"), np.frombuffer(rdp, "<f8"), labels, description,
                    json.loads(facts), recorded, delta_cost, TRIAL if kind == TRIAL else RELEASE,
                )
                for dataset, key, orders, rdp, labels, description, facts, recorded, delta_cost, kind in rows
            ]  # fmt: skip
        except (ValueError, TypeError) as error:
            raise sqlite3.DatabaseError("an entry is damaged") from error

    @contextmanager
    def _transaction(self, path: Path | None = None) -> Iterator[sqlite3.Connection]:
        """Yield a connection that holds the write lock; all changes are committed at the end, or none.

        Once this returns, the changes survive a loss of power: EXTRA also writes the folder's entry of the journal.
        The journal stays, and is emptied: a client of NFS may remember for a minute that a removed one is missing, and
        would then read what a killed process on another machine has half written.
        RuntimeError: a failure while running, such as a file locked for `wait` seconds, or a full disk.
        """
        address = f"file:{quote(str(path or self.path))}?mode=rw"  # never make an empty file
        try:
            with closing(sqlite3.connect(address, timeout=self.wait, isolation_level=None, uri=True)) as connection:
                connection.execute("PRAGMA synchronous = EXTRA")
                connection.execute("PRAGMA journal_mode = PERSIST")
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            raise RuntimeError(f"the ledger {self.path} could not be used: {error}") from error
        except sqlite3.DatabaseError as error:
            raise self._wrong(f"{error}: restore a copy") from error

    def _wrong(self, why: str | None) -> InputError:
        return InputError("ledger", self.path, f"must be a whole ledger file ({why})")


def _prepare(connection: sqlite3.Connection) -> None:
    """Make the tables and columns that are missing."""
    for table in _SCHEMA.split(";"):
        connection.execute(table)
    if "kind" not in _columns(connection):
        connection.execute(_ADD_KIND)


def _columns(connection: sqlite3.Connection) -> list[str]:
    return [column[1] for column in connection.execute("PRAGMA table_info(releases)")]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
