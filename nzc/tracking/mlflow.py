"""MLflow as tracker: one experiment a dataset; a sweep is the parent run of its jobs."""

import json
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import Any
from uuid import uuid4

from filelock import FileLock
from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, InputTag, LifecycleStage, Metric, Param, RunTag
from mlflow.exceptions import InvalidUrlException, MlflowException
from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID, MLFLOW_RUN_NAME, MLFLOW_RUN_NOTE
from sqlalchemy.exc import OperationalError

from nzc.runs import layout
from nzc.runs.formatting import number
from nzc.runs.result import RunResult, tracked_figures
from nzc.runs.summary import describe_student, in_words
from nzc.sweeps.jobs import JOBS
from nzc.sweeps.page import summarise
from nzc.sweeps.table import Sweep
from nzc.tracking.model import log_student
from nzc.validation import InputError, Tree, in_a_line, masked

#: Files that are never artifacts: the student is recorded as a model.
_KEPT = (layout.CURVES, layout.STUDENT, layout.RECORD, layout.LOCK)
#: Files that depend on no vote, and on no ε that follows from votes.
_PUBLIC = (
    layout.LABELS,
    layout.COUNTS,
    layout.PREDICTIONS,
    layout.STUDENT_INPUT,
    layout.LEARNING_CURVES,
    layout.SWEEP,
    JOBS,
    "confusion.svg",
    "confusion.png",
)


class Recorder:
    """Talks to MLflow for a run, or for a sweep. `settings` are an `nzc.tracking.MLflow`."""

    def __init__(self, settings: Any) -> None:
        self.settings = settings
        self.private = settings.private
        self.uri = settings.uri if settings.file is None else _address_of(settings.file)
        self.run = ""  # id of the open run
        self.experiment = ""  # and of its experiment
        self.begun = 0  # when it began, in milliseconds since 1970
        self.sent = 0  # how many lines of its learning curves were sent
        self.monitor: SystemMetricsMonitor | None = None

    @cached_property
    def client(self) -> MlflowClient:
        """The connection, with a database behind it."""
        if self.settings.file is not None:
            create_database(self.settings.file)
        return MlflowClient(tracking_uri=self.uri)

    def check_model_name(self, name: str) -> None:
        """Raise InputError where MLflow does not take the name of a registered model."""
        if not name.strip(". ") or {"/", ":"} & {*name}:
            raise InputError("tracking.register", name, "must be a name without / and :")

    def check_server(self, experiment: str) -> None:
        """Raise InputError where the address is wrong, or the server refuses us."""
        try:
            self._experiment(experiment)
        except Exception as error:  # MLflow and requests raise many types
            if not _is_outage(error):
                raise InputError(
                    "tracking.uri",
                    self.uri,
                    f"must be a store that MLflow can open ({in_a_line(error, 200)})",
                ) from error

    def open(self, record: Tree, parent: str | None) -> str:
        """Open the run of a record, or find it by its key; return its id."""
        self.experiment = self._experiment(record["experiment"])
        self.begun = record["begun"]
        found = [*self.client.search_runs([self.experiment], f"tags.`nzc.key` = '{record['key']}'")]
        if not found:
            found = [self.client.create_run(self.experiment, self.begun, _tags(record, parent))]
        run: str = found[0].info.run_id
        if run != self.run:
            self.run = run
            self.sent = 0
        params = [Param(key, value[:6000]) for key, value in record["params"].items()]
        self.client.log_batch(run, params=params)
        if self.settings.system_metrics and params and record["ended"] is None:  # no sweep
            self.monitor = SystemMetricsMonitor(run, tracking_uri=self.uri)
            self.monitor.start()
        return run

    def send_curves(self, folder: Path) -> None:
        """Send what was not sent yet of the learning curves in the folder of the open run."""
        file = folder / layout.LEARNING_CURVES
        if not file.is_file():
            return
        whole = file.read_text(encoding="utf-8").rpartition("\n")[0]  # the file may be growing
        lines = whole.splitlines()[1 + self.sent :]
        points: list[Metric] = []
        for line in lines:
            name, step, value = line.rsplit(",", 2)
            points += self._metrics({name: float(value)}, int(step))
        self.client.log_batch(self.run, points)
        self.sent += len(lines)

    def close(self, folder: Path, record: Tree) -> str:
        """Log what the open run left in `folder`, and how it ended; return how to look at it.

        That is empty for a job: the view of its sweep shows it.
        """
        swept = []
        if self.monitor is not None:
            self.monitor.finish()
        self.send_curves(folder)
        if not record["params"]:
            swept = self._log_sweep(folder, record)
        elif record["ended"] == "FINISHED":
            self._log_run(folder)
        self.client.set_terminated(self.run, record["ended"], record["until"])
        return "" if record["sweep"] else self._write_view(swept)

    def _experiment(self, name: str) -> str:
        """Return the experiment's id; InputError: its private artifacts are kept in another folder.

        MlflowException: it was deleted. MLflow keeps its name until it is restored, or deleted for
        good.
        """
        experiment = self.client.get_experiment_by_name(name)
        if experiment is None:
            location = self.settings.folder.as_uri() if self.settings.file else None
            try:
                return str(self.client.create_experiment(name, location))
            except MlflowException:  # another process was faster
                experiment = self.client.get_experiment_by_name(name)
                if experiment is None:
                    raise
        if experiment.lifecycle_stage == LifecycleStage.DELETED:
            raise MlflowException(
                f"experiment {name} is deleted: `mlflow experiments restore -x "
                f"{experiment.experiment_id}` at {self.uri}, or another tracking.uri"
            )
        self.settings.require_artifacts(name, experiment.artifact_location)
        return str(experiment.experiment_id)

    def _log_run(self, folder: Path) -> None:
        """Log a finished run: its numbers, dataset, files and student."""
        whole = RunResult.read(folder)
        result = whole if self.private else whole.public
        self._log_values(tracked_figures(result), {MLFLOW_RUN_NOTE: in_words(result)})
        if result.data is not None:
            self._log_dataset(result.dataset, result.data)
        self._log_files(folder, "", ".hydra", layout.FIGURES)
        if not self.private:
            self.client.log_dict(self.run, result.as_dict(), layout.RESULT)
        settings = self.settings
        if (settings.model or settings.register) and (folder / layout.STUDENT).is_file():
            about, tags = describe_student(whole)
            log_student(self.uri, self.run, folder, settings.register, about, tags)

    def _log_dataset(self, name: str, data: Mapping[Any, Any]) -> None:
        """Log the dataset of a run: name, sizes and digest, but no row."""
        profile = {key: value for key, value in data.items() if key != "digest"}
        dataset = Dataset(
            name,
            str(data["digest"])[:36],
            source_type="nzc",
            source=json.dumps({"dataset": name}),
            profile=json.dumps(profile),
        )
        self.client.log_inputs(
            self.run, [DatasetInput(dataset, [InputTag("mlflow.data.context", "all splits")])]
        )

    def _log_sweep(self, folder: Path, record: Tree) -> list[str]:
        """Log the summary and the files of a sweep, and close its jobs that were killed.

        Return the keys that it sweeps over.
        """
        lost = f"attributes.status = 'RUNNING' and tags.`{MLFLOW_PARENT_RUN_ID}` = '{self.run}'"
        for job in self.client.search_runs([self.experiment], lost):
            self.client.set_terminated(job.info.run_id, "KILLED")
        sweep = Sweep(folder)
        question = record.get("question", "")
        description, values, tags = summarise(sweep, self.run, question, self.private)
        self._log_values(values, {**tags, MLFLOW_RUN_NOTE: description})
        self._log_files(folder, "", ".hydra")
        if self.private:
            self._log_files(folder, layout.FIGURES)
        return sweep.swept

    def _write_view(self, swept: Sequence[str]) -> str:
        """Keep a view of MLflow's table with accuracy, ε and `swept`; return how to open it.

        MLflow keeps the state of its page in a tag of the experiment, which an address names.
        """
        name = "nzc"
        view = json.loads(Path(__file__).with_name("view.json").read_text(encoding="utf-8"))
        if swept:
            name += f"-{self.run[:8]}"
            view["searchFilter"] = f"tags.`{MLFLOW_PARENT_RUN_ID}` = '{self.run}'"
            view["orderByKey"] = "metrics.`accuracy`"  # by time, MLflow would hide jobs in parents
        if self.private:
            view["selectedColumns"].append("metrics.`epsilon_exact`")
        view["selectedColumns"] += [f"params.`{key}`" for key in swept]
        tag = f"mlflow.sharedViewState.{name}"
        self.client.set_experiment_tag(self.experiment, tag, json.dumps(view))
        address = self.uri.rstrip("/")
        if not address.startswith("http"):
            address = f"mlflow ui --backend-store-uri {quote(address)}\nhttp://127.0.0.1:5000"
        return masked(f"{address}/#/experiments/{self.experiment}/runs?viewStateShareKey={name}")

    def _log_values(self, values: Mapping[str, float | None], tags: Mapping[str, str]) -> None:
        """Log values as metrics and tags. Every ε is a tag, too, as a metric cannot be infinite."""
        known = {key: value for key, value in values.items() if value is not None}
        texts = dict(tags)
        for key, value in known.items():
            if key.startswith("epsilon"):
                texts[key] = number(value, key)
        tagged = [RunTag(*tag) for tag in texts.items()]
        self.client.log_batch(self.run, self._metrics(known), tags=tagged)

    def _metrics(self, values: Mapping[str, float], step: int = 0) -> list[Metric]:
        """Return finite values as metrics, all of one time: sending twice is sending once."""
        return [
            Metric(key, value, self.begun, step)
            for key, value in values.items()
            if math.isfinite(value)
        ]

    def _log_files(self, folder: Path, *inside: str) -> None:
        """Log the files in these folders of a run or a sweep as artifacts, without passwords."""
        for name in inside:
            all_files = self.private or name == ".hydra"
            place = {".hydra": "config"}.get(name, name)
            for path in filter(Path.is_file, (folder / name).glob("*")):
                if (
                    path.name in _KEPT
                    or path.suffix == ".pickle"
                    or not (all_files or path.name in _PUBLIC)
                ):
                    continue
                if path.suffix in (".yaml", ".json"):
                    self.client.log_text(
                        self.run, layout.masked_file(path), str(Path(place, path.name))
                    )
                else:
                    self.client.log_artifact(self.run, str(path), place or None)


def _tags(record: Tree, parent: str | None) -> dict[str, str]:
    """Return the tags of a new run."""
    tags = {
        MLFLOW_RUN_NAME: in_a_line(record["name"], 250),
        "nzc.process": record["process"],
        "nzc.key": record["key"],
        MLFLOW_PARENT_RUN_ID: parent,
        MLFLOW_RUN_NOTE: record.get("question"),
    }
    return {key: text for key, text in tags.items() if text}


def create_database(file: Path) -> None:
    """Create MLflow's SQLite database, whole or not at all, one process at a time.

    MLflow can continue with no half. Tests replace this function to copy a database that was made
    before.
    """
    if file.exists():
        return
    lock = Path(f"{file}.lock")
    with FileLock(lock, mode=0o600):
        if not file.exists():
            # A new name, because MLflow keeps those that it has opened.
            partial = file.with_name(f".{file.name}.{uuid4().hex}.partial")
            MlflowClient(tracking_uri=_address_of(partial)).search_experiments(max_results=1)
            partial.rename(file)
        lock.unlink(missing_ok=True)  # whoever waits for it finds the database


def _is_outage(error: Exception) -> bool:
    """Return whether a store may answer later; otherwise its address is wrong."""
    if isinstance(error, InvalidUrlException):
        return False
    if isinstance(error, MlflowException):
        return error.get_http_status_code() in (500, 502, 503, 504)
    return isinstance(error, OSError | OperationalError)


def _address_of(file: Path) -> str:
    """Return the address of an SQLite database."""
    from sqlalchemy import URL  # takes a quarter of a second to import

    return URL.create("sqlite", database=str(file)).render_as_string(hide_password=False)
