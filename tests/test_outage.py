"""What a tracker did not hear of when it was made, it hears of later: the same, and once."""

import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import SMALL, TEACHERS, VOTES, Nzc
from mlflow import MlflowClient
from mlflow.entities import Run

from nzc.tracking import __main__ as command
from nzc.tracking.tracked import NOTE

DATABASE = "sqlite:///mlflow.db"
FILE = [*VOTES, "teachers.path=votes.npy", "tracking=mlflow"]


def _nowhere() -> str:
    """Where nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def _send(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["nzc.tracking", *arguments])
    with pytest.raises(SystemExit) as stop:
        command.main()
    return int(stop.value.code or 0)


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
        "models": len(run.outputs.model_outputs) if run.outputs else 0,
        "artifacts": sorted(file.path for folder in ("", "config") for file in client.list_artifacts(id, folder)),
    }


def test_a_run_whose_server_is_down_is_whole_and_sent_later(nzc: Nzc, monkeypatch: pytest.MonkeyPatch) -> None:
    down = nzc(*SMALL, f"tracking.uri={_nowhere()}", "tracking.system_metrics=false")
    assert down.code == 0
    assert down.err.count("\n") == 1
    assert "does not answer" in down.err
    assert "python -m nzc.tracking" in down.err
    assert down.result["accuracy"] is not None
    assert _send(monkeypatch) == 1
    assert not Path("mlflow.db").exists()

    assert nzc(*SMALL, "tracking.system_metrics=false").code == 0
    assert _send(monkeypatch, "--uri", DATABASE) == 0
    first, second = (_recorded(run) for run in _runs())
    assert first == second
    assert first["models"] == 1
    assert first["status"] == "FINISHED"
    assert any(len(points) > 1 for points in first["curves"].values())
    assert not list(Path("outputs").rglob(NOTE))
    assert _send(monkeypatch, "--uri", DATABASE) == 0
    assert len(_runs()) == 2


def test_a_full_disk_costs_a_line_and_the_run_is_completed_later(
    nzc: Nzc, histograms: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    whole = MlflowClient.log_artifact
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(MlflowClient, "log_artifact", lambda *_, **__: (_ for _ in ()).throw(full))
    ran = nzc(*FILE)
    assert ran.code == 0
    assert ran.err.count("\n") == 1
    assert "No space left" in ran.err
    monkeypatch.setattr(MlflowClient, "log_artifact", whole)
    assert _send(monkeypatch) == 0
    assert capfd.readouterr().out == "1 sent, 0 not, 0 under way\n"
    (run,) = _runs()
    assert run.info.status == "FINISHED"
    assert "result.json" in _recorded(run)["artifacts"]


def test_a_sweep_whose_server_is_down_is_sent_as_a_sweep(
    nzc: Nzc, histograms: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = nzc("--multirun", *FILE, "queries=10,1000,20", f"tracking.uri={_nowhere()}")
    assert ran.code == 2  # of the wrong one
    assert ran.err.count("does not answer") == 1
    assert len(list(Path("outputs").rglob(NOTE))) == 4
    assert _send(monkeypatch, "outputs/sweeps", "--uri", DATABASE) == 0
    parent, *jobs = _runs()
    assert [run.info.status for run in (parent, *jobs)] == ["FINISHED", "FINISHED", "FAILED", "FINISHED"]
    assert {run.data.tags["mlflow.parentRunId"] for run in jobs} == {parent.info.run_id}
    assert "table.md" in _recorded(parent)["artifacts"]


def test_what_was_killed_is_sent_as_killed_and_what_is_under_way_is_left(
    nzc: Nzc, histograms: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    nzc(*FILE, f"tracking.uri={_nowhere()}")
    (note,) = Path("outputs").rglob(NOTE)
    told = json.loads(note.read_text()) | {"ended": None}
    note.write_text(json.dumps(told))
    assert _send(monkeypatch, "--uri", DATABASE) == 0
    assert capfd.readouterr().out == "0 sent, 0 not, 1 under way\n"
    note.write_text(json.dumps(told | {"process": told["process"].rsplit(" ", 1)[0] + " 1000000000"}))
    (note.parent / "result.json").unlink()
    assert _send(monkeypatch, "--uri", DATABASE) == 0
    assert [run.info.status for run in _runs()] == ["KILLED"]


def test_a_wrong_folder_is_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert _send(monkeypatch, "nowhere") == 2
    assert capfd.readouterr().err.startswith("nzc: FOLDER=nowhere: must be")


@contextmanager
def _server(port: str) -> Iterator[subprocess.Popen[bytes]]:
    arguments = ["--backend-store-uri", "sqlite:///server.db", "--artifacts-destination", "kept", "--workers", "1"]
    start = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", port, *arguments]
    with open("server.log", "ab") as log:
        server = subprocess.Popen(start, stdout=log, stderr=log, start_new_session=True)
    try:
        for _ in range(600):
            with socket.socket() as asked:
                if asked.connect_ex(("127.0.0.1", int(port))) == 0:
                    break
            time.sleep(0.2)
        yield server
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


@pytest.mark.slow
def test_a_server_that_is_killed_while_a_run_is_under_way(nzc: Nzc, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = _nowhere()
    port = uri.rpartition(":")[2]
    run = [sys.executable, "-m", "nzc", *TEACHERS, "student.steps=4000", f"tracking.uri={uri}"]
    with _server(port) as server:
        running = subprocess.Popen(run, stderr=subprocess.PIPE, text=True)
        while not [run for run in _runs(uri) if any(key.startswith("Student/") for key in run.data.metrics)]:
            time.sleep(0.2)
            assert running.poll() is None
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
        _, said = running.communicate(timeout=600)
    assert running.returncode == 0, said
    assert "python -m nzc.tracking" in said
    assert "Traceback" not in said
    assert next(Path("outputs").rglob("result.json")).is_file()
    with _server(port):
        assert _send(monkeypatch) == 0
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
def test_a_disk_that_is_really_full(nzc: Nzc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert _send(monkeypatch) == 0
    (run,) = _runs()
    assert _recorded(run)["models"] == 1
