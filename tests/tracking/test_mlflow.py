"""What MLflow is told: how runs and sweeps end under every launcher, and what is public."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from alembic.runtime.migration import HeadMaintainer
from conftest import (
    TEACHERS,
    TRACKED,
    RunNzc,
    mlflow_client,
    parametrize,
    tracked_runs,
    write,
)
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NOTE
from pytest import MonkeyPatch, raises

from nzc.runs import pipeline
from nzc.tracking.mlflow import create_database


def _states(nested: bool) -> list[str]:
    """How the runs ended that stand below another, or those that do not."""
    return [
        run.info.status
        for run in tracked_runs()
        if ("mlflow.parentRunId" in run.data.tags) == nested
    ]


@parametrize(
    ("how", "code", "jobs", "note"),
    [
        (RuntimeError("no more memory"), 2, ["FINISHED", "FAILED", "FAILED"], "no more memory"),
        (KeyboardInterrupt(), 130, ["FINISHED", "KILLED"], "1 of 3 jobs finished"),
    ],
)
def test_a_sweep_goes_on_after_a_failure_and_closes_when_stopped(
    run_nzc: RunNzc, histograms: Path, monkeypatch: MonkeyPatch,
    how: BaseException, code: int, jobs: list[str], note: str,
) -> None:  # fmt: skip
    """Also after one whose input is wrong, before it begins: the third."""
    works = iter([pipeline.execute, Mock(side_effect=how)])
    monkeypatch.setattr(pipeline, "execute", lambda *arguments: next(works)(*arguments))
    ran = run_nzc("--multirun", *TRACKED, "queries=10,20,1000", "seed=0", code=code)
    line = r"mlflow ui .*/mlflow.db\nhttp://127.0.0.1:5000/#/.*s/(.*)/runs.viewStateShareKey=(.*)"
    ((experiment, key),) = re.findall(line, ran.out)
    tags = mlflow_client().get_experiment(experiment).tags
    columns = json.loads(tags[f"mlflow.sharedViewState.{key}"])["selectedColumns"]
    assert columns[-2:] == ["metrics.`epsilon_exact`", "params.`queries`"]
    assert _states(nested=True) == jobs
    assert _states(nested=False) == jobs[-1:]
    assert note in tracked_runs()[0].data.tags[MLFLOW_RUN_NOTE]


SWEEP = """# @package _global_
hydra: {mode: MULTIRUN}
sweep:
  question: Which noise is best?
  rows:
    - {name: wrong, set: [queries=1000]}
    - {name: little, set: ["aggregator.sigma=2,3"]}
  figures:
    - {name: labels, x: epsilon.exact, y: [label_accuracy]}
"""


def test_a_public_sweep_shows_what_may_be_published(run_nzc: RunNzc, histograms: Path) -> None:
    write("sweeps/noise.yaml", SWEEP)
    public = ["rng=system", "tracking.private=false", "figures=null", "teachers.labels=labels.npy"]
    ran = run_nzc("+sweeps=noise", *TRACKED, *public, "dataset.name=people", code=2)
    exact = [result["epsilon"]["exact"] for result in ran.results]
    assert f"{exact[0]:.2f}" not in ran.out and "data-independent" not in ran.err
    sent = str([run.to_dictionary() for run in tracked_runs()])
    assert not any(str(epsilon)[:10] in sent for epsilon in exact)
    parent, *jobs = tracked_runs()
    assert [run.info.run_name for run in jobs] == ["wrong", "σ=2 · little", "σ=3 · little"]
    (view,) = mlflow_client().get_experiment(parent.info.experiment_id).tags.values()
    assert "`aggregator.sigma`" in view and "exact" not in view
    shown = parent.data.tags[MLFLOW_RUN_NOTE]
    assert "Which noise is best?" in shown and "ε published" in shown
    assert not re.search("exact|theorem|figures|1000", shown)
    assert set(parent.data.metrics) == {"jobs", "jobs_failed", "label_accuracy", "epsilon"}
    assert {file.path for file in mlflow_client().list_artifacts(parent.info.run_id)} == {
        "multirun.yaml",
        "jobs.json",
    }


def test_a_database_is_made_whole_or_not_at_all(here: Path, monkeypatch: MonkeyPatch) -> None:
    """MLflow can go on with no half of one, and two processes break one that they make at once."""
    whole, steps = HeadMaintainer.update_to_step, iter(range(1000))

    def stop(maintainer: HeadMaintainer, step: Any) -> None:
        if next(steps) == 9:
            raise KeyboardInterrupt
        whole(maintainer, step)

    monkeypatch.setattr(HeadMaintainer, "update_to_step", stop)
    file = here / "mlflow.db"
    with raises(KeyboardInterrupt):
        create_database(file)
    assert not file.exists()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(create_database, [file] * 2))
    assert mlflow_client().get_experiment_by_name("Default") is not None


@pytest.mark.slow
@parametrize("launcher", ["joblib", "submitit_local", "ray"])
def test_jobs_stand_under_one_parent_under_every_launcher(run_nzc: RunNzc, launcher: str) -> None:
    pytest.importorskip(f"hydra_plugins.hydra_{launcher.removesuffix('_local')}_launcher")
    words = ["student=none", "tracking=mlflow", f"hydra/launcher={launcher}", "queries=9,1000"]
    run_nzc("--multirun", *TEACHERS, *words, code=2)
    assert sorted(_states(nested=True)) == ["FAILED", "FINISHED"]
    parents = {run.data.tags.get("mlflow.parentRunId") for run in tracked_runs()}
    assert len(parents) == 2  # none, and one
