"""The student as an MLflow model: logged once per run, and registered as a version where that is asked for."""

import json
import warnings
from pathlib import Path
from unittest.mock import patch

import mlflow
import numpy as np
from mlflow import MlflowClient
from mlflow.entities import LoggedModelStatus
from mlflow.utils.mlflow_tags import MLFLOW_MODEL_VERSIONS


def log_student(client: MlflowClient, uri: str, run: str, file: Path, register: str | None) -> None:
    """Log the exported student in `file` as the model of `run`, and as the next version of `register` if given.

    Calling it again adds nothing. The tracking URI of the process is set meanwhile: MLflow finds models by it only.
    """
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(uri)
    try:
        model_id = _logged(client, run) or _log(run, file)
        if register is None:
            return
        if not client.search_registered_models(filter_string=f"name = '{register}'"):
            client.create_registered_model(register)
        source, versions = f"models:/{model_id}", client.search_model_versions(f"name = '{register}'")
        if source not in [version.source for version in versions]:
            made = client.create_model_version(register, source, model_id=model_id)
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


def _log(run: str, file: Path) -> str:
    import mlflow.pytorch
    import torch
    from mlflow.models import infer_signature

    from nzc.students.export import forget_shapes, read_student

    # MLflow would compare the versions below with the installed ones, and read every installed package for it.
    unchecked = patch("mlflow.utils.environment.warn_dependency_requirement_mismatches", create=True)
    with forget_shapes(), unchecked, warnings.catch_warnings(), mlflow.start_run(run_id=run):
        warnings.simplefilter("ignore")
        network, example = read_student(file)
        with torch.no_grad():
            logits = network(example).numpy()
        logged = mlflow.pytorch.log_model(
            network,
            name="student",
            signature=infer_signature(example.numpy(), logits),
            input_example=example.numpy(),
            serialization_format="pt2",  # a traced graph: loading it runs no pickle
            pip_requirements=[f"torch=={torch.__version__.split('+')[0]}", f"numpy=={np.__version__}"],
        )
    return str(logged.model_id)
