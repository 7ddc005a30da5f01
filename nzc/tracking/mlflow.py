"""MLflow as tracker: one experiment a dataset; a sweep is the parent run of its jobs."""

import json
import logging
import math
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

from filelock import FileLock
from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, InputTag, LifecycleStage, Metric, Param, RunTag
from mlflow.exceptions import InvalidUrlException, MlflowException
from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID, MLFLOW_RUN_NAME, MLFLOW_RUN_NOTE
from mlflow.utils.validation import _validate_model_name
from sqlalchemy.exc import OperationalError

from nzc.runs import layout
from nzc.runs.formatting import RECALL, number
from nzc.runs.result import TRACKED, RunResult, tracked_as
from nzc.runs.summary import by_class, describe, describe_student
from nzc.sweeps.jobs import JOBS
from nzc.sweeps.page import summarise
from nzc.tracking.destination import Destination, address_of
from nzc.tracking.model import log_student
from nzc.tracking.record import LOCK, RECORD
from nzc.validation import InputError, in_a_line

#: Files that are never artifacts: the student is recorded as a model.
_KEPT = (layout.CURVES, layout.STUDENT, RECORD, LOCK)
#: Files that depend on no vote, and on no ε that follows from votes.
_PUBLIC = (
    layout.LABELS, layout.COUNTS, layout.PREDICTIONS, layout.STUDENT_INPUT, layout.LEARNING_CURVES, layout.SWEEP, JOBS,
    "confusion.svg", "confusion.png",
)  # fmt: skip
#: Numbers of result.json that are no metrics as they are: a δ, and those by class, whose names
#: MLflow may not take.
_APART = ("epsilon.published_delta", RECALL)


class Recorder:
    """Talks to MLflow for a run, or for a sweep."""

    def __init__(self, settings: Destination) -> None:
        self.settings, self.private = settings, settings.private
        self.uri = settings.uri if settings.file is None else address_of(settings.file)
        self.outage: Exception | None = None  # that `check_server` met
        self.run, self.begun = "", 0  # of the open run: id, milliseconds since 1970
        self.sent = 0  # lines of its learning curves
        self.monitor: SystemMetricsMonitor | None = None
        for name in ("mlflow", "urllib3", "alembic"):  # their errors are raised, too
            logging.getLogger(name).setLevel(logging.CRITICAL)

    @cached_property
    def client(self) -> MlflowClient:
        """The connection, with a database behind it."""
        if self.settings.file is not None:
            create_database(self.settings.file)
        return MlflowClient(tracking_uri=self.uri)

    def check_model_name(self, name: str) -> None:
        """Raise InputError where MLflow does not take the name of a registered model."""
        try:
            _validate_model_name(name)
        except MlflowException as error:
            allowed = f"must be a name that MLflow takes ({in_a_line(error, 200)})"
            raise InputError("tracking.register", name, allowed) from error

    def check_server(self, experiment: str) -> None:
        """Raise InputError where the address is wrong, or the server refuses us."""
        try:
            self._experiment(experiment)
        except Exception as error:  # MLflow and requests raise many types
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
        run = (runs or [self.client.create_run(experiment, self.begun, tags)])[0].info.run_id
        if run != self.run:
            self.run, self.sent = run, 0
        self.client.log_batch(
            self.run, params=[Param(key, value[:6000]) for key, value in record["params"].items()]
        )
        if (
            self.settings.system_metrics and record["params"] and record["ended"] is None
        ):  # a sweep has no params
            self.monitor = SystemMetricsMonitor(self.run, tracking_uri=self.uri)
            self.monitor.start()
        return self.run

    def send_curves(self, folder: Path) -> None:
        """Send the points of learning curves in the folder of the open run that were not sent yet."""
        lines = _curve_lines(folder)[self.sent :]
        points = list[Metric]()
        for key, step, value in (line.rsplit(",", 2) for line in lines):
            points += self._metrics({key: float(value)}, int(step))
        self.client.log_batch(self.run, points)
        self.sent += len(lines)

    def close(self, folder: Path, record: Mapping[str, Any]) -> None:
        if self.monitor is not None:
            self.monitor.finish()
        self.send_curves(folder)
        if not record["params"]:
            self._log_sweep(folder, record)
        elif record["ended"] == "FINISHED":
            self._log_run(folder)
        self.client.set_terminated(self.run, record["ended"], record["until"])

    def _experiment(self, name: str) -> str:
        """Return the experiment's id; InputError: its private artifacts are kept in another folder.

        MlflowException: it was deleted. MLflow keeps its name until it is restored, or deleted for
        good.
        """
        if (experiment := self.client.get_experiment_by_name(name)) is None:
            try:
                location = self.settings.folder.as_uri() if self.settings.file else None
                return str(self.client.create_experiment(name, location))
            except MlflowException:  # another process was faster
                if (experiment := self.client.get_experiment_by_name(name)) is None:
                    raise
        if experiment.lifecycle_stage == LifecycleStage.DELETED:
            restore = f"`mlflow experiments restore -x {experiment.experiment_id}`"
            raise MlflowException(
                f"experiment {name} is deleted: {restore} at {self.uri}, or another tracking.uri"
            )
        self.settings.require_artifacts(name, experiment.artifact_location)
        return str(experiment.experiment_id)

    def _log_run(self, folder: Path) -> None:
        """Log a finished run: its numbers, dataset, learning curves, files and student."""
        whole = RunResult.read(folder)
        result = whole if self.private else whole.public
        record = result.as_dict()
        figures = layout.with_infinity(layout.flatten({key: record[key] for key in TRACKED}))
        values = {
            tracked_as(key): value for key, value in figures.items() if not key.startswith(_APART)
        }
        values["epsilon"] = result.epsilon.published
        values |= by_class("recall", result.metrics.recall) | by_class(
            "epsilon_of", result.individual
        )
        self._log_values(values, {MLFLOW_RUN_NOTE: describe(result)})
        if (data := result.data) is not None:  # name, sizes and digest, but no row
            source = {"source_type": "nzc", "source": json.dumps({"dataset": result.dataset})}
            profile = json.dumps({key: value for key, value in data.items() if key != "digest"})
            dataset = Dataset(result.dataset, str(data["digest"])[:36], **source, profile=profile)
            self.client.log_inputs(
                self.run, [DatasetInput(dataset, [InputTag("mlflow.data.context", "all splits")])]
            )
        self._log_files(folder, "", ".hydra", layout.FIGURES)
        if not self.private:
            self.client.log_dict(self.run, record, layout.RESULT)
        if (self.settings.model or self.settings.register) and (folder / layout.STUDENT).is_file():
            log_student(
                self.uri, self.run, folder, self.settings.register, *describe_student(whole)
            )

    def _log_sweep(self, folder: Path, record: Mapping[str, Any]) -> None:
        """Log the summary and the files of a sweep, and close those of its jobs that were killed."""
        experiment = [self._experiment(record["experiment"])]
        lost = f"attributes.status = 'RUNNING' and tags.`{MLFLOW_PARENT_RUN_ID}` = '{self.run}'"
        for job in self.client.search_runs(experiment, lost):
            self.client.set_terminated(job.info.run_id, "KILLED")
        description, values, tags = summarise(
            folder, self.run, record.get("question", ""), self.private
        )
        self._log_values(values, tags | {MLFLOW_RUN_NOTE: description})
        self._log_files(folder, "", ".hydra", *([layout.FIGURES] if self.private else []))

    def _log_values(self, values: Mapping[str, float | None], tags: Mapping[str, str]) -> None:
        """Log values as metrics and tags. MLflow stores ∞ as a large number, so every ε is also a
        tag, as text.
        """
        known = {key: value for key, value in values.items() if value is not None}
        tags = {
            **tags,
            **{
                key: number(value, key) for key, value in known.items() if key.startswith("epsilon")
            },
        }
        self.client.log_batch(
            self.run, self._metrics(known), tags=[RunTag(*tag) for tag in tags.items()]
        )

    def _metrics(self, values: Mapping[str, float], step: int = 0) -> list[Metric]:
        """Return finite values as metrics, all of the same time, so that sending twice is sending
        once.
        """
        return [
            Metric(key, value, self.begun, step)
            for key, value in values.items()
            if math.isfinite(value)
        ]

    def _log_files(self, folder: Path, *inside: str) -> None:
        """Log the files of a run or a sweep that are in these of its folders as artifacts, without
        passwords.
        """
        for name in inside:
            for path in filter(Path.is_file, (folder / name).glob("*")):
                place = "config" if name == ".hydra" else name
                if path.name in _KEPT or not (
                    self.private or name == ".hydra" or path.name in _PUBLIC
                ):
                    continue
                if path.suffix in (".yaml", ".json"):
                    self.client.log_text(
                        self.run, layout.masked_file(path), str(Path(place, path.name))
                    )
                else:
                    self.client.log_artifact(self.run, str(path), place or None)


def create_database(file: Path) -> None:
    """Create MLflow's SQLite database, whole or not at all, one process at a time: MLflow can
    continue with no half.

    Tests replace this function to copy a database that was made before.
    """
    if not file.exists():
        with FileLock(lock := Path(f"{file}.lock"), mode=0o600):
            if not file.exists():
                partial = file.with_name(
                    f".{file.name}.{uuid4().hex}.partial"
                )  # MLflow keeps the names that it opened
                MlflowClient(tracking_uri=address_of(partial)).search_experiments(max_results=1)
                partial.rename(file)
            lock.unlink(missing_ok=True)  # whoever waits for it finds the database


def _is_outage(error: Exception) -> bool:
    """Return whether a store may answer later; otherwise its address is wrong."""
    if isinstance(error, MlflowException):
        return error.get_http_status_code() in (500, 502, 503, 504) and not isinstance(
            error, InvalidUrlException
        )
    return isinstance(error, OSError | OperationalError)


def _curve_lines(folder: Path) -> list[str]:
    """Return the whole lines CURVE,STEP,VALUE of student.csv, which may be growing."""
    file = folder / layout.LEARNING_CURVES
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    return text.rpartition("\n")[0].splitlines()[1:]
