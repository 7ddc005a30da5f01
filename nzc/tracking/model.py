"""The student as an MLflow model: logged once a run, and registered where that is asked for."""

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
from nzc.validation import Tree

#: Which Python and packages serve the model.
_ENVIRONMENT = f"python: {platform.python_version()}\ndependencies: [-r requirements.txt]\n"


def log_student(
    uri: str, run: str, folder: Path, register: str | None, about: str, tags: Mapping[str, str]
) -> None:
    """Log the student in a run's folder as the model of `run`, unless that is done.

    register  name of the registered model of which it becomes a version, which `about` and `tags`
              describe
    """
    client = MlflowClient(uri)
    model = _logged(client, run) or _log(client, run, folder)
    if register is None:
        return
    before: Any = None  # clears MLFLOW_TRACKING_URI
    if mlflow.is_tracking_uri_set():
        before = mlflow.get_tracking_uri()
    try:
        mlflow.set_tracking_uri(uri)  # MLflow finds the model of a version by the process's only
        _register(client, model, register, about, tags)
    finally:
        mlflow.set_tracking_uri(before)


def _logged(client: MlflowClient, run: str) -> str | None:
    """Return the id of the model that was logged for `run`; unfinished ones are deleted."""
    experiment = client.get_run(run).info.experiment_id
    whole = None
    for model in client.search_logged_models([experiment], f"source_run_id = '{run}'"):
        if model.status == LoggedModelStatus.READY:
            whole = model.model_id
        else:
            client.delete_logged_model(model.model_id)
    return whole


def _log(client: MlflowClient, run: str, folder: Path) -> str:
    """Log the student in `folder` with the figures of its run, and return the model's id."""
    logged = client.get_run(run)
    experiment = logged.info.experiment_id
    model = str(client.create_logged_model(experiment, "student", source_run_id=run).model_id)
    with TemporaryDirectory() as temporary:
        _write_model(Path(temporary), folder, run, model)
        client.log_model_artifacts(model, temporary)
    client.log_outputs(run, [LoggedModelOutput(model, step=0)])
    metrics = [
        Metric(key, value, logged.info.start_time, 0, model_id=model)
        for key, value in logged.data.metrics.items()
        if "/" not in key  # no learning curves
    ]
    client.log_batch(run, metrics)
    client.finalize_logged_model(model, LoggedModelStatus.READY)
    return model


def _write_model(root: Path, folder: Path, run: str, model: str) -> None:
    """Write MLflow's files of the student, with the code that serves it without nzc.

    `mlflow.pyfunc.save_model` writes the same, but is slow: it checks which packages are installed.
    """
    about = json.loads((folder / STUDENT_INPUT).read_text(encoding="utf-8"))
    code = student_code(about)
    requirements = code.pop("requirements.txt")
    served = Path(__file__).with_name("served.py").read_text(encoding="utf-8")
    code["served.py"] = served.replace("from nzc.students.exported", "from predict")
    (root / "code").mkdir()
    (root / "data").mkdir()
    for name, text in code.items():
        (root / "code" / name).write_text(text, encoding="utf-8")
    requirements = f"mlflow=={mlflow.__version__}\n{requirements}"
    (root / "requirements.txt").write_text(requirements, encoding="utf-8")
    (root / "python_env.yaml").write_text(_ENVIRONMENT, encoding="utf-8")
    for name in (STUDENT, STUDENT_INPUT):
        copyfile(folder / name, root / "data" / name)

    described = Model(
        run_id=run, model_id=model, model_uuid=model, signature=ModelSignature(*_schemas(about))
    )
    described.add_flavor(
        "python_function",
        loader_module="served",
        python_version=platform.python_version(),
        data="data",
        code="code",
        env={"virtualenv": "python_env.yaml"},
    )
    described.save(root / "MLmodel")


def _register(
    client: MlflowClient, model: str, name: str, about: str, tags: Mapping[str, str]
) -> None:
    """Make a logged model the next version of the registered model `name`, unless it is one."""
    quote = "'" if '"' in name else '"'
    query = f"name = {quote}{name}{quote}"
    if not client.search_registered_models(filter_string=query):
        client.create_registered_model(name)
    source = f"models:/{model}"
    if source in [version.source for version in client.search_model_versions(query)]:
        return
    made = client.create_model_version(
        name, source, model_id=model, tags=dict(tags), description=about
    )
    link = json.dumps([{"name": name, "version": made.version}])
    client.set_logged_model_tags(model, {MLFLOW_MODEL_VERSIONS: link})


def _schemas(about: Tree) -> tuple[Schema | None, Schema]:
    """Return what the student takes, and what it gives.

    For tables there is no input schema: MLflow would drop a column that is not in it, such as a
    misspelt one, in silence, and refuse whole numbers for decimal ones. The student names wrong
    columns itself, and reads any type.
    """
    array = about["array"]
    taken = array and Schema([TensorSpec(np.dtype(array["dtype"]), (-1, *array["shape"]))])
    given: list[Any] = [ColSpec(DataType.string, "label"), ColSpec(DataType.double, "probability")]
    given += [ColSpec(DataType.double, f"p({label})") for label in about["labels"]]
    return taken, Schema(given)
