"""What MLflow is told: how runs and sweeps end under every launcher, what can be searched, and the student served."""

import json
import re
import shutil
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from alembic.runtime.migration import HeadMaintainer
from conftest import SMALL, TEACHERS, VOTES, Nzc, nowhere, tracked_runs
from mlflow import MlflowClient
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NOTE

from nzc.app.config import HOME
from nzc.data.digits import Digits
from nzc.runs import pipeline
from nzc.tracking import tracked_name
from nzc.tracking.mlflow import MLflow, create_database

FILE = [*VOTES, "teachers.path=votes.npy", "tracking=mlflow"]


def _client() -> MlflowClient:
    return MlflowClient(f"sqlite:///{Path.cwd()}/mlflow.db")


def _states(nested: bool) -> list[str]:
    """How the runs ended that stand below another, or those that do not."""
    return [run.info.status for run in tracked_runs(_client()) if ("mlflow.parentRunId" in run.data.tags) == nested]


def _breaks(monkeypatch: pytest.MonkeyPatch, at: int, how: BaseException) -> None:
    """The job `at` of a sweep raises once its work has begun."""
    whole, calls = pipeline.execute, [0]

    def execute(*arguments: Any) -> Any:
        calls[0] += 1
        if calls[0] - 1 == at:
            raise how
        return whole(*arguments)

    monkeypatch.setattr(pipeline, "execute", execute)


def test_a_job_that_fails_is_marked_and_the_sweep_goes_on(
    nzc: Nzc, histograms: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one whose input is wrong, before it begins."""
    _breaks(monkeypatch, 1, RuntimeError("no more memory"))
    assert nzc("--multirun", *FILE, "queries=10,20,30,1000").code == 2
    assert _states(nested=True) == ["FINISHED", "FAILED", "FINISHED", "FAILED"]
    assert _states(nested=False) == ["FAILED"]
    parent, *jobs = tracked_runs(_client())
    assert [job.info.run_name for job in jobs] == [f"queries={number}" for number in (10, 20, 30, 1000)]
    assert (parent.data.metrics["jobs"], parent.data.metrics["jobs_failed"]) == (4, 2)
    assert "no more memory" in parent.data.tags[MLFLOW_RUN_NOTE]
    assert "table.md" in {file.path for file in _client().list_artifacts(parent.info.run_id)}


@pytest.mark.parametrize("key", ["student.network", "representation.encoder.network"])
def test_a_network_that_does_not_suit_is_refused_before_anything_is_recorded(
    nzc: Nzc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    lines = ["from torch.nn import Flatten, Linear, Sequential, Softmax", "def Own():"]
    Path("own.py").write_text("\n".join([*lines, "    return Sequential(Flatten(), Linear(64, 10), Softmax(1))"]))
    group = "student=gan_ssl" if key.startswith("student") else "representation=contrastive"
    chosen = ["recipe=near_zero", "teachers=logistic", "tracking=mlflow", "trainer.accelerator=cpu", group]
    ran = nzc(*chosen, f"{key}={{_target_:own.Own}}")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert ran.err.startswith(f"nzc: {key.removesuffix('.network')}")
    assert {path.name for path in tmp_path.iterdir()} <= {"own.py", "__pycache__"}


def test_a_sweep_that_is_stopped_closes_all_that_it_opened(
    nzc: Nzc, histograms: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _breaks(monkeypatch, 1, KeyboardInterrupt())
    assert nzc("--multirun", *FILE, "seed=0,1,2").code == 130
    assert _states(nested=True) == ["FINISHED", "KILLED"]
    assert _states(nested=False) == ["KILLED"]
    assert "1 of 3 jobs finished" in tracked_runs(_client())[0].data.tags[MLFLOW_RUN_NOTE]
    (page,) = histograms.parent.glob("outputs/sweeps/*/*/report.html")
    assert "1 of 3 runs finished" in page.read_text()
    assert "was not started" in (page.parent / "table.md").read_text()


QUESTION = "Which noise is best for 50 teachers?"
FILE_OF_SWEEP = f"""# @package _global_
# {QUESTION}
hydra: {{mode: MULTIRUN}}
sweep:
  rows:
    - {{name: none, set: [aggregator=plurality]}}
    - {{name: much, set: [aggregator=gnmax, "aggregator.sigma=40"]}}
    - {{name: little, set: [aggregator=gnmax, "aggregator.sigma=2,3"]}}
  figures:
    - {{name: labels, x: epsilon.exact, y: [label_accuracy]}}
"""


def _own_sweep(text: str = FILE_OF_SWEEP) -> list[str]:
    Path("sweeps").mkdir()
    Path("sweeps/noise.yaml").write_text(text)
    return ["+sweeps=noise", *FILE, "teachers.labels=labels.npy"]


def test_a_sweep_shows_its_question_its_table_its_figures_and_its_best_job(nzc: Nzc, histograms: Path) -> None:
    ran = nzc(*_own_sweep(), "figures=null", "queries=30")
    assert ran.code == 0, ran.err
    parent, *jobs = tracked_runs(_client())
    names = ["none", "much", "little, aggregator.sigma=2", "little, aggregator.sigma=3"]
    assert [job.info.run_name for job in jobs] == names
    assert parent.info.run_name.startswith("noise · recipe=papers teachers=votes dataset=none student=none")
    shown, metrics, best = (parent.data.tags[MLFLOW_RUN_NOTE], parent.data.metrics, parent.data.tags["best"])
    assert shown.startswith(QUESTION)
    assert all(f"| {name}&ensp; |" in shown for name in names)
    assert f"get-artifact?run_uuid={parent.info.run_id}&path=figures/labels.svg" in shown
    assert "figures/labels.svg" in {file.path for file in _client().list_artifacts(parent.info.run_id, "figures")}
    assert (metrics["jobs"], metrics["jobs_failed"]) == (4, 0)
    # The clean votes are the most accurate, but without a finite ε.
    finite = [job for job in jobs if "epsilon" in job.data.metrics]
    most = max(job.data.metrics["label_accuracy"] for job in finite)
    (named,) = (job for job in finite if job.info.run_name == best)
    assert named.data.metrics["label_accuracy"] == metrics["label_accuracy"] == most
    assert named.data.metrics["epsilon"] == metrics["epsilon"]
    assert named.data.tags[MLFLOW_RUN_NOTE] in shown
    assert f"{ran.results[2]['delta']:g}" in named.data.tags[MLFLOW_RUN_NOTE]


def test_a_public_sweep_shows_what_may_be_published(nzc: Nzc, histograms: Path) -> None:
    rows = FILE_OF_SWEEP.replace("[aggregator=plurality]", "[queries=1000]")
    assert nzc(*_own_sweep(rows), "rng=system", "tracking.private=false", "figures=null").code == 2
    parent = tracked_runs(_client())[0]
    shown = parent.data.tags[MLFLOW_RUN_NOTE]
    assert parent.info.status == "FAILED"
    assert QUESTION in shown and "ε published" in shown and " jobs finished." in shown
    assert not re.search("exact|theorem|figures|1000", shown)
    assert set(parent.data.metrics) == {"jobs", "jobs_failed", "label_accuracy", "epsilon"}
    assert {file.path for file in _client().list_artifacts(parent.info.run_id)} == {"multirun.yaml", "jobs.json"}


def test_a_run_is_named_by_what_was_typed_but_for_secrets_and_places(nzc: Nzc, histograms: Path) -> None:
    assert nzc(*FILE, "tracking.model=false", "paths.store=kept", "+objective=http://me:hunter2@there").code == 0
    (run,) = tracked_runs(_client())
    assert run.info.run_name.startswith("none · gnmax · recipe=papers teachers=votes student=none teachers.path=")
    assert not re.search("hunter2|tracking|kept|dataset=", run.info.run_name)
    assert len(run.info.run_name) <= 100
    assert run.data.tags[MLFLOW_RUN_NOTE].startswith("40 labels released; ε published ")
    assert tracked_name(["digits", "gnmax"], ["a=" + 100 * "x", "+hydra.job.x=1"]) == "digits · gnmax · …"


def test_the_lines_of_the_documentation_list_a_sweep(
    nzc: Nzc, histograms: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And names do not resolve what the environment keeps."""
    monkeypatch.setenv("OWN_DELTA", "1e-6")
    assert nzc("--multirun", "delta=${oc.env:OWN_DELTA}", *FILE, "seed=0,1").code == 0
    parent, *jobs = tracked_runs(_client())
    assert [job.info.run_name for job in jobs] == ["seed=0", "seed=1"]
    assert "delta=${oc.env:OWN_DELTA}" in parent.info.run_name
    text = (HOME / "docs/tracking.md").read_text()
    (lines,) = re.findall(r"^    import mlflow\n.*?^    print.*?\n", text, re.M | re.S)
    here = textwrap.dedent(lines).replace("mlflow.db", f"{Path.cwd()}/mlflow.db").replace("digits", "none")
    exec(here, {})
    listed = capfd.readouterr().out
    assert [len(re.findall(word, listed)) for word in ("seed=0", "seed=1", "FINISHED")] == [1, 1, 2]


def test_a_database_is_made_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MLflow can go on with no half of one, and two processes break one that they make at once."""
    monkeypatch.chdir(tmp_path)
    whole, steps = HeadMaintainer.update_to_step, iter(range(1000))

    def stop(maintainer: HeadMaintainer, step: Any) -> None:
        if next(steps) == 9:
            raise KeyboardInterrupt
        whole(maintainer, step)

    monkeypatch.setattr(HeadMaintainer, "update_to_step", stop)
    file = tmp_path / "mlflow.db"
    with pytest.raises(KeyboardInterrupt):
        create_database(file)
    assert not file.exists()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(create_database, [file] * 4))
    assert MlflowClient(f"sqlite:///{file}").get_experiment_by_name("Default") is not None


def test_artifacts_go_where_they_are_asked_to_or_nowhere(nzc: Nzc, histograms: Path) -> None:
    home = histograms.parent
    assert nzc(*FILE, f"tracking.artifacts={home}/./kept").code == nzc(*FILE, "tracking.artifacts=kept").code == 0
    ran = nzc(*FILE, "tracking.artifacts=other")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert ran.err.startswith(f"nzc: tracking.artifacts={home}/other: must be {home}/kept, where")
    assert nzc(*FILE, "tracking.artifacts=other", "tracking.uri=sqlite:///new.db").code == 0
    assert list((home / "other").rglob("result.json"))


def test_a_run_that_fails_keeps_all_points_of_its_learning_curves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: Path
) -> None:
    shutil.copyfile(database, tmp_path / "mlflow.db")
    monkeypatch.chdir(tmp_path)

    def tracker() -> MLflow:
        return MLflow("sqlite:///mlflow.db", "artifacts", system_metrics=False)

    record = {"experiment": "one", "name": "run", "process": "host 1", "begun": 1, "ended": None, "params": {"a": "1"}}
    parent = tracker().open(record | {"key": "sweep", "params": {}}, None)
    (run := tracker()).open(record | {"key": "job"}, parent)
    for step in range(5):
        run.log({"Student/loss": 0.5 * step, "Student/other": float("nan")}, step)
    run.close(tmp_path, record | {"ended": "FAILED", "until": 2})
    points = _client().get_metric_history(run.run, "Student/loss")
    assert sorted((point.step, point.value) for point in points) == [(step, 0.5 * step) for step in range(5)]
    assert {run.info.run_id: run.info.status for run in tracked_runs(_client())} == {
        parent: "RUNNING",
        run.run: "FAILED",
    }


def test_the_database_is_in_the_working_directory(nzc: Nzc, histograms: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shared folders keep their permissions, and what is new is private."""
    here = Path("a é #1").absolute()
    here.mkdir()
    Path("votes.npy").rename(here / "votes.npy")
    monkeypatch.chdir(here)
    Path("shared").mkdir()
    Path("shared").chmod(0o2775)
    Path("link").symlink_to("shared")
    assert nzc(*FILE, "tracking.artifacts=link").code == 0
    new = [Path("mlflow.db"), *Path("shared").rglob("*")]
    assert len(new) > 5
    assert [path for path in new if path.stat().st_mode & 0o077] == []
    assert Path("shared").stat().st_mode & 0o7777 == 0o2775


def test_what_is_recorded_can_be_searched(nzc: Nzc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL", "0.05")
    ran = nzc(
        "--multirun", *TEACHERS, "student=none", "tracking=mlflow", "aggregator=lnmax", "aggregator.gamma=0.1,0.2"
    )
    client, digest = _client(), Digits(seed=0, private=1200, public=400).load().digest
    for query in ("params.aggregator.gamma = '0.1'", "params.`aggregator.gamma` = '0.1'"):
        assert [run.data.params["aggregator.gamma"] for run in tracked_runs(client, query)] == ["0.1"]
    assert len(tracked_runs(client, "metrics.epsilon > 0 and params.aggregator = 'lnmax'")) == len(ran.results) == 2
    assert len(tracked_runs(client, "dataset.name = 'digits'")) == 2
    run = tracked_runs(client, f"dataset.digest = '{digest[:36]}' and params.aggregator.gamma = '0.2'")[0]
    assert json.loads(run.inputs.dataset_inputs[0].dataset.profile)["private"] == 1200
    assert run.data.metrics["system/system_memory_usage_megabytes"] > 0


def test_a_password_is_neither_said_nor_sent_and_from_the_environment_not_even_kept(
    nzc: Nzc, histograms: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = nowhere().replace("//", "//user:hunter2@")
    typed = nzc(*FILE, f"objective={address}", "hydra.run.dir=typed")  # a key like tracking.uri, but nobody's address
    assert typed.code == 0, typed.err
    assert tracked_runs(_client())[0].data.params["objective"] == address.replace("hunter2", "***")
    monkeypatch.setenv("ADDRESS", address)
    ran = nzc(*FILE, "tracking.uri=${oc.env:ADDRESS}", "objective=${tracking.uri}", "hydra.run.dir=told")
    assert "could not be tracked" in ran.err and "hunter2" not in ran.err
    kept = [path for path in Path().rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]
    assert {path.parent for path in kept} == {Path("typed/.hydra")}


def test_the_student_is_registered_and_takes_rows_as_the_dataset_has_them(nzc: Nzc) -> None:
    from mlflow import pyfunc, set_tracking_uri

    ran = nzc(*SMALL, "tracking=mlflow", "tracking.register=student-of-digits")
    set_tracking_uri(f"sqlite:///{Path.cwd()}/mlflow.db")
    model = pyfunc.load_model("models:/student-of-digits/1")
    test = Digits(seed=0, private=1200, public=400).load().test
    table = model.predict(test.x)
    assert (table["label"].astype(int) == test.y).mean() == pytest.approx(ran.result["accuracy"])
    np.testing.assert_allclose(table.filter(like="p(").sum(axis=1), 1)
    version = _client().get_model_version("student-of-digits", "1")
    assert version.tags["unit"] == "record" and version.tags["dataset"] == "digits"
    assert version.tags["epsilon"] in version.description


def test_the_student_of_own_features_takes_rows_of_the_file(nzc: Nzc) -> None:
    from mlflow import pyfunc, set_tracking_uri

    y, role = np.arange(600) % 3, np.repeat(["private", "public", "test"], 200)
    near = np.random.default_rng(0).normal(size=(600, 4)) + 2 * np.eye(4)[y]
    x = np.rint(near * [1e2, 1e6, 1e4, 1e3] + [1e7, 0, -1e6, 0])  # exact in every type below
    np.savez("data.npz", x=x, y=y, role=role)
    recorded = ["aggregator=plurality", "tracking=mlflow", "tracking.register=own"]
    ran = nzc("dataset=npz", "dataset.path=data.npz", *SMALL, *recorded)
    assert 0.6 < ran.result["accuracy"] < 1, ran.err
    set_tracking_uri(f"sqlite:///{Path.cwd()}/mlflow.db")
    served = pyfunc.load_model("models:/own/1").predict(x[400:])["label"].astype(int)
    assert (served == y[400:]).mean() == pytest.approx(ran.result["accuracy"])


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["joblib", "submitit_local", "ray"])
def test_jobs_stand_under_one_parent_under_every_launcher(nzc: Nzc, launcher: str) -> None:
    pytest.importorskip(f"hydra_plugins.hydra_{launcher.removesuffix('_local')}_launcher")
    ran = nzc(
        "--multirun", *TEACHERS, "student=none", "tracking=mlflow", f"hydra/launcher={launcher}", "queries=9,1000"
    )
    assert ran.code == 2
    runs = tracked_runs(_client())
    parent = next(run.info.run_id for run in runs if "mlflow.parentRunId" not in run.data.tags)
    assert sorted(_states(nested=True)) == ["FAILED", "FINISHED"]
    assert {run.data.tags["mlflow.parentRunId"] for run in runs if run.info.run_id != parent} == {parent}
