"""What MLflow is told: how runs and sweeps end under every launcher, what can be searched, and the
student served.
"""

import json
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from alembic.runtime.migration import HeadMaintainer
from conftest import (
    SMALL,
    TEACHERS,
    VOTES,
    Command,
    Nzc,
    mlflow_client,
    nowhere,
    parametrize,
    tracked_runs,
)
from mlflow import MlflowClient
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NOTE
from omegaconf import OmegaConf
from pytest import CaptureFixture, MonkeyPatch, raises

from nzc.app.config import CONF
from nzc.runs import outputs, pipeline
from nzc.runs.layout import short_name
from nzc.tracking import record, tracked, unsent
from nzc.tracking.mlflow import create_database
from nzc.tracking.tracker import USUAL_URI

FILE = [*VOTES, "teachers.path=votes.npy", "tracking=mlflow"]


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
def test_a_sweep_goes_on_after_a_job_that_fails_and_closes_all_where_it_is_stopped(
    nzc: Nzc, histograms: Path, monkeypatch: MonkeyPatch,
    how: BaseException, code: int, jobs: list[str], note: str,
) -> None:  # fmt: skip
    """Also after one whose input is wrong, before it begins: the third."""
    works = iter([pipeline.execute, Mock(side_effect=how)])
    monkeypatch.setattr(pipeline, "execute", lambda *arguments: next(works)(*arguments))
    ran = nzc("--multirun", *FILE, "queries=10,20,1000", "seed=0", code=code)
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


def test_a_public_sweep_shows_what_may_be_published(nzc: Nzc, histograms: Path) -> None:
    Path("sweeps").mkdir()
    Path("sweeps/noise.yaml").write_text(SWEEP)
    public = ["rng=system", "tracking.private=false", "figures=null", "teachers.labels=labels.npy"]
    ran = nzc("+sweeps=noise", *FILE, *public, "dataset.name=people", code=2)
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


def test_runs_are_named_by_what_was_typed_but_for_secrets_and_places(
    nzc: Nzc, histograms: Path
) -> None:
    unnamed = ["tracking.model=false", "paths.store=kept", "+objective=http://me:hunter2@there"]
    ran = nzc(*FILE, *unnamed)
    (run,) = tracked_runs()
    name = run.info.run_name
    assert name.startswith("teachers=votes student=none path=votes.npy objective=")
    assert "/runs?viewStateShareKey=nzc\n" in ran.out
    assert not re.search("hunter2|tracking|kept|dataset=", name) and len(name) <= 100
    typed = ["a=" + 100 * "x", "+hydra.job.x=1"]
    assert short_name(typed, "digits", "gnmax") == "… · digits · gnmax"


def test_memory_and_time_are_sent_only_where_private_facts_may_be(
    nzc: Nzc, histograms: Path, monkeypatch: MonkeyPatch
) -> None:
    """A whole run sends them otherwise."""
    monitor = Mock()
    monkeypatch.setattr("nzc.tracking.mlflow.SystemMetricsMonitor", monitor)
    _lasts(monkeypatch)
    given = ["tracking.system_metrics=true", "tracking.private=false", "rng=system"]
    nzc(*FILE, *given, "dataset.name=people")
    assert not monitor.called


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


def _lasts(monkeypatch: MonkeyPatch) -> None:
    """A run counts as one that lasts from its first moment, and does not end before its tracker has
    opened it.
    """
    monkeypatch.setattr(record, "SHORT", 0.0)
    monkeypatch.setattr(record, "EVERY", 0.01)
    works = pipeline.execute

    def execute(*arguments: Any) -> Any:
        folder = Path(arguments[1])
        _until(lambda: record.read_record(folder)["run"] is not None)
        return works(*arguments)

    monkeypatch.setattr(pipeline, "execute", execute)


def _until(true: Callable[[], object]) -> None:
    for _ in range(1000):
        if true():
            return
        time.sleep(0.02)
    raise TimeoutError


def test_a_run_that_lasts_is_seen_before_its_end(nzc: Nzc, monkeypatch: MonkeyPatch) -> None:
    """With its params and curves, as RUNNING; and it ends as one that was sent at its end."""
    _lasts(monkeypatch)
    seen, works = [], outputs.write_outputs

    def look(folder: Path, *arguments: Any) -> Any:
        points = len((folder / "student.csv").read_text().splitlines()) - 1
        (run,) = tracked_runs()
        _until(
            lambda: (
                len(mlflow_client().get_metric_history(run.info.run_id, "Student/loss_labelled"))
                == points
            )
        )
        seen.append((run.info.status, run.data.params["teachers.count"], points))
        return works(folder, *arguments)

    monkeypatch.setattr(pipeline, "write_outputs", look)
    live = nzc(
        *SMALL, "queries=50", "student.steps=20", "tracking=mlflow", "tracking.system_metrics=false"
    )
    assert seen == [("RUNNING", "6", 20)] and "track" not in live.err
    (run,) = tracked_runs()
    assert run.info.status == "FINISHED"
    assert len(mlflow_client().get_metric_history(run.info.run_id, "Student/loss_labelled")) == 20


def test_a_tracker_that_fails_while_a_run_lasts_costs_a_line(
    tmp_path: Path, capsys: CaptureFixture[str], monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "SHORT", 0.0)
    monkeypatch.setattr(record, "EVERY", 0.0)
    answers = {"open.return_value": "id", "close.return_value": ""}
    recorder = Mock(**answers, **{"send_curves.side_effect": OSError("gone")})
    with tracked(Mock(recorder=recorder), tmp_path, "experiment", "run", {"a": 1}):
        _until(lambda: recorder.send_curves.called)
    assert recorder.send_curves.call_count == 1 and not unsent(tmp_path)
    assert capsys.readouterr().err.count("\n") == 1


def test_a_run_that_is_stopped_while_it_is_sent_is_sent_later(
    nzc: Nzc, command: Command, histograms: Path, monkeypatch: MonkeyPatch
) -> None:
    """Its table has been printed by then."""
    whole = MlflowClient.create_run
    monkeypatch.setattr(MlflowClient, "create_run", Mock(side_effect=KeyboardInterrupt()))
    ran = nzc(*FILE, "tracking.model=false", code=130)
    assert "labels" in ran.out
    assert "could not be tracked (stopped): `nzc sync` sends it later" in ran.err
    monkeypatch.setattr(MlflowClient, "create_run", whole)
    assert command("sync")[:2] == (0, "1 sent, 0 not, 0 under way\n")
    assert [run.info.status for run in tracked_runs()] == ["FINISHED"]


def test_database_and_artifacts_are_where_they_are_asked_to_be(
    nzc: Nzc, histograms: Path, monkeypatch: MonkeyPatch
) -> None:
    """By default in the working directory. What is new is private."""
    here = Path("a é #1").absolute()
    here.mkdir()
    Path("votes.npy").rename(here / "votes.npy")
    monkeypatch.chdir(here)
    nzc(*FILE, "tracking.artifacts=shared")
    ran = nzc(*FILE, "tracking.artifacts=other")
    assert f"could not be tracked (tracking.artifacts={here}/other: " in ran.err
    new = [Path("mlflow.db"), *Path("shared").rglob("*")]
    assert len(new) > 5 and [path for path in new if path.stat().st_mode & 0o077] == []


def test_a_password_is_neither_said_nor_sent_and_from_the_environment_not_even_kept(
    nzc: Nzc, histograms: Path, monkeypatch: MonkeyPatch
) -> None:
    address = nowhere().replace("//", "//user:hunter2@")
    # A key like tracking.uri, but nobody's address.
    nzc(*FILE, f"objective={address}", "hydra.run.dir=typed")
    assert tracked_runs()[0].data.params["objective"] == address.replace("hunter2", "***")
    monkeypatch.setenv("ADDRESS", address)
    ran = nzc(
        *FILE, "tracking.uri=${oc.env:ADDRESS}", "objective=${tracking.uri}", "hydra.run.dir=told"
    )
    assert "could not be tracked" in ran.err and "hunter2" not in ran.err
    kept = [
        path for path in Path().rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()
    ]
    assert {path.parent for path in kept} == {Path("typed/.hydra")}


@pytest.mark.slow
@parametrize("launcher", ["joblib", "submitit_local", "ray"])
def test_jobs_stand_under_one_parent_under_every_launcher(nzc: Nzc, launcher: str) -> None:
    pytest.importorskip(f"hydra_plugins.hydra_{launcher.removesuffix('_local')}_launcher")
    words = ["student=none", "tracking=mlflow", f"hydra/launcher={launcher}", "queries=9,1000"]
    nzc("--multirun", *TEACHERS, *words, code=2)
    assert sorted(_states(nested=True)) == ["FAILED", "FINISHED"]
    parents = {run.data.tags.get("mlflow.parentRunId") for run in tracked_runs()}
    assert len(parents) == 2  # none, and one


def test_variables_that_mlflow_would_follow_are_named(
    nzc: Nzc, histograms: Path, monkeypatch: MonkeyPatch
) -> None:
    """What is recorded is private by default, so it goes where the configuration says, and nowhere
    else.
    """
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///of_others.db")
    quiet = [*FILE, "aggregator.sigma=10"]
    err = nzc(*quiet).err
    assert err.count("\n") == 1 and "MLFLOW_TRACKING_URI" in err
    assert len(tracked_runs()) == 1 and not Path("of_others.db").exists()
    ran = nzc(*quiet, "tracking.uri=${oc.env:MLFLOW_TRACKING_URI}")  # as the line says
    assert ran.err == "" and Path("of_others.db").exists()
    assert OmegaConf.load(CONF / "tracking/mlflow.yaml").uri == USUAL_URI
