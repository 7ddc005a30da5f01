"""The student as an MLflow model: logged once a run, and registered as a version where that is asked for."""

import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import mlflow
import numpy as np
from mlflow import MlflowClient
from mlflow.entities import LoggedModelStatus
from mlflow.types import ColSpec, DataType, Schema, TensorSpec
from mlflow.types.schema import AnyType
from mlflow.utils.mlflow_tags import MLFLOW_MODEL_VERSIONS

from nzc.runs.layout import STUDENT, STUDENT_INPUT
from nzc.runs.outputs import student_code

if TYPE_CHECKING:
    from mlflow.models import ModelSignature


@contextmanager
def tracking_uri(uri: str) -> Iterator[None]:
    """Set the tracking URI of the process in this context: MLflow finds models by it only."""
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(uri)
    try:
        yield
    finally:
        mlflow.set_tracking_uri(before)


def log_student(client: MlflowClient, run: str, folder: Path) -> str:
    """Log the student in a run's folder as the model of `run`, unless that is done, and return its id.

    The model has the code that the student is published with: MLflow needs no nzc to serve it, and runs no pickle.
    """
    experiment = client.get_run(run).info.experiment_id
    for model in client.search_logged_models([experiment], f"source_run_id = '{run}'"):
        if model.status == LoggedModelStatus.READY:
            return str(model.model_id)
        client.delete_logged_model(model.model_id)  # a part, of an earlier try
    with TemporaryDirectory() as temporary, warnings.catch_warnings(action="ignore"):
        from mlflow import pyfunc  # its import warns too
        from mlflow.models import Model

        data, code = Path(temporary, "student"), Path(temporary, "code")
        data.mkdir()
        code.mkdir()
        for name in (STUDENT, STUDENT_INPUT):
            copyfile(folder / name, data / name)
        for name, text in (files := student_code()).items():
            (code / name).write_text(text, encoding="utf-8")
        signature = _signature(json.loads((folder / STUDENT_INPUT).read_text(encoding="utf-8")))
        model = client.create_logged_model(experiment, name="student", source_run_id=run)
        Model.log(
            None, pyfunc, run_id=run, model_id=model.model_id, loader_module="predict", data_path=str(data),
            code_paths=[str(path) for path in code.glob("*.py")], signature=signature,
            pip_requirements=files["requirements.txt"].split(),
        )  # fmt: skip
    return str(model.model_id)


def register_student(client: MlflowClient, model: str, name: str, about: str, tags: Mapping[str, str]) -> None:
    """Make a logged model the next version of the registered model `name`, unless it is one of its versions."""
    if not client.search_registered_models(filter_string=f"name = '{name}'"):
        client.create_registered_model(name)
    source, versions = f"models:/{model}", client.search_model_versions(f"name = '{name}'")
    if source not in [version.source for version in versions]:
        made = client.create_model_version(name, source, model_id=model, tags=dict(tags), description=about)
        link = json.dumps([{"name": name, "version": made.version}])
        client.set_logged_model_tags(model, {MLFLOW_MODEL_VERSIONS: link})


def _signature(about: Mapping[str, Any]) -> "ModelSignature":
    """Return what the student takes (named columns, which may be missing values, or arrays), and what it gives."""
    from mlflow.models import ModelSignature

    if about["columns"] is None:
        taken: list[Any] = [TensorSpec(np.dtype(about["array"]["dtype"]), (-1, *about["array"]["shape"]))]
    else:  # MLflow would refuse whole numbers for decimal ones, and true for text; the student reads any type
        taken = [ColSpec(AnyType(), column["name"], required=False) for column in about["columns"]["columns"]]
    numbers = ["probability", *(f"p({label})" for label in about["labels"])]
    given: list[Any] = [ColSpec(DataType.string, "label"), *(ColSpec(DataType.double, name) for name in numbers)]
    return ModelSignature(Schema(taken), Schema(given))
