"""The student as an MLflow model: logged once a run, and registered as a version where that is
asked for.
"""

import json
import platform
from collections.abc import Mapping
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import Any

import mlflow
import numpy as np
from mlflow import MlflowClient
from mlflow.entities import LoggedModelOutput, LoggedModelStatus, Metric
from mlflow.models import Model, ModelSignature
from mlflow.types import ColSpec, DataType, Schema, TensorSpec
from mlflow.utils.mlflow_tags import MLFLOW_MODEL_VERSIONS

from nzc.runs.layout import STUDENT, STUDENT_INPUT
from nzc.runs.outputs import student_code

#: Which Python and packages serve the model.
_ENVIRONMENT = f"python: {platform.python_version()}\ndependencies: [-r requirements.txt]\n"


def log_student(
    uri: str, run: str, folder: Path, register: str | None, about: str, tags: Mapping[str, str]
) -> None:
    """Log the student in a run's folder as the model of `run`, unless that is done; as a version of
    `register` too.
    """
    client = MlflowClient(uri)
    before: Any = (
        mlflow.get_tracking_uri() if mlflow.is_tracking_uri_set() else None
    )  # None clears MLFLOW_TRACKING_URI
    found = client.get_run(run)
    info = found.info
    logged = client.search_logged_models([info.experiment_id], f"source_run_id = '{run}'")
    model = next(
        (model.model_id for model in logged if model.status == LoggedModelStatus.READY), None
    )
    if model is None:
        for part in logged:  # of an earlier try
            client.delete_logged_model(part.model_id)
        model = client.create_logged_model(
            info.experiment_id, name="student", source_run_id=run
        ).model_id
        with TemporaryDirectory() as temporary:
            _write_model(Path(temporary), folder, run, model)
            client.log_model_artifacts(model, temporary)
        client.log_outputs(run, [LoggedModelOutput(model, step=0)])
        shown = {
            key: value for key, value in found.data.metrics.items() if "/" not in key
        }  # beside it; no learning curves
        client.log_batch(
            run,
            [
                Metric(key, value, info.start_time, 0, model_id=model)
                for key, value in shown.items()
            ],
        )
        client.finalize_logged_model(model, LoggedModelStatus.READY)
    if register is not None:
        try:
            mlflow.set_tracking_uri(
                uri
            )  # of the process: MLflow finds the model of a version by it only
            _register(client, model, register, about, tags)
        finally:
            mlflow.set_tracking_uri(before)


def _write_model(root: Path, folder: Path, run: str, model: str) -> None:
    """Write MLflow's files of the student, with the code that it is published with: it is served
    without nzc.

    `mlflow.pyfunc.log_model` writes the same, but is slow: it checks which packages are installed.
    """
    files = {f"code/{name}": text for name, text in student_code().items()}
    files["requirements.txt"] = (
        f"mlflow=={mlflow.__version__}\n{files.pop('code/requirements.txt')}"
    )
    served = Path(__file__).with_name("served.py").read_text(encoding="utf-8")
    files["code/served.py"] = served.replace("from nzc.students.exported", "from predict")
    for place in ("code", "data"):
        (root / place).mkdir()
    for name, text in {**files, "python_env.yaml": _ENVIRONMENT}.items():
        (root / name).write_text(text, encoding="utf-8")
    for name in (STUDENT, STUDENT_INPUT):
        copyfile(folder / name, root / "data" / name)
    signature = ModelSignature(
        *_schemas(json.loads((folder / STUDENT_INPUT).read_text(encoding="utf-8")))
    )
    described = Model(run_id=run, model_id=model, model_uuid=model, signature=signature)
    served_by = {"loader_module": "served", "python_version": platform.python_version()}
    environment = {"virtualenv": "python_env.yaml"}
    described.add_flavor("python_function", **served_by, data="data", code="code", env=environment)
    described.save(root / "MLmodel")


def _register(
    client: MlflowClient, model: str, name: str, about: str, tags: Mapping[str, str]
) -> None:
    """Make a logged model the next version of the registered model `name`, unless it is one of its
    versions.
    """
    quote = "'" if '"' in name else '"'
    query = f"name = {quote}{name}{quote}"
    if not client.search_registered_models(filter_string=query):
        client.create_registered_model(name)
    source, versions = f"models:/{model}", client.search_model_versions(query)
    if source not in [version.source for version in versions]:
        made = client.create_model_version(
            name, source, model_id=model, tags=dict(tags), description=about
        )
        link = json.dumps([{"name": name, "version": made.version}])
        client.set_logged_model_tags(model, {MLFLOW_MODEL_VERSIONS: link})


def _schemas(about: Mapping[str, Any]) -> tuple[Schema | None, Schema]:
    """Return what the student takes, and what it gives.

    For tables there is no input schema: MLflow would drop a column that is not in it, such as a
    misspelt one, in silence, and refuse whole numbers for decimal ones. The student names wrong
    columns itself, and reads any type.
    """
    array = about["array"]
    taken = array and Schema([TensorSpec(np.dtype(array["dtype"]), (-1, *array["shape"]))])
    numbers = ["probability", *(f"p({label})" for label in about["labels"])]
    given: list[Any] = [
        ColSpec(DataType.string, "label"),
        *(ColSpec(DataType.double, name) for name in numbers),
    ]
    return taken, Schema(given)
