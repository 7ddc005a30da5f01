"""The student as an MLflow model: logged once per run, and registered as a version where that is asked for."""

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import Any

import mlflow
import numpy as np
from mlflow import MlflowClient
from mlflow.entities import LoggedModelOutput, LoggedModelStatus, Metric
from mlflow.types import ColSpec, DataType, Schema, TensorSpec
from mlflow.types.schema import AnyType
from mlflow.utils.mlflow_tags import MLFLOW_MODEL_VERSIONS

from nzc.runs.layout import STUDENT, STUDENT_INPUT
from nzc.runs.outputs import student_code


def log_student(
    client: MlflowClient, uri: str, run: str, folder: Path, register: str | None, about: str, tags: Mapping[str, str]
) -> None:
    """Log the student in a run's folder as the model of `run`, and as the next version of `register` if given.

    The version has the description `about`, and the tags. Calling it again adds nothing. The tracking URI of the
    process is set meanwhile: MLflow finds models by it only.
    """
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(uri)
    try:
        model_id = _logged(client, run) or _log(client, run, folder)
        if register is None:
            return
        if not client.search_registered_models(filter_string=f"name = '{register}'"):
            client.create_registered_model(register)
        source, versions = f"models:/{model_id}", client.search_model_versions(f"name = '{register}'")
        if source not in [version.source for version in versions]:
            made = client.create_model_version(register, source, model_id=model_id, tags=dict(tags), description=about)
            link = json.dumps([{"name": register, "version": made.version}])
            client.set_logged_model_tags(model_id, {MLFLOW_MODEL_VERSIONS: link})
    finally:
        mlflow.set_tracking_uri(before)


def _logged(client: MlflowClient, run: str) -> str | None:
    """Return the id of the run's model; parts of an earlier try are deleted."""
    experiment = client.get_run(run).info.experiment_id
    for model in client.search_logged_models([experiment], f"source_run_id = '{run}'"):
        if model.status == LoggedModelStatus.READY:
            return str(model.model_id)
        client.delete_logged_model(model.model_id)
    return None


def _log(client: MlflowClient, run: str, folder: Path) -> str:
    """Log the student with the code that it is published with: MLflow needs no nzc to serve it, and runs no pickle.

    MLflow's `log_model` would ask for the history of every metric, a request each.
    """
    about: dict[str, Any] = json.loads((folder / STUDENT_INPUT).read_text(encoding="utf-8"))
    with TemporaryDirectory() as temporary, warnings.catch_warnings(action="ignore"):
        from mlflow import pyfunc  # its import warns too
        from mlflow.models import Model, ModelSignature

        data, code = Path(temporary) / "student", Path(temporary) / "code"
        data.mkdir()
        code.mkdir()
        for name in (STUDENT, STUDENT_INPUT):
            copyfile(folder / name, data / name)
        files = student_code()
        for name, text in files.items():
            (code / name).write_text(text, encoding="utf-8")
        of = client.get_run(run)
        model = client.create_logged_model(of.info.experiment_id, name="student", source_run_id=run)
        client.log_outputs(run, [LoggedModelOutput(model.model_id, step=0)])
        values = {key: value for key, value in of.data.metrics.items() if "/" not in key}  # no curves
        begun = of.info.start_time
        client.log_batch(run, [Metric(k, v, begun, 0, model_id=model.model_id) for k, v in values.items()])
        pyfunc.save_model(
            path=str(Path(temporary) / "model"),
            mlflow_model=Model(model.artifact_location, run, model_uuid=model.model_id, model_id=model.model_id),
            loader_module="predict",
            data_path=str(data),
            code_paths=[str(path) for path in code.glob("*.py")],
            signature=ModelSignature(_inputs(about), _outputs(about)),
            pip_requirements=files["requirements.txt"].split(),
        )
        client.log_model_artifacts(model.model_id, str(Path(temporary) / "model"))
        client.finalize_logged_model(model.model_id, LoggedModelStatus.READY)
    return str(model.model_id)


def _inputs(about: Mapping[str, Any]) -> Schema:
    """Return what the student takes: named columns, which may be missing values, or arrays."""
    if about["columns"] is None:
        array = about["array"]
        return Schema([TensorSpec(np.dtype(array["dtype"]), (-1, *array["shape"]))])
    # MLflow would refuse whole numbers for decimal ones, and true for text; the student reads values of any type.
    return Schema([ColSpec(AnyType(), each["name"], required=False) for each in about["columns"]["columns"]])


def _outputs(about: Mapping[str, Any]) -> Schema:
    probabilities = ["probability", *(f"p({label})" for label in about["labels"])]
    return Schema([ColSpec(DataType.string, "label"), *(ColSpec(DataType.double, name) for name in probabilities)])
