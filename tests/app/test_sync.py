"""Outages of the tracking server: a run is whole without it, and is sent later, once."""

import errno
import json
import os
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from conftest import (
    SMALL,
    VOTES,
    Command,
    RunNzc,
    mlflow_client,
    nowhere,
    parametrize,
    tracked_runs,
)
from filelock import FileLock
from mlflow import MlflowClient
from mlflow.entities import Run
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID, MLFLOW_RUN_NOTE
from omegaconf import OmegaConf
from pytest import MonkeyPatch

from nzc.runs.layout import LOCK, RECORD
from nzc.tracking import unsent

DATABASE = "sqlite:///mlflow.db"
QUIET = ["tracking=mlflow", "tracking.system_metrics=false"]
FILE = [*VOTES, "teachers.path=votes.npy", "aggregator.sigma=10", *QUIET]
#: Entries of MLflow that differ between two runs of one configuration.
DIFFERENT = ("seconds", "epsilon_ledger", "system", "mlflow.runName", "nzc")


def _statuses() -> list[str]:
    return [run.info.status for run in tracked_runs()]


def _recorded(run: Run) -> dict[str, Any]:
    """All that is known of a run, but for times, ids, and what is `DIFFERENT`."""
    client = mlflow_client()
    id = run.info.run_id
    alike = {key for key in [*run.data.metrics, *run.data.tags] if not key.startswith(DIFFERENT)}
    points = {key: client.get_metric_history(id, key) for key in alike & {*run.data.metrics}}
    files = [file.path for place in ("", "config") for file in client.list_artifacts(id, place)]
    # The run's own list keeps what was half sent, and deleted: MLflow takes nothing off it.
    models = client.search_logged_models([run.info.experiment_id], f"source_run_id = '{id}'")
    return {
        "status": run.info.status,
        "params": {key: run.data.params[key] for key in run.data.params if "tracking" not in key},
        "curves": {key: sorted((at.step, at.value) for at in points[key]) for key in points},
        "tags": {key: run.data.tags[key] for key in alike & {*run.data.tags}},
        "data": [data.dataset.digest for data in run.inputs.dataset_inputs],
        "models": len(models),
        "artifacts": sorted(files),
    }


def _change(folder: Path, **values: Any) -> None:
    record = json.loads((folder / RECORD).read_text())
    (folder / RECORD).write_text(json.dumps(record | values))


def _broken(monkeypatch: MonkeyPatch, call: str) -> Callable[[], None]:
    """A call to MLflow does what it does, and its answer is lost; the function that mends it."""
    whole = getattr(MlflowClient, call)

    def lost(*arguments: Any, **options: Any) -> None:
        whole(*arguments, **options)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(MlflowClient, call, lost)
    return lambda: monkeypatch.setattr(MlflowClient, call, whole)


CALLS = ["create_run", "log_batch", "log_model_artifacts", "create_model_version"]


def test_what_was_half_sent_is_sent_whole_and_once(
    run_nzc: RunNzc, command: Command, monkeypatch: MonkeyPatch
) -> None:
    """The server is down while the run lasts; then one call after the other fails once it has done
    its work.
    """
    digits = [*SMALL, "queries=50", "student.steps=20", *QUIET, "tracking.register=digits"]
    sync = ("sync", "--uri", DATABASE)
    down = run_nzc(*digits, f"tracking.uri={nowhere()}")
    assert down.err.count("nzc sync") == 1 and down.result["accuracy"] is not None
    assert command("sync")[0] == 1 and not Path("mlflow.db").exists()
    for call in CALLS:
        mend = _broken(monkeypatch, call)
        assert command(*sync)[0] == 1
        mend()
    run_nzc(*digits)
    for left in (1, 0):
        assert command(*sync)[:2] == (0, f"{left} sent, 0 not, 0 under way\n")
        first, second = (_recorded(run) for run in tracked_runs())
        assert first == second
    assert (first["models"], first["status"]) == (1, "FINISHED")
    assert len(first["curves"]["Student/loss_labeled"]) == 20
    models = mlflow_client().search_logged_models([tracked_runs()[0].info.experiment_id])
    versions = mlflow_client().search_model_versions("name = 'digits'")
    assert {version.source for version in versions} == {
        f"models:/{model.model_id}" for model in models
    }
    assert len(versions) == 2


def test_a_sweep_that_was_not_sent_is_sent_as_a_sweep(
    run_nzc: RunNzc, command: Command, histograms: Path
) -> None:
    begun = 1000 * time.time()
    # The second job is wrong.
    ran = run_nzc("--multirun", *FILE, "queries=10,1000", f"tracking.uri={nowhere()}", code=2)
    assert ran.err.count("nzc sync") == 1 and len(unsent(Path("outputs"))) == 3
    ended = 1000 * time.time()
    assert command("sync", "outputs/sweeps", "--uri", DATABASE)[0] == 0
    assert _statuses() == ["FAILED", "FINISHED", "FAILED"]
    parent, *jobs = tracked_runs()
    assert [run.info.run_name for run in jobs] == ["queries=10", "queries=1000"]
    assert {run.data.tags[MLFLOW_PARENT_RUN_ID] for run in jobs} == {parent.info.run_id}
    for run in (parent, *jobs):
        assert begun - 1 <= run.info.start_time <= run.info.end_time <= ended
    assert "table.md" in _recorded(parent)["artifacts"]

    # One that was killed is sent with the jobs that it finished.
    (sweep,) = Path("outputs/sweeps").glob("*/*")
    _change(sweep / "0", sent=False)
    for name in (".", "1"):
        _change(sweep / name, sent=False, ended=None, until=None)
    for left in (*sweep.glob("table.*"), sweep / "report.html"):
        left.unlink()
    assert command("sync", "--uri", "sqlite:///second.db", "outputs/sweeps")[0] == 0
    parent, *jobs = tracked_runs(mlflow_client("second.db"))
    assert [run.info.status for run in (parent, *jobs)] == ["KILLED", "FINISHED", "KILLED"]
    assert "1 of 2 jobs finished" in parent.data.tags[MLFLOW_RUN_NOTE]


def test_a_killed_run_is_closed_by_the_next_one_in_its_folder(
    run_nzc: RunNzc, histograms: Path
) -> None:
    """A job, and its sweep."""
    again = [*FILE, "--multirun", "hydra.sweep.dir=here"]
    run_nzc(*again)
    for left, run in zip(("here", "here/0"), tracked_runs(), strict=False):
        mlflow_client().update_run(run.info.run_id, "RUNNING")
        _change(Path(left), ended=None, until=None, sent=False)
    Path("here/0/result.json").unlink()
    assert run_nzc(*again, "queries=30").err == ""
    assert _statuses() == ["KILLED"] * 2 + ["FINISHED"] * 2
    assert not unsent(Path("here"))


def test_a_killed_run_is_sent_as_such_and_one_under_way_is_left(
    run_nzc: RunNzc, command: Command, histograms: Path
) -> None:
    run_nzc(*FILE, f"tracking.uri={nowhere()}", "hydra.run.dir=whole")
    _change(Path("whole"), ended=None, until=None, begun=int(1000 * (time.time() - 7200)))
    with FileLock(Path("whole", LOCK)):  # of the run, as long as it lives
        assert command("sync", "whole")[1] == "0 sent, 0 not, 1 under way\n"
    assert command("sync", "whole", "--uri", DATABASE)[0] == 0
    (run,) = tracked_runs()
    ended = 1000 * time.time()
    assert run.info.status == "KILLED" and ended - 60_000 < run.info.end_time <= ended


@parametrize(("status", "code"), [(503, 0), (401, 2)])
def test_an_outage_is_told_from_a_wrong_address(
    run_nzc: RunNzc, histograms: Path, status: int, code: int
) -> None:
    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(status)
            self.end_headers()

        do_GET, log_message = do_POST, lambda *_: None  # type: ignore[assignment]

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        err = run_nzc(*FILE, f"tracking.uri=http://127.0.0.1:{server.server_port}", code=code).err
        server.shutdown()
    assert err.count("\n") == 1
    assert ("`nzc sync` sends it later" in err) == (code == 0) == bool(unsent(Path("outputs")))


def test_a_stored_run_gives_values_and_never_classes(
    run_nzc: RunNzc, command: Command, histograms: Path
) -> None:
    run_nzc(*FILE, f"tracking.uri={nowhere()}", "hydra.run.dir=run")
    stored = OmegaConf.load("run/.hydra/config.yaml")
    copy = {"_target_": "shutil.copy", "src": "votes.npy", "dst": "written"}
    for values in (copy, {"uri": "http://127.0.0.1:9/${oc.env:HOME}"}):
        OmegaConf.save(
            {**stored, "tracking": {**stored.tracking, **values}}, "run/.hydra/config.yaml"
        )
        code, _, err = command("sync", "run")
        assert code == 1 and err.startswith("nzc: run: ") and err.count("\n") == 1, err
        assert not Path("written").exists() and os.environ["HOME"] not in err


def test_a_deleted_experiment_is_named_with_its_remedy(
    run_nzc: RunNzc, command: Command, histograms: Path
) -> None:
    """The run is whole, and everything is sent once the experiment is restored."""
    run_nzc(*FILE)
    experiment = mlflow_client().get_experiment_by_name("votes").experiment_id
    mlflow_client().delete_experiment(experiment)
    ran = run_nzc(*FILE, "seed=1")
    assert len(ran.results) == 2
    assert f"mlflow experiments restore -x {experiment}" in ran.err and "nzc sync" in ran.err
    assert command("sync")[:2] == (1, "0 sent, 1 not, 0 under way\n")
    mlflow_client().restore_experiment(experiment)
    assert command("sync")[:2] == (0, "1 sent, 0 not, 0 under way\n")
    assert _statuses() == ["FINISHED"] * 2
