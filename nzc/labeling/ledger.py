"""The privacy ledger: the cost of everything drawn from a private dataset, in an SQLite file.

An entry is a release or a trial. A release has noise of the operating system: its labels may be published from the
moment they are drawn, so it is never deleted. A trial has seeded noise. `nzc publish` refuses it, and its owner may
delete it if nobody saw its labels. Entries of a file that an older version wrote count as releases.

An entry of a run has a key: a hash of what was asked, with which seed, and of the labels. Recording the same key again
returns the stored entry and costs nothing, because the labels are the same. With noise of the operating system the key
identifies one draw. Draws of unfinished runs are kept too: a run that is killed and started again publishes what it
drew before. The file is private (costs may depend on votes), and only its owner may read it.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from nzc.validation import InputError, between_0_and_1, one_of

#: The kinds of entries.
RELEASE, TRIAL = KINDS = ("release", "trial")
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
#: The first version of the table had no kind. What it holds, and what an older version adds, gets this default.
_ADD_KIND = "ALTER TABLE releases ADD COLUMN kind TEXT NOT NULL DEFAULT 'unknown'"
#: A release stays a release. An entry of unknown kind that has a trial's key is that trial: the key contains the seed.
_INSERT = """
INSERT INTO releases (dataset, key, recorded, description, facts, orders, rdp, leak, labels, kind)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (dataset, key) DO UPDATE SET kind = excluded.kind WHERE kind <> 'release'
"""


@dataclass(frozen=True, eq=False)
class LedgerEntry:
    """One release or trial, as it was first recorded.

    dataset      its name or digest
    orders, rdp  the Rényi cost rdp [orders] at ascending orders above 1; inf where there is no bound
    labels       what was drawn, as bytes
    facts        what else is known without votes: noise, queries, how many labels were drawn
    delta_cost   the part of δ that the entry uses itself
    kind         RELEASE or TRIAL
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
    kind: str = RELEASE

    def __post_init__(self) -> None:
        one_of(KINDS, kind=self.kind)
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
            if "kind" not in [column[1] for column in connection.execute("PRAGMA table_info(releases)")]:
                connection.execute(_ADD_KIND)

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

        key   identifies the release: an entry of the same key is returned, and only its labels may be published;
              None: a new release
        kind  TRIAL where the noise is seeded and the labels stay where they are
        """
        key, rdp = uuid4().hex if key is None else key, cost.rdp(ORDERS)
        about = (labels, description, facts, "", cost.delta_cost, kind)
        return self.record(LedgerEntry(dataset, key, ORDERS, rdp, *about))

    def record(self, entry: LedgerEntry) -> LedgerEntry:
        """Store `entry` unless its dataset and key are known, and return what is stored for them.

        A stored trial becomes a release where `entry` is one; a release stays a release.
        """
        recorded = datetime.now(UTC).isoformat(timespec="seconds")
        facts = json.dumps(dict(entry.facts or {}), sort_keys=True)
        orders, rdp = (each.astype("<f8").tobytes() for each in (entry.orders, entry.rdp))
        said = (entry.dataset, entry.key, recorded, entry.description, facts)
        with self._transaction() as connection:
            connection.execute(_INSERT, (*said, orders, rdp, entry.delta_cost, entry.labels, entry.kind))
            return self._select(connection, "WHERE dataset = ? AND key = ?", entry.dataset, entry.key)[0]

    def entries(self, dataset: str | None = None) -> list[LedgerEntry]:
        """Return the releases and trials of one dataset, or of all, in the order of recording."""
        with self._transaction() as connection:
            return self._select(connection, "WHERE dataset = coalesce(?, dataset) ORDER BY rowid", dataset)

    def split(self, dataset: str, own: dict[str, LedgerEntry]) -> tuple[list[LedgerEntry], list[LedgerEntry]]:
        """Return all releases of a dataset with the entries of one run, `own` by key; and the trials of other runs."""
        entries = {each.key: each for each in self.entries(dataset)} | own  # `own` may have been forgotten meanwhile
        trials = [each for each in entries.values() if each.kind == TRIAL and each.key not in own]
        return [each for each in entries.values() if each.kind == RELEASE or each.key in own], trials

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

    def forget_draws(self, dataset: str, questions: Iterable[str]) -> None:
        """Delete the draws for these questions, once their results are stored elsewhere."""
        with self._transaction() as connection:
            rows = ((dataset, question) for question in questions)
            connection.executemany("DELETE FROM draws WHERE dataset = ? AND question = ?", rows)

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


def total_epsilon(entries: Sequence[LedgerEntry], delta: float) -> float:
    """Return ε at δ of entries of one dataset together. Their Rényi costs add at every order.

    Later entries may depend on earlier ones, so the order is one of few (`rdp.adaptive_epsilon`), unless there is only
    one entry.
    """
    between_0_and_1(delta=delta)
    if not entries:
        return 0.0
    left = delta - sum(entry.delta_cost for entry in entries)
    if left <= 0:
        return np.inf
    if len(entries) > 1:
        return adaptive_epsilon(np.sum([entry.at(CHOICES) for entry in entries], axis=0), left)
    orders = entries[0].orders
    return to_epsilon(entries[0].at, left, orders)[0]
