"""The privacy ledger: the cost of everything drawn from a private dataset, in an SQLite file.

An entry is a release, with noise of the operating system, which is never deleted, or a trial, with
seeded noise, which its owner may delete if nobody saw its labels (docs/privacy.md). The same key
again costs nothing: it is a hash of what was asked, and of the labels. The draws of an unfinished
run are kept: started again, it publishes what it drew before. A finished run leaves the digests of
its files.
"""

import json
import os
import sqlite3
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any
from uuid import uuid4

import numpy as np

from nzc.accounting.cost import Cost
from nzc.accounting.data_independent import WorstCaseCost
from nzc.accounting.rdp import ORDERS
from nzc.privacy.ledger_entry import RELEASE, LedgerEntry, total_epsilon
from nzc.types import Floats
from nzc.validation import InputError, Tree

_TABLES = """
CREATE TABLE IF NOT EXISTS releases (
    dataset TEXT NOT NULL, key TEXT NOT NULL, recorded TEXT NOT NULL, description TEXT NOT NULL,
    facts TEXT NOT NULL, orders BLOB NOT NULL, rdp BLOB NOT NULL, leak REAL NOT NULL,
    labels BLOB NOT NULL, kind TEXT NOT NULL, PRIMARY KEY (dataset, key)
) STRICT;
CREATE TABLE IF NOT EXISTS draws (
    dataset TEXT NOT NULL, question TEXT NOT NULL, drawn BLOB NOT NULL,
    PRIMARY KEY (dataset, question)
) STRICT;
CREATE TABLE IF NOT EXISTS names (
    name TEXT NOT NULL, dataset TEXT NOT NULL, PRIMARY KEY (name, dataset)
) STRICT;
CREATE TABLE IF NOT EXISTS runs (
    id TEXT PRIMARY KEY, dataset TEXT NOT NULL, recorded TEXT NOT NULL, facts TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS published (
    run TEXT PRIMARY KEY, dataset TEXT NOT NULL, recorded TEXT NOT NULL, epsilon REAL, delta REAL,
    unit TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS limits (dataset TEXT PRIMARY KEY, epsilon REAL NOT NULL) STRICT
"""
#: The fields of a LedgerEntry, in their order.
_COLUMNS = "dataset, key, orders, rdp, labels, description, facts, recorded, leak, kind"
#: A release stays a release.
_INSERT = f"""
INSERT INTO releases ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (dataset, key) DO UPDATE SET kind = excluded.kind WHERE kind <> 'release'
"""
_ONE = "WHERE dataset = ? AND key = ?"
#: All datasets that names connect with the dataset ?1, itself included, or with the name ?2.
CONNECTED = """
WITH RECURSIVE same(dataset) AS (
    SELECT ?1 UNION SELECT dataset FROM names WHERE name = ?2 UNION
    SELECT other.dataset FROM same JOIN names AS own USING (dataset)
    JOIN names AS other ON other.name = own.name
) SELECT dataset FROM same
"""


class Ledger:
    """The ledger in the file `path`, which only its owner may read. Processes may share it.

    Each method is one transaction. Once it returns, its changes survive a loss of power.

    wait  seconds to wait for another process that writes
    InputError: the file is no ledger, or is damaged or empty. RuntimeError: it cannot be read and
    written.
    """

    def __init__(self, path: str | Path, wait: float = 60.0) -> None:
        self.path = Path(path)
        self.wait = wait
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self.path.exists():
            self._create()
        with self.transaction() as connection:
            columns = [column[1] for column in connection.execute("PRAGMA table_info(releases)")]
            if "kind" not in columns:
                raise sqlite3.DatabaseError("it is empty, or a database of another program")

    def _create(self) -> None:
        """Make the file whole, and for its owner only; another process may do the same."""
        with NamedTemporaryFile(prefix=".", dir=self.path.parent) as file:
            with closing(sqlite3.connect(file.name)) as new:
                new.executescript(_TABLES)
            with suppress(FileExistsError):
                os.link(file.name, self.path)

    def add(
        self,
        dataset: str,
        cost: Cost | WorstCaseCost,
        *,
        key: str | None = None,
        labels: bytes = b"",
        description: str = "",
        facts: Tree | None = None,
        kind: str = RELEASE,
    ) -> LedgerEntry:
        """Record a release from `dataset` at its exact cost, and return what is stored for it.

        key   identifies the release: of an entry of the same key, only the first labels may be
              published
        kind  TRIAL where the noise is seeded and the labels stay where they are
        """
        if not isinstance(cost, Cost | WorstCaseCost):
            raise InputError("cost", cost, "must be what mechanism.cost(votes, labels) returns")
        if key is None:
            key = uuid4().hex
        facts = {**(facts or {}), "mu": cost.mu}  # inf where the cost is more than Gaussian noise's
        return self.record(
            LedgerEntry(
                dataset,
                key,
                ORDERS,
                cost.rdp(ORDERS),
                labels,
                description,
                facts,
                delta_cost=cost.delta_cost,
                kind=kind,
            )
        )

    def record(self, entry: LedgerEntry) -> LedgerEntry:
        """Store `entry` unless its dataset and key are known, and return what is stored for them.

        A stored trial becomes a release where `entry` is one. Of two costs of one entry, the larger
        is stored.
        """
        identity = (entry.dataset, entry.key)
        row = (
            *identity,
            _as_bytes(entry.orders),
            _as_bytes(entry.rdp),
            entry.labels,
            entry.description,
            json.dumps(dict(entry.facts or {}), sort_keys=True),
            now(),
            entry.delta_cost,
            entry.kind,
        )
        with self.transaction() as connection:
            connection.execute(_INSERT, row)
            (stored,) = _entries(connection, _ONE, *identity)
            rdp = np.maximum(stored.rdp, entry.at(stored.orders))
            leak = max(stored.delta_cost, entry.delta_cost)
            connection.execute(
                f"UPDATE releases SET rdp = ?, leak = ? {_ONE}", (_as_bytes(rdp), leak, *identity)
            )
        return replace(stored, rdp=rdp, delta_cost=leak)

    def name(self, dataset: str, name: str) -> None:
        """Give a dataset one more name: datasets of one name are about the same people, and count
        together.
        """
        name = unicodedata.normalize("NFC", name).strip()  # as different systems write one name
        if not name:
            raise InputError("dataset.name", name, "must be a name, or null")
        self.execute("INSERT OR IGNORE INTO names VALUES (?, ?)", name, dataset)

    def limit(self, dataset: str, epsilon: float) -> None:
        """Record a limit for ε of all that is published about a dataset's people: the smallest one
        stands for ever.
        """
        self.execute(
            "INSERT INTO limits VALUES (?, ?) "
            "ON CONFLICT (dataset) DO UPDATE SET epsilon = min(epsilon, excluded.epsilon)",
            dataset,
            epsilon,
        )

    def names(self) -> dict[str, set[str]]:
        """Return the names of every dataset that has one."""
        names: dict[str, set[str]] = {}
        for name, dataset in self.execute("SELECT name, dataset FROM names"):
            names.setdefault(dataset, set()).add(name)
        return names

    def counted_with(self, dataset: str) -> set[str]:
        """Return all datasets whose names connect them with `dataset`, itself included."""
        return {other for (other,) in self.execute(CONNECTED, dataset, None)}

    def entries(self, dataset: str | None = None) -> list[LedgerEntry]:
        """Return all releases and trials as recorded, or those that count with one dataset."""
        with self.transaction() as connection:
            if dataset is None:
                return _entries(connection, "ORDER BY rowid")
            return _entries(
                connection, f"WHERE dataset IN ({CONNECTED}) ORDER BY rowid", dataset, None
            )

    def total(self, dataset: str, delta: float, kind: str | None = None) -> float:
        """Return ε at δ of all entries that count with a dataset, or of those of one kind."""
        entries = [entry for entry in self.entries(dataset) if kind in (None, entry.kind)]
        return total_epsilon(entries, delta)

    def forget(self, trials: Iterable[LedgerEntry]) -> None:
        """Delete trials, all or none: honest only if nobody used their labels. InputError: one is
        no stored trial.
        """
        delete = f"DELETE FROM releases {_ONE} AND kind = 'trial'"
        with self.transaction() as connection:
            for trial in trials:
                if not connection.execute(delete, (trial.dataset, trial.key)).rowcount:
                    raise InputError(
                        "key", trial.key, "must be a stored trial; a release is never forgotten"
                    )

    def keep_draw(self, dataset: str, question: str, drawn: bytes) -> bytes:
        """Return what was drawn for a question before; if nothing was, store and return `drawn`."""
        identity = (dataset, question)
        with self.transaction() as connection:
            connection.execute("INSERT OR IGNORE INTO draws VALUES (?, ?, ?)", (*identity, drawn))
            ((stored,),) = connection.execute(
                "SELECT drawn FROM draws WHERE dataset = ? AND question = ?", identity
            )
        return bytes(stored)

    def finish_run(self, run: str, dataset: str, facts: Tree, questions: Iterable[str]) -> None:
        """Record a run whose results are stored, by the digest of result.json, and what `nzc
        publish` compares.

        Its draws are deleted: a later run draws anew, which is a release.
        """
        row = (run, dataset, now(), json.dumps(facts, sort_keys=True))
        with self.transaction() as connection:
            connection.execute("INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?)", row)
            connection.executemany(
                "DELETE FROM draws WHERE dataset = ? AND question = ?",
                [(dataset, question) for question in questions],
            )

    def run(self, run: str) -> tuple[str, Tree, list[LedgerEntry]] | None:
        """Return dataset and facts of a finished run, and those of its entries that are stored;
        None: it is unknown.
        """
        rows = self.execute("SELECT dataset, facts FROM runs WHERE id = ?", run)
        if not rows:
            return None
        dataset, text = rows[0]
        facts: Tree = json.loads(text)
        entries = [
            entry
            for entry in self.entries(dataset)
            if entry.dataset == dataset and entry.key in facts["entries"]
        ]
        return dataset, facts, entries

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection that holds the write lock; all changes are committed at the end, or
        none.

        EXTRA also writes the folder's entry of the journal. The journal stays, emptied: a client of
        NFS that does not see a new one yet would read what a killed process has half written.
        """
        address = f"{self.path.absolute().as_uri()}?mode=rw"  # never make an empty file
        try:
            connection = sqlite3.connect(address, timeout=self.wait, isolation_level=None, uri=True)
            with closing(connection):
                connection.execute("PRAGMA synchronous = EXTRA")
                connection.execute("PRAGMA journal_mode = PERSIST")
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            raise RuntimeError(f"the ledger {self.path} could not be used: {error}") from error
        except sqlite3.DatabaseError as error:
            raise InputError(
                "ledger", self.path, f"must be a whole ledger file ({error}: restore a copy)"
            ) from error

    def execute(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of one statement, in a transaction of its own."""
        with self.transaction() as connection:
            return connection.execute(statement, values).fetchall()


def _entries(connection: sqlite3.Connection, where: str, *values: str | None) -> list[LedgerEntry]:
    entries = []
    for row in connection.execute(f"SELECT {_COLUMNS} FROM releases {where}", values):
        dataset, key, orders, rdp, labels, description, facts, *about = row
        entries.append(
            LedgerEntry(
                dataset,
                key,
                np.frombuffer(orders, "<f8"),
                np.frombuffer(rdp, "<f8"),
                labels,
                description,
                json.loads(facts),
                *about,
            )
        )
    return entries


def _as_bytes(values: Floats) -> bytes:
    return values.astype("<f8").tobytes()


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
