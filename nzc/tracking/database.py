"""MLflow's local database, an SQLite file: its address, its check, and its creation."""

import re
import sqlite3
from contextlib import closing
from glob import escape
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

from filelock import FileLock
from mlflow import MlflowClient
from sqlalchemy import URL, make_url

from nzc.data.own_folder import require_writable
from nzc.validation import InputError

_HEADER = b"SQLite format 3\0"


def sqlite_file(uri: str) -> Path | None:
    """Return the file of `sqlite:///FILE`; None for another address. A relative FILE starts at the working directory.

    InputError: it has settings after a question mark, which would be taken for a part of the name.
    """
    if not uri.startswith("sqlite:///"):
        return None
    if "?" in uri:
        raise InputError("tracking.uri", uri, "must be sqlite:///FILE, without ? (%3F in the name of a file)")
    return Path(make_url(uri).database or "").absolute()


def sqlite_uri(file: Path) -> str:
    """Return the address of a database in any folder, whatever characters are in its name."""
    uri = URL.create("sqlite", database=str(file)).render_as_string()
    if make_url(uri).database != str(file):  # SQLAlchemy before 2.1
        raise InputError("tracking.uri", uri, "must be a file whose path has no question mark")
    # MLflow would make a folder by a quoted name, unless it sees another driver.
    return uri if uri == f"sqlite:///{file}" else uri.replace("sqlite:", "sqlite+pysqlite:", 1)


def require_database(file: Path) -> None:
    """Raise InputError unless `file` is an SQLite database, or can become one. MLflow would try for minutes."""
    uri, allowed = f"sqlite:///{file}", "must be an SQLite database that can be written, or a new file"
    if not file.exists():
        require_writable("tracking.uri", file.parent)
        return
    if not file.is_file():
        raise InputError("tracking.uri", uri, f"{allowed}, but no folder, pipe or device")
    try:
        with file.open("r+b") as opened:
            head = opened.read(len(_HEADER))
    except OSError as error:
        raise InputError("tracking.uri", uri, f"{allowed} ({error.strerror})") from error
    if head not in (b"", _HEADER):
        raise InputError("tracking.uri", uri, allowed)
    if head and not has_tables(file, "alembic_version", "experiments"):
        raise InputError(
            "tracking.uri", uri, "must be a database of MLflow, or a new file; another program made this one"
        )


def has_tables(file: Path, *names: str) -> bool:
    """Return whether an SQLite file has these tables, or none at all, or is locked, which says nothing yet."""
    try:
        with closing(sqlite3.connect(f"file:{quote(str(file))}?mode=ro", timeout=0, uri=True)) as connection:
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    except sqlite3.OperationalError:
        return True
    except sqlite3.DatabaseError:
        return False
    return not tables or tables >= set(names)


def create_database(file: Path) -> None:
    """Create an SQLite database for MLflow, whole or not at all; one process at a time.

    MLflow builds it in seconds and many steps. It cannot continue a part of one, nor let two processes build it.
    """
    file = file.resolve()  # a link is followed, not replaced
    lock = Path(f"{file}.lock")
    if file.exists():
        return
    with FileLock(lock, mode=0o600):
        if not file.exists():
            for stray in file.parent.glob(f"{escape(file.name)}.*.partial"):
                if re.fullmatch(r"[0-9a-f]{32}", stray.suffixes[-2][1:]):
                    stray.unlink()
            partial = file.with_name(f"{file.name}.{uuid4().hex}.partial")
            MlflowClient(tracking_uri=sqlite_uri(partial)).search_experiments(max_results=1)
            partial.rename(file)
        lock.unlink(missing_ok=True)  # whoever waits for it finds the database
