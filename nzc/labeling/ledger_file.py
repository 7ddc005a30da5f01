"""The SQLite file of the ledger: made whole, checked, and written in transactions that a loss of power survives."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from nzc.validation import InputError

_TABLES = """
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


def open_ledger(path: Path, wait: float) -> None:
    """Make the file where there is none, check it, and add the tables that an older version did not have.

    InputError: the file is empty, damaged or another program's, or cannot be made.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            _create(path, wait)
        empty = not path.stat().st_size
    except OSError as error:
        raise InputError("ledger", path, f"must be a file that can be made ({error.strerror})") from error
    with transaction(path, wait) as connection:
        if empty:
            raise sqlite3.DatabaseError("it is empty, and its entries would be lost")
        _prepare(connection, is_new=False)


@contextmanager
def transaction(path: Path, wait: float) -> Iterator[sqlite3.Connection]:
    """Yield a connection that holds the write lock; all changes are committed at the end, or none.

    Once this returns, the changes survive a loss of power: EXTRA also writes the folder's entry of the journal. The
    journal stays, and is emptied: a client of NFS may remember for a minute that a removed one is missing, and would
    then read what a killed process on another machine has half written.
    RuntimeError: a failure while running, such as a file locked for `wait` seconds, or a full disk.
    """
    address = f"{path.absolute().as_uri()}?mode=rw"  # never make an empty file
    try:
        with closing(sqlite3.connect(address, timeout=wait, isolation_level=None, uri=True)) as connection:
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("PRAGMA journal_mode = PERSIST")
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")
    except sqlite3.OperationalError as error:
        raise RuntimeError(f"the ledger {path} could not be used: {error}") from error
    except sqlite3.DatabaseError as error:
        raise InputError("ledger", path, f"must be a whole ledger file ({error}: restore a copy)") from error


def _create(path: Path, wait: float) -> None:
    """Make the file, whole and for its owner only. Another process may do the same."""
    with TemporaryDirectory(prefix=".", dir=path.parent) as folder:
        whole = Path(folder) / path.name
        whole.touch(0o600)
        with transaction(whole, wait) as connection:
            _prepare(connection, is_new=True)
        with suppress(FileExistsError):
            os.link(whole, path)


def _prepare(connection: sqlite3.Connection, is_new: bool) -> None:
    """Make the tables and columns that are missing."""
    columns = [column[1] for column in connection.execute("PRAGMA table_info(releases)")]
    if "rdp" not in columns and not is_new:
        raise sqlite3.DatabaseError("it is a database of another program, or has lost its entries")
    for table in _TABLES.split(";"):
        connection.execute(table)
    if "kind" not in columns:
        connection.execute(_ADD_KIND)
