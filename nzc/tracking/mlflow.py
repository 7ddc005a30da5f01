"""MLflow as tracker: one experiment per dataset; a sweep is the parent run of its jobs."""

import json
import logging
import math
import os
import re
import time
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from threading import Thread
from typing import Any

import requests
from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, Run, RunTag
from mlflow.exceptions import MlflowException
from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor
from mlflow.utils.file_utils import local_file_uri_to_path
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID, MLFLOW_RUN_NAME, MLFLOW_RUN_NOTE

from nzc.runs.formatting import EPSILONS, number
from nzc.runs.layout import CURVES, FIGURES, LEARNING_CURVES, RESULT, STUDENT, SWEEP, masked_file
from nzc.runs.result import RunResult
from nzc.sweeps.summary import summarise
from nzc.tracking.base import PUBLIC_FILES, Tracker, Unreachable
from nzc.tracking.database import create_database, require_database, sqlite_file, sqlite_uri
from nzc.tracking.mlflow_model import log_student
from nzc.tracking.outbox import LOCK, RECORD, is_dead, process, read_record
from nzc.tracking.summary import describe, describe_student
from nzc.validation import InputError, in_a_line, masked

#: Tags of a run: its process, by which runs of dead processes are found; its key, by which it is found again.
_PROCESS, _KEY = "nzc.process", "nzc.key"
#: Errors by which MLflow gives up on a server that exists but does not work.
_AWAY = (requests.exceptions.RetryError, requests.ConnectionError, requests.Timeout)
#: Files that are never recorded as artifacts. The student is recorded as a model.
_KEPT = (CURVES, STUDENT, RECORD, LOCK)
#: Points of learning curves are sent together after so many seconds, because each request takes milliseconds.
_TOGETHER = 2.0


class MLflow(Tracker):
    """A tracking server, or a local database (`sqlite:///FILE`) with artifacts in a folder."""

    def __init__(
        self, uri: str, artifacts: str, model: bool, register: str | None, system_metrics: bool, private: bool = True
    ) -> None:
        if register is not None and not model:
            raise InputError("register", register, "must be null where tracking.model=false")
        self.database = sqlite_file(uri)
        self.uri = uri if self.database is None else sqlite_uri(self.database)
        self.artifacts = Path(artifacts).absolute()
        self.model, self.register, self.private = model, register, private
        self.system_metrics = system_metrics and private  # memory and time follow from private records, too
        self.monitors: dict[str, SystemMetricsMonitor] = {}
        self.points: dict[str, list[Metric]] = {}  # of runs, not sent yet
        self.sent: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)  # keys and steps of points
        self.last = -math.inf  # when points were sent
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3")  # seconds instead of minutes for a dead server
        os.environ.setdefault("MLFLOW_HTTP_RESPECT_RETRY_AFTER_HEADER", "false")  # it may say an hour
        levels = {"mlflow": logging.WARNING, "urllib3": logging.ERROR, "alembic": logging.WARNING}
        levels |= {"mlflow.system_metrics": logging.CRITICAL, "mlflow.store.db.utils": logging.CRITICAL}
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)

    @cached_property
    def client(self) -> MlflowClient:
        """The connection; made when it is first needed, so that wrong input leaves no database behind."""
        self._require_answer()
        if self.database is not None:
            require_database(self.database)
        try:
            if self.database is not None:
                create_database(self.database)
            client = MlflowClient(tracking_uri=self.uri)
            client.search_experiments(max_results=1)
        except Exception as error:  # MLflow and SQLAlchemy raise many types
            raise self._unusable(error) from error
        return client

    def connect(self) -> None:
        self.client  # noqa: B018 - connects

    def start(
        self,
        experiment: str,
        name: str,
        params: Mapping[str, Any],
        parent: str | None,
        begun: int,
        key: str,
        question: str = "",
    ) -> str:
        client, tags = self.client, {MLFLOW_RUN_NAME: in_a_line(name, 250), _PROCESS: process(), _KEY: key}
        tags |= {MLFLOW_PARENT_RUN_ID: parent} if parent else {}
        tags |= {MLFLOW_RUN_NOTE: question} if question else {}
        try:
            if parent is None:
                self._kill_open_runs()
            of, there = self._experiment(experiment), self._search(f"tags.`{_KEY}` = '{key}'")
            run: str = (there or [client.create_run(of, begun, tags)])[0].info.run_id
            try:
                client.log_batch(run, params=[Param(key, masked(value)[:6000]) for key, value in params.items()])
                if self.system_metrics and params:  # not for the parent run of a sweep
                    self.monitors[run] = SystemMetricsMonitor(run, tracking_uri=self.uri)
                    self.monitors[run].start()
            except BaseException as error:  # nobody else knows this run yet
                with suppress(Exception):
                    self.finish(run, Path(), "KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED")
                raise
        except MlflowException as error:
            raise self._unusable(error) from error
        return run

    def log_metrics(self, run: str, values: Mapping[str, float], step: int) -> None:
        now, waiting = int(1000 * time.time()), self.points.setdefault(run, [])
        waiting += [Metric(key, value, now, step) for key, value in values.items() if math.isfinite(value)]
        if time.monotonic() - self.last >= _TOGETHER:
            self._require_answer()
            self._log_points(run, self.points.pop(run))
            self.last = time.monotonic()

    def finish(self, run: str, folder: Path, status: str = "FINISHED", ended: int | None = None) -> None:
        if monitor := self.monitors.pop(run, None):
            (ending := Thread(target=monitor.finish, daemon=True)).start()  # it may wait for a server for minutes
            ending.join(10)
        self._require_answer()
        try:
            self._log_points(run, self.points.pop(run, []))
            self._kill_open_runs(run)
            record = read_record(folder) or {}
            # A folder may also have files of a sweep before this run. A sweep itself has no params.
            is_sweep = record.get("params") == {} and (folder / SWEEP).is_file()
            if is_sweep:
                self._log_sweep(run, folder, record.get("question", ""))
            if is_sweep or status == "FINISHED":
                self._record(run, folder, is_sweep)
        finally:
            self.client.set_terminated(run, status, ended)

    def _record(self, run: str, folder: Path, is_sweep: bool) -> None:
        """Record what a finished run or a sweep left in its folder."""
        folders = {"*": None, ".hydra/*": "config"}
        folders |= {f"{FIGURES}/*": FIGURES} if self.private or not is_sweep else {}
        files: list[tuple[Path, str | None]] = []
        result = RunResult.read(folder) if not is_sweep and (folder / RESULT).is_file() else None
        if result is not None:
            begun = self.client.get_run(run).info.start_time
            self._log_result(run, result if self.private else result.public, begun)
            self._log_curves(run, folder / LEARNING_CURVES, begun)
        for pattern, target in folders.items():
            for path in filter(Path.is_file, folder.glob(pattern)):
                public = target == "config" or path.name in PUBLIC_FILES
                if path.name not in _KEPT and (self.private or public):
                    files.append((path, target))
        with ThreadPoolExecutor(8) as pool:  # a distant server takes long for each
            list(pool.map(partial(self._log_file, run), *zip(*files, strict=True)))
        if result is not None and (folder / STUDENT).is_file() and self.model:
            log_student(self.client, self.uri, run, folder, self.register, *describe_student(result))

    def _log_file(self, run: str, path: Path, target: str | None) -> None:
        if path.suffix in (".yaml", ".json"):  # a configuration may contain a password, which is not sent
            self.client.log_text(run, masked_file(path), f"{target}/{path.name}" if target else path.name)
        else:
            self.client.log_artifact(run, str(path), target)
        self.heard = time.monotonic()

    def _require_answer(self) -> None:
        """Raise Unreachable where no server answers. MLflow itself would try for minutes."""
        if not self.uri.startswith(("http://", "https://")):
            return
        try:
            answer = requests.get(f"{self.uri.rstrip('/')}/health", timeout=10)
        except requests.exceptions.SSLError:  # MLflow knows which certificates to trust
            return
        except (requests.ConnectionError, requests.Timeout) as error:
            raise Unreachable(f"tracking.uri={self.uri} does not answer") from error
        except requests.RequestException as error:
            raise self._unusable(error) from error
        if answer.status_code >= 500:
            raise Unreachable(f"tracking.uri={self.uri} answers {answer.status_code}")
        self.heard = time.monotonic()

    def _search(self, query: str) -> list[Run]:
        everywhere = [experiment.experiment_id for experiment in self.client.search_experiments()]
        return list(self.client.search_runs(everywhere, query))

    def _kill_open_runs(self, parent: str | None = None) -> None:
        """Close the open runs below `parent`; without one, all those whose process is dead."""
        below = f" and tags.`mlflow.parentRunId` = '{parent}'" if parent else ""
        for run in self._search(f"attributes.status = 'RUNNING'{below}"):
            if parent or is_dead(run.data.tags.get(_PROCESS) or "? 0 0"):
                self.client.set_terminated(run.info.run_id, "KILLED")

    def _unusable(self, error: Exception) -> InputError:
        if "database is locked" in str(error):
            raise Unreachable(f"tracking.uri={self.uri} is locked by another process") from error
        if isinstance(error, MlflowException):
            self._require_answer()  # the server may have gone a moment ago
            if isinstance(error.__context__, _AWAY) and not isinstance(error.__context__, requests.exceptions.SSLError):
                raise Unreachable(f"tracking.uri={self.uri} cannot serve ({in_a_line(error, 200)})") from error
        return InputError("tracking.uri", self.uri, f"must be a store that MLflow can open ({in_a_line(error, 200)})")

    def _experiment(self, name: str) -> str:
        """Return the experiment's id; InputError: its private artifacts are kept in another folder."""
        if (found := self.client.get_experiment_by_name(name)) is None:
            try:
                location = self.artifacts.as_uri() if self.database else None
                return str(self.client.create_experiment(name, artifact_location=location))
            except MlflowException:  # another process was faster
                if (found := self.client.get_experiment_by_name(name)) is None:
                    raise
        kept = local_file_uri_to_path(found.artifact_location)
        if self.database and Path(kept).resolve() != self.artifacts.resolve():  # as in a folder that was moved
            allowed = f"must be {kept}, where {self.uri} keeps the artifacts of {name}; or give another tracking.uri"
            raise InputError("tracking.artifacts", self.artifacts, allowed)
        return str(found.experiment_id)

    def _log_result(self, run: str, result: RunResult, begun: int) -> None:
        record, epsilon = result.as_dict(), result.epsilon
        values = {f"epsilon_{name}": getattr(epsilon, name) for name in EPSILONS}
        values |= {"epsilon": epsilon.published, "order": epsilon.order}
        values |= {name: record[name] for name in ("accuracy", "label_accuracy", "answered")}
        values |= {name: record["metrics"][name] for name in ("majority", "balanced_accuracy", "auc")}
        values |= _by_class("recall", result.metrics.recall)
        values |= {f"{of}_{name}": value for of in ("teachers", "seconds") for name, value in record[of].items()}
        self._log_values(run, values, begun, {MLFLOW_RUN_NOTE: describe(result)})
        if not self.private:
            self.client.log_dict(run, record, RESULT)
        if (data := result.data) is not None:  # name, sizes and digest, but no row
            source = {"source_type": "nzc", "source": json.dumps({"dataset": result.dataset})}
            profile = json.dumps({key: value for key, value in data.items() if key != "digest"})
            dataset = Dataset(result.dataset, str(data["digest"])[:36], **source, profile=profile)
            self.client.log_inputs(run, [DatasetInput(dataset, [InputTag("mlflow.data.context", "all splits")])])

    def _log_sweep(self, run: str, folder: Path, question: str) -> None:
        summary = summarise(folder, run, question, self.private)
        tags = summary.tags | {MLFLOW_RUN_NOTE: summary.description}
        self._log_values(run, summary.values, self.client.get_run(run).info.start_time, tags)

    def _log_values(self, run: str, values: Mapping[str, float | None], begun: int, tags: Mapping[str, str]) -> None:
        """Log finite values as metrics. MLflow stores ∞ as a large number, so every ε is also a tag, as text."""
        metrics = [Metric(k, v, begun, 0) for k, v in values.items() if v is not None and math.isfinite(v)]
        shown = {k: number(v, k) for k, v in values.items() if k.startswith("epsilon") and v is not None}
        self.client.log_batch(run, tags=[RunTag(k, v) for k, v in {**tags, **shown}.items()])
        self._log_points(run, metrics)

    def _log_curves(self, run: str, path: Path, begun: int) -> None:
        """Log the points of learning curves that were not sent while the run was under way."""
        lines = (
            [line.rsplit(",", 2) for line in path.read_text(encoding="utf-8").splitlines()[1:]]
            if path.is_file()
            else []
        )
        points = [Metric(key, float(value), begun, int(step)) for key, step, value in lines]
        finite = [each for each in points if math.isfinite(each.value)]
        for key in dict.fromkeys(each.key for each in finite if (each.key, each.step) not in self.sent[run]):
            self.sent[run] |= {(key, each.step) for each in self.client.get_metric_history(run, key)}
            self.heard = time.monotonic()
        self._log_points(run, [each for each in finite if (each.key, each.step) not in self.sent[run]])

    def _log_points(self, run: str, points: list[Metric]) -> None:
        for at in range(0, len(points), 500):  # MLflow accepts a thousand at once
            self.client.log_batch(run, metrics=points[at : at + 500])
            self.sent[run] |= {(each.key, each.step) for each in points[at : at + 500]}
            self.heard = time.monotonic()


def _by_class(metric: str, values: Mapping[str, float | None]) -> dict[str, float | None]:
    """Return values by METRIC_CLASS; by the classes' numbers where MLflow takes two names for one, or for none."""
    names = [re.sub(r"[^\w. -]", "_", name) for name in values]  # MLflow refuses other characters
    if len({name.casefold() for name in names}) < len(names) or max(map(len, names), default=0) > 200:
        names = [str(number) for number in range(len(values))]
    return {f"{metric}_{name}": value for name, value in zip(names, values.values(), strict=True)}
