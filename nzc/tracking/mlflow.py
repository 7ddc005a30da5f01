"""MLflow as tracker: one experiment a dataset; a sweep is the parent run of its jobs."""

import json
import logging
import math
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

from filelock import FileLock
from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, InputTag, LifecycleStage, Metric, Param, RunTag
from mlflow.environment_variables import MLFLOW_EXPERIMENT_NAME, MLFLOW_TRACKING_URI
from mlflow.exceptions import InvalidUrlException, MlflowException
from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor
from mlflow.utils.file_utils import local_file_uri_to_path
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID, MLFLOW_RUN_NAME, MLFLOW_RUN_NOTE
from mlflow.utils.validation import _validate_model_name
from sqlalchemy import URL, make_url
from sqlalchemy.exc import OperationalError

from nzc.runs import layout
from nzc.runs.formatting import RECALL, number
from nzc.runs.result import TRACKED, RunResult, tracked_as
from nzc.runs.summary import by_class, describe, describe_student
from nzc.storage.files import require_writable
from nzc.sweeps.frame import JOBS
from nzc.sweeps.page import summarise
from nzc.tracking.model import log_student
from nzc.tracking.record import LOCK, RECORD, Tracker
from nzc.validation import InputError, in_a_line, one_line

#: Files that are never artifacts: the student is recorded as a model.
_KEPT = (layout.CURVES, layout.STUDENT, RECORD, LOCK)
#: Files that depend on no vote, and on no ε that follows from votes.
_PUBLIC = (
    layout.LABELS, layout.COUNTS, layout.PREDICTIONS, layout.STUDENT_INPUT, layout.LEARNING_CURVES, layout.SWEEP, JOBS,
    "confusion.svg", "confusion.png",
)  # fmt: skip
#: The `uri` of conf/tracking/mlflow.yaml, which no one has typed.
USUAL_URI = "sqlite:///mlflow.db"
#: Points of learning curves are sent together after so many seconds, because each request takes milliseconds.
_TOGETHER = 2.0
#: Numbers of result.json that are no metrics as they are: a δ, and those by class, whose names MLflow may not take.
_APART = ("epsilon.published_delta", RECALL)
#: An address that begins so names a file; the path follows as it is, with no sign replaced.
_SQLITE = "sqlite:///"


@dataclass
class MLflow(Tracker):
    """A tracking server, or a local database (`sqlite:///FILE`) with its artifacts in the folder `artifacts`.

    model     whether to record the student as an MLflow model
    register  name of a registered model, of which the student becomes the next version
    """

    uri: str
    artifacts: str
    model: bool = True
    register: str | None = None
    system_metrics: bool = True
    private: bool = True

    def __post_init__(self) -> None:
        self.system_metrics = self.system_metrics and self.private  # memory and time follow from private records, too
        self.is_usual = self.uri == USUAL_URI
        self.folder = Path(self.artifacts).absolute()
        self.file: Path | None = None
        if self.uri.startswith(_SQLITE):
            self.file = Path(self.uri.removeprefix(_SQLITE)).absolute()
            self.uri = address_of(self.file)
        self.outage: Exception | None = None  # that `check` met
        self.run, self.begun = "", 0  # of the open run: id, milliseconds since 1970
        self.points = list[Metric]()  # not sent yet
        self.sent = set[tuple[str, str, int]]()  # run, key and step of points
        self.last = -math.inf  # when points were sent
        self.monitor: SystemMetricsMonitor | None = None
        for name in ("mlflow", "urllib3", "alembic"):  # their errors are raised, too
            logging.getLogger(name).setLevel(logging.CRITICAL)

    @cached_property
    def client(self) -> MlflowClient:
        """The connection; made when it is first needed, so that wrong input leaves no database behind."""
        if self.file is not None:
            require_writable("tracking.uri", self.file.parent)
            if not _is_database(self.file):  # MLflow would try for minutes
                raise InputError("tracking.uri", self.uri, "must be an SQLite database, or a new file")
            create_database(self.file)
        return MlflowClient(tracking_uri=self.uri)

    def check(self, experiment: str) -> None:
        if self.register is not None:
            try:
                _validate_model_name(self.register)
            except MlflowException as error:
                allowed = f"must be a name that MLflow takes ({in_a_line(error, 200)})"
                raise InputError("tracking.register", self.register, allowed) from error
        self._name_ignored_variables(experiment)
        try:
            self._experiment(experiment)
        except InputError:
            raise
        except Exception as error:  # MLflow, requests and SQLAlchemy raise many types
            if not _is_outage(error):
                allowed = f"must be a store that MLflow can open ({in_a_line(error, 200)})"
                raise InputError("tracking.uri", self.uri, allowed) from error
            self.outage = error

    def open(self, record: Mapping[str, Any], parent: str | None) -> str:
        if self.outage is not None:
            raise self.outage
        experiment, self.begun = self._experiment(record["experiment"]), record["begun"]
        tags = {MLFLOW_RUN_NAME: in_a_line(record["name"], 250), "nzc.process": record["process"]}
        tags |= {"nzc.key": record["key"]} | ({MLFLOW_PARENT_RUN_ID: parent} if parent else {})
        tags |= {MLFLOW_RUN_NOTE: record["question"]} if record.get("question") else {}
        runs = self.client.search_runs([experiment], f"tags.`nzc.key` = '{record['key']}'")
        self.run = (runs or [self.client.create_run(experiment, self.begun, tags)])[0].info.run_id
        self.client.log_batch(self.run, params=[Param(key, value[:6000]) for key, value in record["params"].items()])
        if self.system_metrics and record["params"] and record["ended"] is None:  # a sweep has no params
            self.monitor = SystemMetricsMonitor(self.run, tracking_uri=self.uri)
            self.monitor.start()
        return self.run

    def log(self, values: Mapping[str, float], step: int) -> None:
        # As in student.csv: MLflow keeps one of two points that are equal in key, value, time and step.
        self.points += self._metrics({key: float(f"{value:.9g}") for key, value in values.items()}, step)
        if time.monotonic() - self.last >= _TOGETHER:
            self._send_points()

    def close(self, folder: Path, record: Mapping[str, Any]) -> None:
        if self.monitor is not None:
            self.monitor.finish()
        self._send_points()
        if not record["params"]:
            self._log_sweep(folder, record)
        elif record["ended"] == "FINISHED":
            self._log_run(folder)
        self.client.set_terminated(self.run, record["ended"], record["until"])

    def _name_ignored_variables(self, experiment: str) -> None:
        """Print which of MLflow's variables would lead this run elsewhere, and what the user can type instead.

        They are not followed: by default what is recorded is private, and only the configuration says where it goes.
        """
        address = MLFLOW_TRACKING_URI.get()
        if self.is_usual and address and address not in (self.uri, USUAL_URI):
            typed = "type 'tracking.uri=${oc.env:MLFLOW_TRACKING_URI}' to record it there"
            line = f"MLFLOW_TRACKING_URI is set, but not followed: {self.uri} records this; {typed}"
            print(f"nzc: {one_line(line)}", file=sys.stderr)
        name = MLFLOW_EXPERIMENT_NAME.get()
        if name and name != experiment:
            line = f"MLFLOW_EXPERIMENT_NAME is set, but not followed: the experiment of this dataset is {experiment}"
            print(f"nzc: {one_line(line)}", file=sys.stderr)

    def _experiment(self, name: str) -> str:
        """Return the experiment's id; InputError: its private artifacts are kept in another folder.

        MlflowException: it was deleted. MLflow keeps its name until it is restored, or deleted for good.
        """
        if (experiment := self.client.get_experiment_by_name(name)) is None:
            try:
                location = self.folder.as_uri() if self.file else None
                return str(self.client.create_experiment(name, location))
            except MlflowException:  # another process was faster
                if (experiment := self.client.get_experiment_by_name(name)) is None:
                    raise
        if experiment.lifecycle_stage == LifecycleStage.DELETED:
            restore = f"`mlflow experiments restore -x {experiment.experiment_id}`"
            raise MlflowException(f"experiment {name} is deleted: {restore} at {self.uri}, or another tracking.uri")
        kept = local_file_uri_to_path(experiment.artifact_location)
        if self.file and Path(kept).resolve() != self.folder.resolve():  # as in a folder that was moved
            allowed = f"must be {kept}, where {self.uri} keeps the artifacts of {name}; or give another tracking.uri"
            raise InputError("tracking.artifacts", self.folder, allowed)
        return str(experiment.experiment_id)

    def _log_run(self, folder: Path) -> None:
        """Log a finished run: its numbers, dataset, learning curves, files and student."""
        whole = RunResult.read(folder)
        result = whole if self.private else whole.public
        record = result.as_dict()
        figures = layout.with_infinity(layout.flatten({key: record[key] for key in TRACKED}))
        values = {tracked_as(key): value for key, value in figures.items() if not key.startswith(_APART)}
        values["epsilon"] = result.epsilon.published
        values |= by_class("recall", result.metrics.recall) | by_class("epsilon_of", result.individual)
        self._log_values(values, {MLFLOW_RUN_NOTE: describe(result)})
        if (data := result.data) is not None:  # name, sizes and digest, but no row
            source = {"source_type": "nzc", "source": json.dumps({"dataset": result.dataset})}
            profile = json.dumps({key: value for key, value in data.items() if key != "digest"})
            dataset = Dataset(result.dataset, str(data["digest"])[:36], **source, profile=profile)
            self.client.log_inputs(self.run, [DatasetInput(dataset, [InputTag("mlflow.data.context", "all splits")])])
        curves = folder / layout.LEARNING_CURVES
        lines = curves.read_text(encoding="utf-8").splitlines()[1:] if curves.is_file() else []
        for key, step, value in (line.rsplit(",", 2) for line in lines):
            if (self.run, key, int(step)) not in self.sent:  # sending these again would be right, but slow
                self.points += self._metrics({key: float(value)}, int(step))
        self._send_points()
        self._log_files(folder, "", ".hydra", layout.FIGURES)
        if not self.private:
            self.client.log_dict(self.run, record, layout.RESULT)
        if (self.model or self.register) and (folder / layout.STUDENT).is_file():
            log_student(self.uri, self.run, folder, self.register, *describe_student(whole))

    def _log_sweep(self, folder: Path, record: Mapping[str, Any]) -> None:
        """Log the summary and the files of a sweep, and close those of its jobs that were killed."""
        experiment = [self._experiment(record["experiment"])]
        lost = f"attributes.status = 'RUNNING' and tags.`{MLFLOW_PARENT_RUN_ID}` = '{self.run}'"
        for job in self.client.search_runs(experiment, lost):
            self.client.set_terminated(job.info.run_id, "KILLED")
        description, values, tags = summarise(folder, self.run, record.get("question", ""), self.private)
        self._log_values(values, tags | {MLFLOW_RUN_NOTE: description})
        self._log_files(folder, "", ".hydra", *([layout.FIGURES] if self.private else []))

    def _log_values(self, values: Mapping[str, float | None], tags: Mapping[str, str]) -> None:
        """Log values as metrics and tags. MLflow stores ∞ as a large number, so every ε is also a tag, as text."""
        known = {key: value for key, value in values.items() if value is not None}
        tags = {**tags, **{key: number(value, key) for key, value in known.items() if key.startswith("epsilon")}}
        self.client.log_batch(self.run, self._metrics(known), tags=[RunTag(*tag) for tag in tags.items()])

    def _send_points(self) -> None:
        self.client.log_batch(self.run, self.points)
        self.sent |= {(self.run, point.key, point.step) for point in self.points}
        self.points, self.last = [], time.monotonic()

    def _metrics(self, values: Mapping[str, float], step: int = 0) -> list[Metric]:
        """Return finite values as metrics, all of the same time, so that sending twice is sending once."""
        return [Metric(key, value, self.begun, step) for key, value in values.items() if math.isfinite(value)]

    def _log_files(self, folder: Path, *inside: str) -> None:
        """Log the files of a run or a sweep that are in these of its folders as artifacts, without passwords."""
        for name in inside:
            for path in filter(Path.is_file, (folder / name).glob("*")):
                place = "config" if name == ".hydra" else name
                if path.name in _KEPT or not (self.private or name == ".hydra" or path.name in _PUBLIC):
                    continue
                if path.suffix in (".yaml", ".json"):
                    self.client.log_text(self.run, layout.masked_file(path), str(Path(place, path.name)))
                else:
                    self.client.log_artifact(self.run, str(path), place or None)


def create_database(file: Path) -> None:
    """Create MLflow's SQLite database, whole or not at all, one process at a time: MLflow can continue with no half.

    Tests replace this function to copy a database that was made before.
    """
    if not file.exists():
        with FileLock(lock := Path(f"{file}.lock"), mode=0o600):
            if not file.exists():
                partial = file.with_name(f".{file.name}.{uuid4().hex}.partial")  # MLflow keeps the names that it opened
                MlflowClient(tracking_uri=address_of(partial)).search_experiments(max_results=1)
                partial.rename(file)
            lock.unlink(missing_ok=True)  # whoever waits for it finds the database


def address_of(file: Path) -> str:
    """Return the address of an SQLite database. InputError: the installed SQLAlchemy has none for this path."""
    with suppress(UnicodeEncodeError):
        address = URL.create("sqlite", database=str(file)).render_as_string(hide_password=False)
        if make_url(address).database == str(file):
            return address
    raise InputError("tracking.uri", file, "must be a path in UTF-8, and without ? before SQLAlchemy 2.1")


def _is_database(file: Path) -> bool:
    """Return whether `file` is an SQLite database, or can become one."""
    if not file.is_file():
        return not file.exists()
    with file.open("rb") as opened:
        return opened.read(6) in (b"", b"SQLite")


def _is_outage(error: Exception) -> bool:
    """Return whether a store may answer later; otherwise its address is wrong."""
    if isinstance(error, MlflowException):
        return error.get_http_status_code() in (500, 502, 503, 504) and not isinstance(error, InvalidUrlException)
    return isinstance(error, OSError | OperationalError)
