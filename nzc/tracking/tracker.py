"""MLflow as tracker: its settings, and what is known without its import, which takes seconds."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlparse
from urllib.request import url2pathname

from nzc.saying import say
from nzc.storage.files import require_writable
from nzc.validation import InputError, one_line

if TYPE_CHECKING:
    from nzc.tracking.mlflow import Recorder

#: The `uri` of conf/tracking/mlflow.yaml, which no one has typed.
USUAL_URI = "sqlite:///mlflow.db"
#: An address that begins so names a file; the path follows as it is, with no sign replaced.
_SQLITE = "sqlite:///"
#: The levels, by name, of loggers that a recorder has silenced.
_levels: dict[str, int] = {}


@contextmanager
def restored() -> Iterator[None]:
    """Leave MLflow's variables and loggers as they were before this context."""
    _levels.clear()
    variables = set(os.environ)
    try:
        yield
    finally:
        for name in os.environ.keys() - variables:
            if name.startswith("MLFLOW_"):
                del os.environ[name]
        for name, level in _levels.items():
            logging.getLogger(name).setLevel(level)


@dataclass
class MLflow:
    """A tracking server, or a local database (`sqlite:///FILE`) with its artifacts in a folder.

    artifacts  the folder; a server chooses its own
    model      whether to record the student as an MLflow model
    register   name of a registered model, of which the student becomes the next version
    private    whether to record also what may not be published: exact ε, accuracies of teachers,
               figures
    """

    uri: str
    artifacts: str
    model: bool = True
    register: str | None = None
    system_metrics: bool = True
    private: bool = True

    def __post_init__(self) -> None:
        if not self.private:
            self.system_metrics = False  # memory and time follow from private records, too
        self.is_usual = self.uri == USUAL_URI
        self.folder = Path(self.artifacts).absolute()
        self.file: Path | None = None
        if self.uri.startswith(_SQLITE):
            self.file = Path(self.uri.removeprefix(_SQLITE)).absolute()
            self.uri = f"{_SQLITE}{self.file}"

    @cached_property
    def recorder(self) -> "Recorder":
        """What talks to MLflow. Wrong input makes none, and so leaves no database behind."""
        from nzc.tracking.mlflow import Recorder

        self._require_database()
        for name in ("mlflow", "urllib3", "alembic"):  # their errors are raised, too
            logger = logging.getLogger(name)
            _levels.setdefault(name, logger.level)
            logger.setLevel(logging.CRITICAL)
        return Recorder(self)

    def check(self, experiment: str) -> None:
        """Raise InputError where runs can never be recorded.

        MLflow opens a local database later. What it says of it then, such as that another version
        made it, is an outage.
        """
        self._name_ignored_address()
        if self.register is not None:
            self.recorder.check_model_name(self.register)
        if self.file is None:
            self.recorder.check_server(experiment)
        self._require_database()

    def require_artifacts(self, experiment: str, location: str) -> None:
        """Raise InputError where a local database keeps the experiment's artifacts elsewhere."""
        kept = Path(url2pathname(urlparse(location).path))
        if self.file is not None and kept.resolve() != self.folder.resolve():
            raise InputError(
                "tracking.artifacts",
                self.folder,
                f"must be {kept}, where {self.uri} keeps the artifacts of {experiment}; or give "
                "another tracking.uri",
            )

    def _require_database(self) -> None:
        """Raise InputError where the local database can neither be read nor made."""
        if self.file is None:
            return
        require_writable("tracking.uri", self.file.parent)
        if self.file.exists() and not _is_database(self.file):  # MLflow would try for minutes
            raise InputError("tracking.uri", self.uri, "must be an SQLite database, or a new file")

    def _name_ignored_address(self) -> None:
        """Print that MLflow's own variable would lead this run elsewhere, and what to type.

        It is not followed: what is recorded is private, and goes where the configuration says.
        """
        address = os.environ.get("MLFLOW_TRACKING_URI")
        if self.is_usual and address and address not in (self.uri, USUAL_URI):
            say(
                one_line(
                    f"MLFLOW_TRACKING_URI is set, but not followed: {self.uri} records this; "
                    "type 'tracking.uri=${oc.env:MLFLOW_TRACKING_URI}' to record it there"
                )
            )


def _is_database(file: Path) -> bool:
    """Return whether `file` is an SQLite database, or empty."""
    if not file.is_file():
        return False
    with file.open("rb") as opened:
        return opened.read(6) in (b"", b"SQLite")
