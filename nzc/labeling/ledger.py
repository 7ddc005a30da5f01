"""The privacy ledger: the cost of every release from a private dataset, in an SQLite file that only grows.

A run's release has a key: a hash of what was asked, with which seed, and of the labels. Recording the same key again
returns the stored entry and costs nothing, because the same labels are then published again. With noise from the
operating system the key identifies one draw. Draws of unfinished runs are kept too: a run that is killed and started
again publishes what it drew before. The file is private (costs may depend on votes), and only its owner may read it.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from nzc.accounting.cost import Cost
from nzc.accounting.rdp import CHOICES, ORDERS, adaptive_epsilon, to_epsilon
from nzc.types import Floats
from nzc.validation import InputError, between_0_and_1

_SCHEMA = """
CREATE TABLE IF NOT EXISTS releases (
    dataset TEXT NOT NULL, key TEXT NOT NULL, recorded TEXT NOT NULL, description TEXT NOT NULL, facts TEXT NOT NULL,
    orders BLOB NOT NULL, rdp BLOB NOT NULL, leak REAL NOT NULL, labels BLOB NOT NULL,
    PRIMARY KEY (dataset, key)
) STRICT;
CREATE TABLE IF NOT EXISTS draws (
    dataset TEXT NOT NULL, question TEXT NOT NULL, drawn BLOB NOT NULL, PRIMARY KEY (dataset, question)
) STRICT
"""
_COLUMNS = "dataset, key, recorded, description, facts, orders, rdp, leak, labels"


@dataclass(frozen=True, eq=False)
class LedgerEntry:
    """One release, as it was first recorded.

    dataset      its name or digest
    orders, rdp  the Rényi cost rdp [orders] at ascending orders above 1; inf where there is no bound
    labels       what was released, as bytes
    facts        what else is known of the release without votes: noise, queries, how many labels were released
    delta_cost   the part of δ that the release uses itself
    recorded     UTC, ISO 8601; set by the ledger
    """

    dataset: str
    key: str
    orders: Floats
    rdp: Floats
    labels: bytes
    description: str = ""
    facts: Mapping[str, Any] | None = None
    recorded: str = ""
    delta_cost: float = 0.0

    def __post_init__(self) -> None:
        if len(self.orders) == 0 or not (np.diff(self.orders) > 0).all() or not self.orders[0] > 1:
            raise InputError("orders", self.orders, "must be ascending, at least one, each above 1")
        if self.rdp.shape != self.orders.shape or not (self.rdp >= 0).all():
            raise InputError("rdp", self.rdp, f"must be {len(self.orders)} costs of 0 or above, one per order")

    def at(self, orders: Floats) -> Floats:
        """Return the cost at any orders, [orders]: the cost at the next larger stored order, or inf."""
        return np.append(self.rdp, np.inf)[np.searchsorted(self.orders, orders)]


class Ledger:
    """The ledger in the file `path`. Processes may share it: each method is one transaction, on disk on return."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.touch(mode=0o600)
            self.path.chmod(0o600)
        except OSError as error:
            raise InputError("ledger", self.path, f"must be a file that you own ({error.strerror})") from error
        with self._transaction() as connection:
            for table in _SCHEMA.split(";"):
                connection.execute(table)

    def add(
        self,
        dataset: str,
        cost: Cost,
        *,
        key: str | None = None,
        labels: bytes = b"",
        description: str = "",
        facts: Mapping[str, Any] | None = None,
    ) -> LedgerEntry:
        """Record a release from `dataset` at its exact cost, and return what is stored for it.

        key  identifies the release: an entry of the same key is returned unchanged, and only its labels may be
             published; None: a new release
        """
        key, rdp = uuid4().hex if key is None else key, cost.rdp(ORDERS)
        return self.record(LedgerEntry(dataset, key, ORDERS, rdp, labels, description, facts, "", cost.delta_cost))

    def record(self, entry: LedgerEntry) -> LedgerEntry:
        """Store `entry` unless its dataset and key are known, and return what is stored for them."""
        recorded = datetime.now(UTC).isoformat(timespec="seconds")
        facts = json.dumps(dict(entry.facts or {}), sort_keys=True)
        orders, rdp = (each.astype("<f8").tobytes() for each in (entry.orders, entry.rdp))
        said = (entry.dataset, entry.key, recorded, entry.description, facts)
        with self._transaction() as connection:
            connection.execute(
                f"INSERT OR IGNORE INTO releases ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*said, orders, rdp, entry.delta_cost, entry.labels),
            )
            return self._select(connection, "WHERE dataset = ? AND key = ?", entry.dataset, entry.key)[0]

    def entries(self, dataset: str | None = None) -> list[LedgerEntry]:
        """Return the releases of one dataset, or of all, in the order of recording."""
        with self._transaction() as connection:
            return self._select(connection, "WHERE dataset = coalesce(?, dataset) ORDER BY rowid", dataset)

    def total(self, dataset: str, delta: float) -> float:
        """Return ε at δ of all releases from a dataset together. Their Rényi costs add at every order.

        Later releases may depend on earlier ones, so the order is one of few (`rdp.adaptive_epsilon`), unless there is
        only one release.
        """
        between_0_and_1(delta=delta)
        entries = self.entries(dataset)
        if not entries:
            return 0.0
        left = delta - sum(entry.delta_cost for entry in entries)
        if left <= 0:
            return np.inf
        if len(entries) > 1:
            return adaptive_epsilon(np.sum([entry.at(CHOICES) for entry in entries], axis=0), left)
        orders = entries[0].orders
        return to_epsilon(entries[0].at, left, orders)[0]

    def keep_draw(self, dataset: str, question: str, drawn: bytes) -> bytes:
        """Return what was drawn for a question before; if nothing was, store and return `drawn`."""
        with self._transaction() as connection:
            connection.execute("INSERT OR IGNORE INTO draws VALUES (?, ?, ?)", (dataset, question, drawn))
            where = "SELECT drawn FROM draws WHERE dataset = ? AND question = ?"
            kept: bytes = connection.execute(where, (dataset, question)).fetchone()[0]
        return kept

    def forget_draws(self, dataset: str, questions: Iterable[str]) -> None:
        """Delete the draws for these questions, once their results are stored elsewhere."""
        with self._transaction() as connection:
            rows = ((dataset, question) for question in questions)
            connection.executemany("DELETE FROM draws WHERE dataset = ? AND question = ?", rows)

    @staticmethod
    def _select(connection: sqlite3.Connection, where: str, *values: str | None) -> list[LedgerEntry]:
        rows = connection.execute(f"SELECT {_COLUMNS} FROM releases {where}", values)
        try:
            return [
                LedgerEntry(
                    dataset, key, np.frombuffer(orders, "<f8"), np.frombuffer(rdp, "<f8"), labels, description,
                    json.loads(facts), recorded, delta_cost,
                )
                for dataset, key, recorded, description, facts, orders, rdp, delta_cost, labels in rows
            ]  # fmt: skip
        except (ValueError, TypeError) as error:
            raise sqlite3.DatabaseError("an entry is damaged") from error

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection that holds the write lock; all changes are committed at the end, or none.

        SQLite's operational errors (locked for a minute, disk full) pass through: they are failures while running.
        """
        try:
            with closing(sqlite3.connect(self.path, timeout=60, isolation_level=None)) as connection:
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as error:
            raise InputError("ledger", self.path, f"must be a whole ledger file ({error}): restore a copy") from error
