"""MLflow: one experiment a dataset, a run a run, a sweep the parent of its runs. The only import of mlflow."""

import logging
import math
import time
import warnings
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag
from mlflow.exceptions import MlflowException

from nzc import curves
from nzc.errors import InputError
from nzc.pipeline import Outcome
from nzc.report import EPSILONS, number
from nzc.tracking.tracker import Tracker


class MLflow(Tracker):
    """A tracking server, or a local database (`sqlite:///FILE`) with artifacts in a folder."""

    def __init__(self, uri: str, artifacts: str, model: bool) -> None:
        if uri.startswith("sqlite:///"):  # a relative path means the working directory of now
            uri = f"sqlite:///{Path(uri.removeprefix('sqlite:///')).absolute()}"
        self.uri, self.artifacts, self.model = uri, artifacts, model
        logging.getLogger("mlflow").setLevel(logging.WARNING)
        logging.getLogger("alembic").setLevel(logging.WARNING)

    @cached_property
    def client(self) -> MlflowClient:
        """The connection; made when the first run starts, so that wrong input leaves no database behind."""
        try:
            client = MlflowClient(tracking_uri=self.uri)
            client.search_experiments(max_results=1)
        except Exception as error:  # MLflow raises many kinds, down to SQLAlchemy's
            said = " ".join(str(error).split())[:200]
            raise InputError("tracking.uri", self.uri, f"must be a store that MLflow can open ({said})") from error
        return client

    def start(self, experiment: str, name: str, params: dict[str, Any], parent: str | None) -> str:
        tags = {"mlflow.runName": name} | ({"mlflow.parentRunId": parent} if parent else {})
        run: str = self.client.create_run(self._experiment(experiment), tags=tags).info.run_id
        self.client.log_batch(run, params=[Param(key, str(value)[:6000]) for key, value in params.items()])
        return run

    def draw(self, run: str, values: Mapping[str, float], step: int) -> None:
        now = int(1000 * time.time())
        self.client.log_batch(run, metrics=[Metric(k, v, now, step) for k, v in values.items() if math.isfinite(v)])

    def finish(self, run: str, folder: Path, outcome: Outcome | None) -> None:
        if outcome is not None:
            self._log(run, outcome)
        for path in folder.iterdir():
            if path.is_file() and path.name != curves.FILE:
                self.client.log_artifact(run, str(path))
        for inner, name in {".hydra": "config", "figures": "figures"}.items():
            if (folder / inner).is_dir():
                self.client.log_artifacts(run, str(folder / inner), name)
        if outcome is not None and outcome.student is not None and self.model:
            self._log_model(run, outcome)
        self.client.set_terminated(run, "FINISHED")

    def fail(self, run: str, stopped: bool) -> None:
        self.client.set_terminated(run, "KILLED" if stopped else "FAILED")

    def _experiment(self, name: str) -> str:
        found = self.client.get_experiment_by_name(name)
        if found is not None:
            return str(found.experiment_id)
        location = Path(self.artifacts).absolute().as_uri() if self.uri.startswith("sqlite:") else None
        try:
            return str(self.client.create_experiment(name, artifact_location=location))
        except MlflowException:  # another process was faster
            return self._experiment(name)

    def _log(self, run: str, outcome: Outcome) -> None:
        """Metrics where finite. MLflow would store ∞ as a large number, so every ε stands as a tag too, as it is."""
        record, epsilon = outcome.report.as_dict(), outcome.report.epsilon
        values = {f"epsilon_{name}": getattr(epsilon, name) for name in EPSILONS}
        values |= {"epsilon": epsilon.headline, "order": epsilon.order}
        values |= {name: record[name] for name in ("accuracy", "label_accuracy", "answered")}
        values |= {f"teachers_{name}": value for name, value in record["teachers"].items()}
        values |= {f"seconds_{name}": value for name, value in record["seconds"].items()}
        now = self.client.get_run(run).info.start_time
        metrics = [Metric(k, v, now, 0) for k, v in values.items() if v is not None and math.isfinite(v)]
        tags = [RunTag(k, number(v)) for k, v in values.items() if k.startswith("epsilon") and v is not None]
        self.client.log_batch(run, metrics=metrics, tags=tags)

    def _log_model(self, run: str, outcome: Outcome) -> None:
        import mlflow.pytorch
        import torch
        from mlflow.models import infer_signature

        assert outcome.student is not None and outcome.example is not None
        network = outcome.student.classifier.cpu().eval()
        example = np.zeros((2, *outcome.example.x.shape[1:]), dtype=np.float32)
        with torch.no_grad():
            logits = network(torch.from_numpy(example)).numpy()
        before = mlflow.get_tracking_uri()
        mlflow.set_tracking_uri(self.uri)
        try:
            with warnings.catch_warnings(), mlflow.start_run(run_id=run):
                warnings.simplefilter("ignore")
                mlflow.pytorch.log_model(
                    network,
                    name="student",
                    signature=infer_signature(example, logits),
                    input_example=example,
                    serialization_format="pt2",  # a traced graph: whoever loads it runs no pickle
                    pip_requirements=[f"torch=={torch.__version__.split('+')[0]}", f"numpy=={np.__version__}"],
                )
        finally:
            mlflow.set_tracking_uri(before)
