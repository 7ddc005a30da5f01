"""The key `wait`: no tracker holds a run for longer. Places of the database. Permissions of folders that were there."""

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from conftest import VOTES, Command, Nzc, tracked_runs

from nzc.tracking import Tracker, Unreachable
from nzc.tracking.mlflow import MLflow
from nzc.tracking.outbox import unsent
from nzc.tracking.time_limit import TimeLimited
from nzc.validation import InputError

FILE = [*VOTES, "teachers.path=votes.npy", "tracking=mlflow", "tracking.system_metrics=false", "wait=1"]


@pytest.mark.parametrize("how", ["hangs", "drips", "closes", "retry"])
def test_a_server_that_is_well_but_does_not_answer_is_left_after_the_limit(
    nzc: Nzc, histograms: Path, how: str
) -> None:
    over = Event()

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/health":
                self.send_response(200)
                self.end_headers()
            elif how == "hangs":
                over.wait()
            elif how == "drips":
                self.send_response(200)
                self.send_header("Content-Length", "1000000")
                self.end_headers()
                while not over.wait(0.1):
                    self.wfile.write(b" ")
            elif how == "retry":
                self.send_response(503)
                self.send_header("Retry-After", "3600")
                self.end_headers()

        do_POST = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        server.daemon_threads = True
        Thread(target=server.serve_forever, daemon=True).start()
        ran = nzc(*FILE, f"tracking.uri=http://127.0.0.1:{server.server_port}")
        over.set()
        server.shutdown()
    assert (ran.code, ran.err.count("\n")) == (0, 1)
    assert "took more than 1 s (wait=1): `nzc sync` sends it later" in ran.err
    assert ran.result["answered"] == 40
    assert len(unsent(Path("outputs"))) == 1


def test_a_run_whose_database_is_locked_is_sent_later(
    nzc: Nzc, command: Command, histograms: Path, database: Path
) -> None:
    shutil.copyfile(database, "mlflow.db")
    other = sqlite3.connect("mlflow.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    ran = nzc(*FILE)
    other.close()
    assert (ran.code, ran.err.count("\n")) == (0, 1)
    assert "sends it later" in ran.err
    assert command("sync", "--wait", "60")[:2] == (0, "1 sent, 0 not, 0 under way\n")


@pytest.mark.parametrize("value", ["0", "-1", "nan", "null", "soon"])
def test_the_limit_is_a_positive_number(nzc: Nzc, histograms: Path, value: str) -> None:
    ran = nzc(*FILE[:-1], f"wait={value}")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert ran.err.startswith(f"nzc: wait={value}")


class Slow(Tracker):
    """Every call waits until `free` is set."""

    def __init__(self) -> None:
        self.free, self.steps = Event(), list[int]()

    def start(self, *_: Any, **__: Any) -> str:
        self.free.wait(10)
        return "run"

    def log_metrics(self, run: str, values: Mapping[str, float], step: int) -> None:
        self.free.wait()
        self.steps.append(step)

    def finish(self, *_: Any, **__: Any) -> None:
        self.free.wait(0.2)


def test_learning_curves_are_sent_in_order_without_waiting_and_given_up_after_the_limit() -> None:
    slow = Slow()
    patient, hasty = TimeLimited(slow, 60), TimeLimited(slow, 1e-9)
    for step in range(3):
        patient.log_metrics("run", {"loss": 1.0}, step)
    hasty.log_metrics("run", {"loss": 1.0}, 3)
    with pytest.raises(Unreachable, match="wait=1e-09"):
        hasty.log_metrics("run", {"loss": 1.0}, 4)
    assert slow.steps == []
    slow.free.set()
    patient.finish("run", Path())
    assert [step for step in slow.steps if step < 3] == [0, 1, 2]


def test_answers_begin_the_limit_anew_only_where_asked_for() -> None:
    slow = Slow()
    slow.heard = time.monotonic() + 60  # as if it got answers for a minute
    with pytest.raises(Unreachable):
        TimeLimited(slow, 0.01).finish("run", Path())
    TimeLimited(slow, 0.01, each_answer=True).finish("run", Path())


def test_python_ends_while_a_tracker_and_its_pools_hang() -> None:
    script = """if True:
        import threading
        from concurrent.futures import ThreadPoolExecutor
        from pathlib import Path
        from nzc.tracking import Tracker, Unreachable
        from nzc.tracking.time_limit import TimeLimited
        class Hangs(Tracker):
            def start(self, *_): pass
            def log_metrics(self, *_): pass
            def finish(self, *_):
                with ThreadPoolExecutor() as pool:
                    pool.submit(threading.Event().wait).result()
        try:
            TimeLimited(Hangs(), 0.5).finish("run", Path())
        except Unreachable:
            print("left")
    """
    assert subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, timeout=120).stdout == b"left\n"


@pytest.mark.parametrize("kind", ["folder", "fifo", "device", "text", "below a file", "settings"])
def test_a_place_that_cannot_be_a_database_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    os.mkfifo("fifo")
    Path("text").write_text("no database, but longer than a header")
    place = {"device": "/dev/zero", "below a file": "text/mlflow.db", "settings": "new?timeout=9"}.get(kind, kind)
    with pytest.raises(InputError, match=r"tracking\.uri="):
        MLflow(f"sqlite:///{place}", "artifacts", False, None, False).connect()
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "fifo", "text"}


def test_the_database_is_in_the_working_directory_whatever_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "%20 q?x #é"
    here.mkdir()
    monkeypatch.chdir(here)
    (here / "result.txt").write_text("")
    tracker = MLflow("sqlite:///mlflow.db", "artifacts", False, None, False)
    run = tracker.start("one", "run", {}, None, 0, "a")
    tracker.client.log_artifact(run, "result.txt")
    assert [each.info.run_id for each in tracked_runs(tracker.client)] == [run]
    assert {path.name for path in here.iterdir()} == {"mlflow.db", "artifacts", "result.txt"}
    assert len(list(here.glob("artifacts/**/result.txt"))) == 1
    assert list(tmp_path.iterdir()) == [here]


def test_shared_folders_keep_their_permissions_and_what_is_new_is_private(nzc: Nzc, histograms: Path) -> None:
    for name in ("shared", "database"):
        Path(name).mkdir()
        Path(name).chmod(0o2775)
    Path("link").symlink_to("shared")
    assert nzc(*FILE[:-1], "tracking.artifacts=link", "tracking.uri=sqlite:///database/mlflow.db").code == 0
    modes = {path: path.stat().st_mode & 0o7777 for name in ("shared", "database") for path in Path(name).rglob("*")}
    assert len(modes) > 5
    assert [path for path, mode in modes.items() if mode & 0o077] == []
    assert [Path(name).stat().st_mode & 0o7777 for name in ("shared", "database")] == [0o2775, 0o2775]


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        (["student=gan_ssl", "student.network={_target_:own.Own}"], "student.network"),
        (["representation=contrastive", "representation.encoder.network={_target_:own.Own}"], "representation.encoder"),
        (["representation.dimensions=5000"], "representation.dimensions"),
    ],
)
def test_a_network_that_does_not_suit_is_refused_before_anything_is_recorded(
    nzc: Nzc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overrides: list[str], key: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    lines = ["from torch.nn import Flatten, Linear, Sequential, Softmax", "def Own():"]
    Path("own.py").write_text("\n".join([*lines, "    return Sequential(Flatten(), Linear(64, 10), Softmax(1))"]))
    chosen = ["recipe=near_zero", "teachers=logistic", "tracking=mlflow", "trainer.accelerator=cpu"]
    ran = nzc(*chosen, *overrides)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert ran.err.startswith(f"nzc: {key}")
    assert {path.name for path in tmp_path.iterdir()} <= {"own.py", "__pycache__"}
