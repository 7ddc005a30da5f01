"""MLflow: an experiment per dataset holds its runs; a sweep is the parent of its own. The only import of mlflow."""

import json
import logging
import math
import os
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

import mlflow
import numpy as np
import requests
from filelock import FileLock
from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, InputTag, LoggedModelStatus, Metric, Param, Run, RunTag
from mlflow.exceptions import MlflowException
from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor
from mlflow.utils.file_utils import local_file_uri_to_path
from mlflow.utils.mlflow_tags import MLFLOW_MODEL_VERSIONS

from nzc import curves
from nzc.errors import InputError, in_a_line, masked
from nzc.report import EPSILONS, Report, number
from nzc.report.folder import FIGURES, PROGRESS, RESULT, STUDENT
from nzc.tracking.tracked import LOCK, NOTE, PARENT, dead, process
from nzc.tracking.tracker import PUBLIC, Tracker, Unreachable

#: The tag that names the process of a run: by it the next start knows which runs are open but dead.
_PROCESS = "nzc.process"
#: The tag by which a run is known wherever it was sent.
_KEY = "nzc.key"
#: Why MLflow gives up on a server that is there, but is not well: 5xx again and again, or nothing.
_AWAY = (requests.exceptions.RetryError, requests.ConnectionError, requests.Timeout)


class MLflow(Tracker):
    """A tracking server, or a local database (`sqlite:///FILE`) with artifacts in a folder."""

    def __init__(
        self, uri: str, artifacts: str, model: bool, register: str | None, system_metrics: bool, private: bool = True
    ) -> None:
        if uri.startswith("sqlite:///"):  # a relative path means the working directory of now
            uri = f"sqlite:///{Path(uri.removeprefix('sqlite:///')).absolute()}"
        if register is not None and not model:
            raise InputError("register", register, "must be null where tracking.model=false")
        self.uri, self.artifacts = uri, str(Path(artifacts).absolute())
        self.model, self.register = model, register
        self.system_metrics, self.private = system_metrics, private
        self.monitors: dict[str, SystemMetricsMonitor] = {}
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3")  # a server that is gone: seconds, not minutes
        logging.getLogger("mlflow").setLevel(logging.WARNING)
        logging.getLogger("mlflow.system_metrics").setLevel(logging.CRITICAL)  # whoever sends the run says it
        logging.getLogger("urllib3").setLevel(logging.ERROR)
        logging.getLogger("alembic").setLevel(logging.WARNING)

    @cached_property
    def client(self) -> MlflowClient:
        """The connection; made when the first run starts, so that wrong input leaves no database behind."""
        self._ask()
        try:
            if self.uri.startswith("sqlite:///"):
                _make(Path(self.uri.removeprefix("sqlite:///")))
            client = MlflowClient(tracking_uri=self.uri)
            client.search_experiments(max_results=1)
            for path, mode in {self.uri.removeprefix("sqlite:///"): 0o600, self.artifacts: 0o700}.items():
                if self.private and self.uri.startswith("sqlite:///") and os.path.exists(path):
                    with suppress(PermissionError):  # made by somebody else, whose it is to open or close
                        os.chmod(path, mode)
        except Exception as error:  # MLflow raises many kinds, down to SQLAlchemy's
            raise self._unusable(error) from error
        return client

    def start(
        self, experiment: str, name: str, params: dict[str, Any], parent: str | None, begun: int, key: str
    ) -> str:
        client, tags = self.client, {"mlflow.runName": name, _PROCESS: process(), _KEY: key}
        tags |= {"mlflow.parentRunId": parent} if parent else {}
        try:
            if parent is None:
                self._kill([run for run in self._open() if dead(run.data.tags.get(_PROCESS) or "? 0 0")])
            of, there = self._experiment(experiment), self._found(f"tags.`{_KEY}` = '{key}'")
            run: str = (there or [client.create_run(of, begun, tags)])[0].info.run_id
            try:
                client.log_batch(run, params=[Param(key, masked(value)[:6000]) for key, value in params.items()])
                if self.system_metrics and params:  # not of a sweep's parent
                    self.monitors[run] = SystemMetricsMonitor(run, tracking_uri=self.uri)
                    self.monitors[run].start()
            except BaseException as error:  # nobody else knows of it yet
                with suppress(Exception):  # why it was not opened is what must be said
                    self.fail(run, isinstance(error, KeyboardInterrupt))
                raise
        except MlflowException as error:
            raise self._unusable(error) from error
        return run

    def draw(self, run: str, values: Mapping[str, float], step: int) -> None:
        self._ask()
        now = int(1000 * time.time())
        self.client.log_batch(run, metrics=[Metric(k, v, now, step) for k, v in values.items() if math.isfinite(v)])

    def finish(self, run: str, folder: Path, ended: int | None = None) -> None:
        self._unwatch(run)
        self._ask()
        try:
            if (folder / RESULT).is_file():
                report = Report.read(folder)
                self._log(run, report if self.private else report.public)
                self._log_curves(run, folder)
            else:  # a sweep
                self._kill(self._open(run))
            for path in self._files(folder):
                self._send_file(run, path)
            figures = {FIGURES: FIGURES} if self.private or (folder / RESULT).is_file() else {}
            for inner, name in {".hydra": "config", **figures}.items():
                for path in self._files(folder / inner) if (folder / inner).is_dir() else ():
                    self._send_file(run, path, name)
            if (folder / STUDENT).is_file() and self.model:
                with self._of_process():
                    self._register(self._has_model(run) or self._log_model(run, folder / STUDENT))
        finally:
            self.client.set_terminated(run, "FINISHED", ended)

    def fail(self, run: str, stopped: bool, ended: int | None = None) -> None:
        self._unwatch(run)
        self._ask()
        self._kill(self._open(run))
        self.client.set_terminated(run, "KILLED" if stopped else "FAILED", ended)

    def _files(self, folder: Path) -> list[Path]:
        """What of a folder is sent. The student is, as a model."""
        kept = (curves.FILE, STUDENT, NOTE, LOCK, PARENT)
        files = [path for path in folder.iterdir() if path.is_file() and path.name not in kept]
        return [path for path in files if self.private or path.name in PUBLIC or folder.name == ".hydra"]

    def _send_file(self, run: str, path: Path, below: str | None = None) -> None:
        if path.suffix in (".yaml", ".json"):  # a configuration may hold a password, which stays here
            self.client.log_text(run, masked(path.read_text()), f"{below}/{path.name}" if below else path.name)
        else:
            self.client.log_artifact(run, str(path), below)

    def _ask(self) -> None:
        """Unreachable where no server answers; MLflow itself would try for minutes."""
        if not self.uri.startswith(("http://", "https://")):
            return
        try:
            answer = requests.get(f"{self.uri.rstrip('/')}/health", timeout=10)
        except requests.exceptions.SSLError:  # somebody is there; whom to trust is MLflow's to know
            return
        except requests.RequestException as error:
            if not isinstance(error, requests.ConnectionError | requests.Timeout):
                raise self._unusable(error) from error
            raise Unreachable(f"tracking.uri={self.uri} does not answer") from error
        if answer.status_code >= 500:
            raise Unreachable(f"tracking.uri={self.uri} answers {answer.status_code}")

    def _unwatch(self, run: str) -> None:
        """A monitor waits for a server as long as MLflow does; nobody else should."""
        if monitor := self.monitors.pop(run, None):
            ending = Thread(target=monitor.finish, daemon=True)
            ending.start()
            ending.join(10)

    def _open(self, parent: str | None = None) -> list[Run]:
        """Runs that nobody closed, of one parent if given."""
        below = f" and tags.`mlflow.parentRunId` = '{parent}'" if parent else ""
        return self._found(f"attributes.status = 'RUNNING'{below}")

    def _found(self, query: str) -> list[Run]:
        everywhere = [experiment.experiment_id for experiment in self.client.search_experiments()]
        return list(self.client.search_runs(everywhere, query))

    def _kill(self, runs: list[Run]) -> None:
        for run in runs:
            self.client.set_terminated(run.info.run_id, "KILLED")

    def _unusable(self, error: Exception) -> InputError:
        if isinstance(error, MlflowException):
            self._ask()  # it may have been there a moment ago
            if isinstance(error.__context__, _AWAY) and not isinstance(error.__context__, requests.exceptions.SSLError):
                raise Unreachable(f"tracking.uri={self.uri} cannot serve ({in_a_line(error, 200)})") from error
        return InputError("tracking.uri", self.uri, f"must be a store that MLflow can open ({in_a_line(error, 200)})")

    def _experiment(self, name: str) -> str:
        """The id; InputError where it keeps its files elsewhere, for these are private."""
        local = self.uri.startswith("sqlite:")
        if (found := self.client.get_experiment_by_name(name)) is None:
            try:
                location = Path(self.artifacts).as_uri() if local else None
                return str(self.client.create_experiment(name, artifact_location=location))
            except MlflowException:  # another process was faster
                if (found := self.client.get_experiment_by_name(name)) is None:
                    raise
        kept = local_file_uri_to_path(found.artifact_location)
        if local and Path(kept).resolve() != Path(self.artifacts).resolve():  # as of a folder that was moved
            allowed = f"must be {kept}, where {self.uri} keeps what belongs to {name}, or tracking.uri another database"
            raise InputError("tracking.artifacts", self.artifacts, allowed)
        return str(found.experiment_id)

    def _log(self, run: str, report: Report) -> None:
        """Metrics where finite. MLflow would store ∞ as a large number, so every ε stands as a tag too, as it is."""
        record, epsilon = report.as_dict(), report.epsilon
        values = {f"epsilon_{name}": getattr(epsilon, name) for name in EPSILONS}
        values |= {"epsilon": epsilon.headline, "order": epsilon.order}
        values |= {name: record[name] for name in ("accuracy", "label_accuracy", "answered")}
        values |= {f"teachers_{name}": value for name, value in record["teachers"].items()}
        values |= {f"seconds_{name}": value for name, value in record["seconds"].items()}
        now = self.client.get_run(run).info.start_time
        metrics = [Metric(k, v, now, 0) for k, v in values.items() if v is not None and math.isfinite(v)]
        tags = [RunTag(k, number(v)) for k, v in values.items() if k.startswith("epsilon") and v is not None]
        self.client.log_batch(run, metrics=metrics, tags=tags)
        if not self.private:
            self.client.log_dict(run, record, RESULT)
        if (data := report.data) is not None:  # name, sizes and a digest: never a row
            source = {"source_type": "nzc", "source": json.dumps({"dataset": report.dataset})}
            profile = json.dumps({key: value for key, value in data.items() if key != "digest"})
            dataset = Dataset(report.dataset, str(data["digest"])[:36], **source, profile=profile)
            self.client.log_inputs(run, [DatasetInput(dataset, [InputTag("mlflow.data.context", "all roles")])])

    def _log_curves(self, run: str, folder: Path) -> None:
        """The points that were not drawn while the run was under way."""
        drawn: dict[str, set[int]] = {}
        missing, now = [], self.client.get_run(run).info.start_time
        for line in (folder / PROGRESS).read_text().splitlines()[1:] if (folder / PROGRESS).is_file() else []:
            key, step, value = line.rsplit(",", 2)
            if key not in drawn:
                drawn[key] = {metric.step for metric in self.client.get_metric_history(run, key)}
            if int(step) not in drawn[key] and math.isfinite(float(value)):
                missing.append(Metric(key, float(value), now, int(step)))
        for at in range(0, len(missing), 500):  # MLflow takes a thousand at once
            self.client.log_batch(run, metrics=missing[at : at + 500])

    def _has_model(self, run: str) -> str | None:
        """The id of the run's model, if it is whole; what is left of another is removed."""
        experiment = self.client.get_run(run).info.experiment_id
        for model in self.client.search_logged_models([experiment], f"source_run_id = '{run}'"):
            if model.status == LoggedModelStatus.READY:
                return str(model.model_id)
            self.client.delete_logged_model(model.model_id)
        return None

    def _register(self, model: str) -> None:
        if self.register is None:
            return
        if not self.client.search_registered_models(filter_string=f"name = '{self.register}'"):
            self.client.create_registered_model(self.register)
        versions = self.client.search_model_versions(f"name = '{self.register}'")
        if f"models:/{model}" not in [version.source for version in versions]:
            made = self.client.create_model_version(self.register, f"models:/{model}", model_id=model)
            link = json.dumps([{"name": self.register, "version": made.version}])
            self.client.set_logged_model_tags(model, {MLFLOW_MODEL_VERSIONS: link})

    def _log_model(self, run: str, file: Path) -> str:
        """Its id."""
        import mlflow.pytorch
        import torch
        from mlflow.models import infer_signature

        from nzc.students import export

        with export.forgotten(), warnings.catch_warnings(), mlflow.start_run(run_id=run):
            warnings.simplefilter("ignore")
            network, example = export.read(file)
            with torch.no_grad():
                logits = network(example).numpy()
            logged = mlflow.pytorch.log_model(
                network,
                name="student",
                signature=infer_signature(example.numpy(), logits),
                input_example=example.numpy(),
                serialization_format="pt2",  # a traced graph: whoever loads it runs no pickle
                pip_requirements=[f"torch=={torch.__version__.split('+')[0]}", f"numpy=={np.__version__}"],
            )
        return str(logged.model_id)

    @contextmanager
    def _of_process(self) -> Iterator[None]:
        """MLflow finds models by the address of the whole process only."""
        before = mlflow.get_tracking_uri()
        mlflow.set_tracking_uri(self.uri)
        try:
            yield
        finally:
            mlflow.set_tracking_uri(before)


def _make(database: Path) -> None:
    """A new database, whole or not at all: MLflow builds one in seconds and many steps, and can neither go on with half
    of one nor let two processes build it at once."""
    lock = Path(f"{database}.lock")
    if database.exists():
        return
    with FileLock(lock, mode=0o600):
        if not database.exists():
            for stray in database.parent.glob(f"{database.name}.*.partial"):
                stray.unlink()
            partial = database.with_name(f"{database.name}.{uuid4().hex}.partial")
            MlflowClient(tracking_uri=f"sqlite:///{partial}").search_experiments(max_results=1)
            partial.rename(database)
        lock.unlink(missing_ok=True)  # whoever waits for it finds the database
