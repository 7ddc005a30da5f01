"""The life of a tracked run: it is whole in its folder before its tracker hears of its end.

`tracking.json` in the folder says what is to be sent. A tracker that fails with any error costs a
line, never the run: `nzc sync` sends the folder later. Sending twice is sending once.
"""

import json
import os
import platform
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Event, Thread
from uuid import uuid4

from filelock import BaseFileLock, FileLock

from nzc.runs.layout import LEARNING_CURVES, LOCK, RECORD
from nzc.saying import say
from nzc.storage.files import write_private
from nzc.tracking.tracker import MLflow
from nzc.validation import InputError, Tree, in_a_line, masked

#: A run that takes fewer seconds is sent at its end only: importing MLflow would slow it down.
SHORT = 30.0
#: Learning curves are sent every so many seconds, because each request takes milliseconds.
EVERY = 5.0


@contextmanager
def tracked(
    tracker: MLflow | None,
    folder: Path,
    experiment: str,
    name: str,
    params: Tree | None = None,
    sweep: Path | None = None,
    question: str = "",
) -> Iterator[None]:
    """Track a run, or a sweep, which has no `params`, within this context.

    A sweep is opened at once, because its jobs stand below it. A run is sent at its end, from its
    folder; one that lasts is opened before, so that it can be seen.

    tracker  None: it is not recorded
    sweep    folder of the sweep that a run is a job of; where that could not be opened, its jobs
             are sent after it
    """
    if tracker is None:
        (folder / RECORD).unlink(missing_ok=True)  # of an earlier run in this folder
        yield
        return
    with _lock(folder):
        _send_earlier_run(folder, tracker)
        parent = read_record(sweep) if sweep else {}
        record = {
            "experiment": experiment,
            "name": masked(name),
            "question": masked(question)[:2000],
            "key": uuid4().hex,
            "process": f"{platform.node()} {os.getpid()}",
            "params": {key: masked(value) for key, value in (params or {}).items()},
            "sweep": os.path.relpath(sweep, folder) if parent and sweep else None,
            "run": None,
            "begun": _now(),
            "ended": None,
            "until": None,
            "sent": False,
            "view": "",
        }
        _write(folder, record)

        follower = _Follower(tracker, folder)
        if params is None:
            follower.open()
        elif parent and parent["run"] is None:
            follower.works = False
        else:
            follower.start()

        ended = "FAILED"
        try:
            yield
            ended = "FINISHED"
        except KeyboardInterrupt:
            ended = "KILLED"
            raise
        finally:
            follower.stop()
            with _sent_later(folder):
                _write(folder, {"ended": ended, "until": _now()})
                if follower.works:
                    send(folder, tracker)


def _send_earlier_run(folder: Path, tracker: MLflow) -> None:
    """Send the run that was killed in this folder, if there is one, and remove its curves."""
    with _outage(f"the earlier run in {folder} could not be tracked"):
        if not read_record(folder).get("sent", True):
            send(folder, tracker)
    (folder / LEARNING_CURVES).unlink(missing_ok=True)


class _Follower(Thread):
    """Opens a run that lasts at its tracker, and sends its learning curves as they grow."""

    def __init__(self, tracker: MLflow, folder: Path) -> None:
        super().__init__(daemon=True)
        self.tracker = tracker
        self.folder = folder
        self.works = True  # whether the run could be opened, if that was tried
        self.ended = Event()

    def open(self) -> None:
        """Open the run. Where that fails, it is sent later."""
        self.works = False
        with _sent_later(self.folder):
            _open(self.folder, self.tracker)
            self.works = True

    def run(self) -> None:
        if self.ended.wait(SHORT):
            return
        self.open()
        with _outage("learning curves are no longer tracked"):
            while self.works and not self.ended.wait(EVERY):
                self.tracker.recorder.send_curves(self.folder)

    def stop(self) -> None:
        """Return when nothing is sent any more."""
        self.ended.set()
        if self.is_alive():
            self.join()


def send(folder: Path, tracker: MLflow) -> None:
    """Send what was not sent of a run or sweep. filelock.Timeout: it is under way, or is sent."""
    with _lock(folder).acquire(timeout=0):
        record = read_record(folder)
        if record["ended"] is None:
            _write(folder, {"ended": "KILLED", "until": _now()})
        view = tracker.recorder.close(folder, _open(folder, tracker))
        _write(folder, {"sent": True, "view": view})


def unsent(root: Path) -> list[Path]:
    """Return the folders below `root` that were not sent completely, sweeps before their jobs."""
    waiting = [
        path.parent for path in root.rglob(RECORD) if not read_record(path.parent).get("sent", True)
    ]
    return sorted(waiting, key=lambda folder: (len(folder.parts), folder))


def cause(error: BaseException) -> str:
    """Return an error in a line; of an error of requests only the cause, behind the address."""
    return in_a_line(str(error).rpartition("(Caused by ")[2], 200)


def read_record(folder: Path) -> Tree:
    """Return the content of tracking.json; empty where there is none."""
    path = folder / RECORD
    if not path.is_file():
        return {}
    return dict(json.loads(path.read_text(encoding="utf-8")))


@contextmanager
def _outage(what: str, then: str = "") -> Iterator[None]:
    """Say in a line that a tracker failed in this context, which may raise any error."""
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        say(f"{what} ({cause(error) or 'stopped'}){then}")
        if isinstance(error, KeyboardInterrupt):
            raise


def _sent_later(folder: Path) -> AbstractContextManager[None]:
    return _outage(f"{folder} could not be tracked", ": `nzc sync` sends it later")


def _write(folder: Path, values: Tree) -> Tree:
    """Change values of tracking.json, and return all of them."""
    record = {**read_record(folder), **values}
    write_private(folder / RECORD, json.dumps(record))
    return record


def _open(folder: Path, tracker: MLflow) -> Tree:
    """Open or find the run recorded in `folder`, below that of its sweep; return its record."""
    record = read_record(folder)
    parent = read_record(folder / record["sweep"]) if record["sweep"] else {}
    if parent and parent["run"] is None:
        raise InputError("FOLDER", folder / record["sweep"], "must be sent before its jobs")
    return _write(folder, {"run": tracker.recorder.open(record, parent.get("run"))})


def _lock(folder: Path) -> BaseFileLock:
    """Return the lock of a folder, the same for all who ask in this process."""
    return FileLock(folder / LOCK, mode=0o600, is_singleton=True)


def _now() -> int:
    return int(1000 * time.time())
