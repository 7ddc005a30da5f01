"""What has all that was ever released from one private dataset cost together? An SQLite file that only grows.

A release is known by its key, a hash of what was asked, with which seed, and of what was released: recording it again
returns what is stored and costs nothing more, for then the same labels are published again. Where the noise is the
operating system's, the key is that of one draw, and draws of runs that are not finished are kept beside: a run that is
started again after a kill publishes what it drew before. A dataset is known by its private digest.
Rows are private: costs may follow the votes, and a digest tells who holds the data. The file is its owner's alone.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from nzc._types import Floats
from nzc.errors import InputError, share
from nzc.privacy.conversion import epsilon

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
class Release:
    """One release, as it was first recorded.

    orders, rdp   the Rényi cost rdp [orders] at ascending orders above 1; inf where there is no bound
    facts         what may be told of it whatever the votes: queries, answered, noise, …
    leak          the δ that a release takes besides, at every order
    labels        what was released, as bytes
    recorded      UTC, ISO 8601; set by the ledger
    """

    dataset: str
    key: str
    orders: Floats
    rdp: Floats
    labels: bytes
    description: str = ""
    facts: Mapping[str, Any] | None = None
    recorded: str = ""
    leak: float = 0.0

    def __post_init__(self) -> None:
        if len(self.orders) == 0 or not (np.diff(self.orders) > 0).all() or not self.orders[0] > 1:
            raise InputError("orders", self.orders, "must be ascending, at least one, each above 1")
        if self.rdp.shape != self.orders.shape or not (self.rdp >= 0).all():
            raise InputError("rdp", self.rdp, f"must be {len(self.orders)} costs of 0 or above, one per order")

    def at(self, orders: Floats) -> Floats:
        """The cost at any orders, [orders]: that of the next stored one (Rényi costs grow with the order), or inf."""
        return np.append(self.rdp, np.inf)[np.searchsorted(self.orders, orders)]


class Ledger:
    """The ledger in the file `path`. Any number of processes may use it at once; every method is one transaction."""

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

    def record(self, release: Release) -> Release:
        """Store a release and return what is stored for its dataset and key: publish those labels, and no others.

        When this returns, the release is on disk. An earlier release of the same key is returned unchanged.
        """
        row = (
            release.dataset,
            release.key,
            datetime.now(UTC).isoformat(timespec="seconds"),
            release.description,
            json.dumps(dict(release.facts or {}), sort_keys=True),
            release.orders.astype("<f8").tobytes(),
            release.rdp.astype("<f8").tobytes(),
            release.leak,
            release.labels,
        )
        with self._transaction() as connection:
            connection.execute(f"INSERT OR IGNORE INTO releases ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
            found = self._select(connection, "WHERE dataset = ? AND key = ?", release.dataset, release.key)
        return found[0]

    def draw(self, dataset: str, question: str, drawn: bytes) -> bytes:
        """What was drawn for a question that nobody has closed yet; `drawn`, if nothing was. On disk on return."""
        with self._transaction() as connection:
            connection.execute("INSERT OR IGNORE INTO draws VALUES (?, ?, ?)", (dataset, question, drawn))
            where = "SELECT drawn FROM draws WHERE dataset = ? AND question = ?"
            kept: bytes = connection.execute(where, (dataset, question)).fetchone()[0]
        return kept

    def close(self, dataset: str, questions: Iterable[str]) -> None:
        """Forget what was drawn for these questions: what came of it is kept elsewhere."""
        with self._transaction() as connection:
            connection.executemany(
                "DELETE FROM draws WHERE dataset = ? AND question = ?", [(dataset, question) for question in questions]
            )

    def releases(self, dataset: str | None = None) -> list[Release]:
        """Every release, of one dataset or of all, in the order of recording."""
        with self._transaction() as connection:
            if dataset is None:
                return self._select(connection, "ORDER BY rowid")
            return self._select(connection, "WHERE dataset = ? ORDER BY rowid", dataset)

    def total(self, dataset: str, delta: float) -> float:
        """The ε at δ of all releases from a dataset together: their Rényi costs add at every order."""
        share(delta=delta)
        releases = self.releases(dataset)
        if not releases:
            return 0.0
        left = delta - sum(release.leak for release in releases)
        if left <= 0:
            return np.inf
        orders = np.unique(np.concatenate([release.orders for release in releases]))
        return epsilon(lambda at: np.sum([release.at(at) for release in releases], axis=0), left, orders)[0]

    @staticmethod
    def _select(connection: sqlite3.Connection, where: str, *values: str) -> list[Release]:
        return [
            Release(
                dataset=dataset,
                key=key,
                recorded=recorded,
                description=description,
                facts=json.loads(facts),
                orders=np.frombuffer(orders, "<f8"),
                rdp=np.frombuffer(rdp, "<f8"),
                leak=leak,
                labels=labels,
            )
            for dataset, key, recorded, description, facts, orders, rdp, leak, labels in connection.execute(
                f"SELECT {_COLUMNS} FROM releases {where}", values
            )
        ]

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """A connection holding the write lock: committed whole at the end, or not at all.

        SQLite's own errors of operation (locked for a minute, disk full) pass through: they are failures while running.
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
