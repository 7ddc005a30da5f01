"""Where MLflow records, and what can be known of a local database without importing MLflow, which
takes seconds.
"""

import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import url2pathname

from nzc.storage.files import require_writable
from nzc.validation import InputError

#: The `uri` of conf/tracking/mlflow.yaml, which no one has typed.
USUAL_URI = "sqlite:///mlflow.db"
#: An address that begins so names a file; the path follows as it is, with no sign replaced.
_SQLITE = "sqlite:///"


@dataclass
class Destination:
    """A tracking server, or a local database (`sqlite:///FILE`) with its artifacts in the folder
    `artifacts`.

    model     whether to record the student as an MLflow model
    register  name of a registered model, of which the student becomes the next version
    private   whether to record also what may not be published: exact ε, accuracies of teachers,
              figures
    """

    uri: str
    artifacts: str
    model: bool = True
    register: str | None = None
    system_metrics: bool = True
    private: bool = True

    def __post_init__(self) -> None:
        self.system_metrics = (
            self.system_metrics and self.private
        )  # memory and time follow from private records, too
        self.is_usual = self.uri == USUAL_URI
        self.folder = Path(self.artifacts).absolute()
        self.file: Path | None = None
        if self.uri.startswith(_SQLITE):
            self.file = Path(self.uri.removeprefix(_SQLITE)).absolute()
            self.uri = f"{_SQLITE}{self.file}"

    def require_database(self) -> None:
        """Raise InputError where the local database can neither be read nor made."""
        if self.file is None:
            return
        require_writable("tracking.uri", self.file.parent)
        if not _is_database(self.file):  # MLflow would try for minutes
            raise InputError("tracking.uri", self.uri, "must be an SQLite database, or a new file")
        if (
            "?" in self.uri or not self.uri.isprintable()
        ):  # bytes that are not UTF-8 are not printable
            address_of(self.file)

    def require_artifacts(self, experiment: str, location: str) -> None:
        """Raise InputError where the local database keeps private artifacts of this experiment in
        another folder.
        """
        kept = Path(url2pathname(urlparse(location).path))
        if (
            self.file is not None and kept.resolve() != self.folder.resolve()
        ):  # as in a folder that was moved
            where = f"where {self.uri} keeps the artifacts of {experiment}"
            raise InputError(
                "tracking.artifacts",
                self.folder,
                f"must be {kept}, {where}; or give another tracking.uri",
            )


def artifacts_of(database: Path, experiment: str) -> str | None:
    """Return where MLflow's SQLite database keeps an experiment's artifacts; None: it does not have
    it yet.

    MLflow's own answer would take seconds. It asks again before it records anything.
    """
    if not database.is_file():
        return None
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection,
    ):
        asked = "SELECT artifact_location FROM experiments WHERE name = ?"
        found = connection.execute(asked, (experiment,)).fetchone()
        return None if found is None else str(found[0])
    return None


def address_of(file: Path) -> str:
    """Return the address of an SQLite database. InputError: the installed SQLAlchemy has none for
    this path.
    """
    from sqlalchemy import URL, make_url  # takes a quarter of a second to import

    with suppress(UnicodeEncodeError):
        address = URL.create("sqlite", database=str(file)).render_as_string(hide_password=False)
        if make_url(address).database == str(file):
            return address
    raise InputError(
        "tracking.uri", file, "must be a path in UTF-8, and without ? before SQLAlchemy 2.1"
    )


def _is_database(file: Path) -> bool:
    """Return whether `file` is an SQLite database, or can become one."""
    if not file.is_file():
        return not file.exists()
    with file.open("rb") as opened:
        return opened.read(6) in (b"", b"SQLite")
