"""Outages of the tracking server: a run is whole without it, and is sent later, once."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
import requests
from conftest import SMALL, TEACHERS, VOTES, Command, Nzc, nowhere
from mlflow import MlflowClient
from mlflow.entities import Run
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NOTE
from omegaconf import OmegaConf

from nzc.tracking.mlflow import MLflow
from nzc.tracking.outbox import RECORD, _alone, unsent

DATABASE = "sqlite:///mlflow.db"
FILE = [*VOTES, "teachers.path=votes.npy", "tracking=mlflow"]


def _client(uri: str) -> MlflowClient:
    """MLflow keeps connections, by a relative path from test to test."""
    return MlflowClient(uri.replace("sqlite:///", f"sqlite:///{Path.cwd()}/"))


def _runs(uri: str = DATABASE) -> list[Run]:
    client = _client(uri)
    everywhere = [experiment.experiment_id for experiment in client.search_experiments()]
    return list(client.search_runs(everywhere, order_by=["attributes.start_time"]))


def _recorded(run: Run, uri: str = DATABASE) -> dict[str, Any]:
    """All that is known of a run, but for times, ids, and what differs between two runs of one configuration."""
    client, id = _client(uri), run.info.run_id
    own = ("seconds", "epsilon_ledger_total", "system")
    metrics = {key: value for key, value in run.data.metrics.items() if not key.startswith(own)}
    curves = {key: [(p.step, np.float32(p.value)) for p in client.get_metric_history(id, key)] for key in metrics}
    tags = {key: value for key, value in run.data.tags.items() if key.startswith("epsilon_") and not key.endswith("l")}
    return {
        "experiment": client.get_experiment(run.info.experiment_id).name,
        "name": run.info.run_name,
        "status": run.info.status,
        "params": {key: value for key, value in run.data.params.items() if not key.startswith("tracking.")},
        "curves": curves,
        "tags": tags,
        "data": [each.dataset.digest for each in run.inputs.dataset_inputs],
        # The run's own list keeps what was half sent, and deleted: MLflow takes nothing off it.
        "models": len(client.search_logged_models([run.info.experiment_id], f"source_run_id = '{id}'")),
        "artifacts": sorted(file.path for folder in ("", "config") for file in client.list_artifacts(id, folder)),
    }


def test_a_run_whose_server_is_down_is_whole_and_sent_later(
    nzc: Nzc, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    down = nzc(*SMALL, f"tracking.uri={nowhere()}", "tracking.system_metrics=false")
    assert down.code == 0
    assert down.err.count("\n") == 1
    assert "does not answer" in down.err
    assert "nzc sync" in down.err
    assert down.result["accuracy"] is not None
    assert command("sync")[0] == 1
    assert not Path("mlflow.db").exists()

    assert nzc(*SMALL, "tracking.system_metrics=false").code == 0
    assert command("sync", "--uri", DATABASE)[0] == 0
    first, second = (_recorded(run) for run in _runs())
    assert first == second
    assert first["models"] == 1
    assert first["status"] == "FINISHED"
    assert any(len(points) > 1 for points in first["curves"].values())
    assert not unsent(Path("outputs"))
    assert command("sync", "--uri", DATABASE)[0] == 0
    assert len(_runs()) == 2


def test_a_full_disk_costs_a_line_and_the_run_is_completed_later(
    nzc: Nzc, command: Command, histograms: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    whole = MlflowClient.log_artifact
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(MlflowClient, "log_artifact", lambda *_, **__: (_ for _ in ()).throw(full))
    ran = nzc(*FILE)
    assert ran.code == 0
    assert ran.err.count("\n") == 1
    assert "No space left" in ran.err
    monkeypatch.setattr(MlflowClient, "log_artifact", whole)
    code, said, _ = command("sync")
    assert code == 0
    assert said == "1 sent, 0 not, 0 under way\n"
    (run,) = _runs()
    assert run.info.status == "FINISHED"
    assert "result.json" in _recorded(run)["artifacts"]


def _broken(monkeypatch: pytest.MonkeyPatch, call: str) -> Callable[[], None]:
    """A call to MLflow does what it does, and its answer is lost; the function that mends it."""
    whole = getattr(MlflowClient, call)

    def lost(*arguments: Any, **options: Any) -> None:
        whole(*arguments, **options)
        raise OSError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(MlflowClient, call, lost)
    return lambda: monkeypatch.setattr(MlflowClient, call, whole)


def test_a_model_that_was_half_sent_is_sent_whole_and_once(
    nzc: Nzc, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    mend = _broken(monkeypatch, "log_model_artifacts")
    ran = nzc(*SMALL, "tracking=mlflow", "tracking.register=digits")
    assert ran.code == 0
    assert "Broken pipe" in ran.err
    mend()
    mend = _broken(monkeypatch, "create_model_version")
    assert command("sync")[0] == 1
    mend()
    assert command("sync")[0] == 0
    client, (run,) = _client(DATABASE), _runs()
    (model,) = client.search_logged_models([run.info.experiment_id])
    assert model.status == "READY"
    assert [version.source for version in client.search_model_versions("name = 'digits'")] == [
        f"models:/{model.model_id}"
    ]


@pytest.mark.parametrize("call", ["create_run", "log_batch"])
def test_a_run_whose_opening_was_broken_off_is_completed(
    nzc: Nzc, command: Command, histograms: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    nzc(*FILE, f"tracking.uri={nowhere()}")
    mend = _broken(monkeypatch, call)
    assert command("sync", "--uri", DATABASE)[0] == 1
    assert len(_runs()) == 1
    mend()
    assert command("sync", "--uri", DATABASE)[0] == 0
    (run,) = _runs()
    assert run.info.status == "FINISHED"
    assert run.data.params["aggregator"] == "gnmax"


def test_a_backlog_is_sent_from_anywhere_and_to_anywhere(
    nzc: Nzc, command: Command, histograms: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mend = _broken(monkeypatch, "log_artifact")
    assert nzc(*FILE).code == nzc(*FILE).code == 0
    mend()
    home, away = Path.cwd(), Path.cwd() / "away"
    away.mkdir()
    monkeypatch.chdir(away)
    first, second = map(str, unsent(home / "outputs"))
    assert command("sync", first)[0] == 0
    assert not list(away.iterdir())
    assert command("sync", second, "--uri", DATABASE)[0] == 0  # of here
    assert [run.info.status for run in _runs()] == ["FINISHED"]
    monkeypatch.chdir(home)
    assert len(_runs()) == 2


@pytest.mark.parametrize(("health", "rest", "code"), [(500, 500, 0), (200, 500, 0), (200, 503, 0), (200, 404, 2)])
def test_a_server_whose_own_database_is_down_never_stops_a_run(
    nzc: Nzc, histograms: Path, monkeypatch: pytest.MonkeyPatch, health: int, rest: int, code: int
) -> None:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(health if self.path == "/health" else rest)
            self.end_headers()

        do_POST = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        ran = nzc(*FILE, f"tracking.uri=http://127.0.0.1:{server.server_port}")
        server.shutdown()
    assert (ran.code, ran.err.count("\n")) == (code, 1)
    assert ("`nzc sync` sends it later" in ran.err) == (code == 0)
    assert len(unsent(Path("outputs"))) == (code == 0)


def test_a_server_is_there_whose_certificate_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    error = requests.exceptions.SSLError("self-signed certificate")
    monkeypatch.setattr("requests.get", lambda *_, **__: (_ for _ in ()).throw(error))
    MLflow("https://server", "artifacts", False, None, False)._require_answer()


def test_a_sweep_whose_server_is_down_is_sent_as_a_sweep(
    nzc: Nzc, command: Command, histograms: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = time.time()
    ran = nzc("--multirun", *FILE, "queries=10,1000,20", f"tracking.uri={nowhere()}")
    assert ran.code == 2  # of the wrong one
    assert ran.err.count("does not answer") == 1
    assert len(unsent(Path("outputs"))) == 4
    ended = time.time()
    assert command("sync", "outputs/sweeps", "--uri", DATABASE)[0] == 0
    parent, *jobs = _runs()
    assert [run.info.status for run in (parent, *jobs)] == ["FAILED", "FINISHED", "FAILED", "FINISHED"]
    assert [run.info.run_name for run in jobs] == ["queries=10", "queries=1000", "queries=20"]
    assert (parent.data.metrics["jobs"], parent.data.metrics["jobs_failed"]) == (3, 1)
    assert "| queries=20&ensp; |" in parent.data.tags[MLFLOW_RUN_NOTE]
    assert {run.data.tags["mlflow.parentRunId"] for run in jobs} == {parent.info.run_id}
    assert all(begun <= run.info.start_time / 1000 + 0.001 for run in (parent, *jobs))
    assert all(run.info.start_time <= run.info.end_time <= 1000 * ended for run in (parent, *jobs))
    assert "table.md" in _recorded(parent)["artifacts"]


def test_a_sweep_that_was_killed_outright_is_sent_with_the_jobs_that_it_finished(
    nzc: Nzc, command: Command, histograms: Path
) -> None:
    nzc("--multirun", *FILE, "queries=10,20", f"tracking.uri={nowhere()}")
    (sweep,) = Path("outputs/sweeps").glob("*/*")
    for folder in (sweep, sweep / "1"):
        told = json.loads((folder / RECORD).read_text())
        gone = told["process"].rsplit(" ", 1)[0] + " 1000000000"
        (folder / RECORD).write_text(json.dumps(told | {"ended": None, "until": None, "process": gone}))
    for left in (*sweep.glob("table.*"), sweep / "report.html", sweep / "1" / "result.json"):
        left.unlink()
    assert command("sync", "--uri", DATABASE)[0] == 0
    parent, *jobs = _runs()
    assert [run.info.status for run in (parent, *jobs)] == ["KILLED", "FINISHED", "KILLED"]
    assert "1 of 2 jobs finished" in parent.data.tags[MLFLOW_RUN_NOTE]
    assert "did not finish (job 1: queries=20)" in parent.data.tags[MLFLOW_RUN_NOTE]


def test_what_was_killed_is_sent_as_killed_and_what_is_under_way_is_left(
    nzc: Nzc, command: Command, histograms: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    nzc(*FILE, f"tracking.uri={nowhere()}")
    (note,) = Path("outputs").rglob(RECORD)
    told = json.loads(note.read_text()) | {"ended": None}
    note.write_text(json.dumps(told))
    assert command("sync", "--uri", DATABASE)[:2] == (0, "0 sent, 0 not, 1 under way\n")
    note.write_text(json.dumps(told | {"ended": "FINISHED"}))
    with _alone(note.parent):
        assert command("sync", "--uri", DATABASE)[:2] == (0, "0 sent, 0 not, 1 under way\n")
    note.write_text(json.dumps(told | {"process": told["process"].rsplit(" ", 1)[0] + " 1000000000"}))
    (note.parent / "result.json").unlink()
    assert command("sync", "--uri", DATABASE)[0] == 0
    assert [run.info.status for run in _runs()] == ["KILLED"]


def test_a_killed_run_is_not_taken_for_an_earlier_one_in_its_folder(
    nzc: Nzc, command: Command, histograms: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nzc(*FILE, f"tracking.uri={nowhere()}", "hydra.run.dir=here")
    note = Path("here", RECORD)
    told = json.loads(note.read_text())
    assert nzc(*FILE, "tracking.uri=nosuch://place", "hydra.run.dir=here").code == 2
    assert json.loads(note.read_text()) == told  # still to be sent
    gone = told["process"].rsplit(" ", 1)[0] + " 1000000000"
    note.write_text(json.dumps(told | {"ended": None, "process": gone, "begun": told["until"] + 2000}))
    assert command("sync", "here", "--uri", DATABASE)[0] == 0
    assert [run.info.status for run in _runs()] == ["KILLED"]


@pytest.mark.parametrize(("values", "says"), [
    ({"_target_": "shutil.copy", "src": "votes.npy", "dst": "written"}, "tracking._target_=shutil.copy: must be"),
    ({"_target_": "mine.Tracker"}, "tracking._target_=mine.Tracker: must be nzc.tracking.mlflow.MLflow"),
    ({"uri": "http://127.0.0.1:9/${oc.env:HOME}"}, "tracking.uri=http://127.0.0.1:9/${oc.env:HOME}: must be a plain"),
    ({"uri": {"_target_": "shutil.copy", "src": "votes.npy", "dst": "written"}}, "tracking.uri="),
    ({"private": "no"}, "tracking.private=no: must be"), ({"more": 1}, "tracking.more=1"),
])  # fmt: skip
def test_a_stored_run_gives_values_and_never_classes(
    nzc: Nzc, command: Command, histograms: Path, values: dict[str, Any], says: str
) -> None:
    assert nzc(*FILE, f"tracking.uri={nowhere()}", "hydra.run.dir=run").code == 0
    stored = OmegaConf.load("run/.hydra/config.yaml")
    stored["tracking"] = {**stored.tracking, **values}
    OmegaConf.save(stored, "run/.hydra/config.yaml")
    code, _, err = command("sync", "run")
    assert code == 1 and err.startswith(f"nzc: run: {says}") and err.count("\n") == 1, err
    assert not Path("written").exists() and os.environ["HOME"] not in err


def test_the_address_may_come_from_the_environment_where_the_user_types_it(
    nzc: Nzc, command: Command, histograms: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `nzc sync` leaves is readable by its owner only, whatever the umask."""
    monkeypatch.setenv("ADDRESS", nowhere())
    assert nzc(*FILE, "tracking.uri=${oc.env:ADDRESS}", "hydra.run.dir=run").code == 0
    assert command("sync", "run")[0] == 1
    monkeypatch.setenv("ADDRESS", DATABASE)
    umask = os.umask(0o022)
    try:
        assert command("sync", "run", "--uri", "${oc.env:ADDRESS}")[0] == 0
    finally:
        os.umask(umask)
    left = [Path("mlflow.db"), Path("mlartifacts"), *Path("mlartifacts").rglob("*"), *Path("run").rglob("*")]
    assert len(left) > 10
    assert not [path for path in left if path.stat().st_mode & 0o077]


def test_a_wrong_folder_is_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = command("sync", "nowhere")
    assert code == 2
    assert err.startswith("nzc: FOLDER=nowhere: must be")


@contextmanager
def _server(port: str) -> Iterator[subprocess.Popen[bytes]]:
    arguments = ["--backend-store-uri", "sqlite:///server.db", "--artifacts-destination", "kept", "--workers", "1"]
    start = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", port, *arguments]
    with open("server.log", "ab") as log:
        server = subprocess.Popen(start, stdout=log, stderr=log, start_new_session=True)
    try:
        for _ in range(600):
            with suppress(requests.RequestException):  # a port alone may still be that of a server that is dying
                if requests.get(f"http://127.0.0.1:{port}/health", timeout=2).ok:
                    break
            time.sleep(0.2)
        yield server
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_server_that_is_gone_or_hangs_while_a_run_is_under_way(
    nzc: Nzc, command: Command, monkeypatch: pytest.MonkeyPatch, how: signal.Signals
) -> None:
    uri = nowhere()
    port = uri.rpartition(":")[2]
    run = [sys.executable, "-m", "nzc", *TEACHERS, "student.steps=4000", f"tracking.uri={uri}"]
    with _server(port) as server:
        running = subprocess.Popen(run, stderr=subprocess.PIPE, text=True)
        while not [run for run in _runs(uri) if any(key.startswith("Student/") for key in run.data.metrics)]:
            time.sleep(0.2)
            assert running.poll() is None
        os.killpg(server.pid, how)
        _, said = running.communicate(timeout=600)
    assert running.returncode == 0, said
    assert "nzc sync" in said
    assert said.count("\n") == 2  # of curves, of the run
    finished = datetime.fromisoformat(json.loads(next(Path("outputs").rglob("result.json")).read_text())["finished"])
    assert time.time() - finished.timestamp() < 60
    assert "Traceback" not in said
    assert next(Path("outputs").rglob("result.json")).is_file()
    with _server(port):
        assert command("sync")[0] == 0
        (whole,) = _runs(uri)
        recorded = _recorded(whole, uri)
    assert recorded["status"] == "FINISHED"
    assert recorded["models"] == 1
    csv = next(Path("outputs").rglob("student.csv")).read_text().splitlines()[1:]
    drawn = {key: points for key, points in recorded["curves"].items() if "/" in key}
    assert sorted((key, step) for key, points in drawn.items() for step, _ in points) == sorted(
        (key, int(step)) for key, step, _ in (line.rsplit(",", 2) for line in csv)
    )


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a disk of its own")
def test_a_disk_that_is_really_full(
    nzc: Nzc, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = tmp_path / "full"
    full.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", str(full)], check=False).returncode:
        pytest.skip("no disk can be mounted here")
    try:
        ran = nzc(*SMALL, "tracking=mlflow", f"tracking.artifacts={full}")
    finally:
        subprocess.run(["umount", str(full)], check=True)
    assert ran.code == 0
    assert "No space left" in ran.err
    assert ran.result["accuracy"] is not None
    shutil.rmtree(full)
    assert command("sync")[0] == 0
    (run,) = _runs()
    assert _recorded(run)["models"] == 1
