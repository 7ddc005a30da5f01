"""A run is whole in its folder before its tracker hears of its end; `tracking.json` there says what
is to be sent.

A tracker that fails costs a line, never the run. `nzc sync` sends the folder later. Sending twice
is sending once.
"""

import json
import os
import platform
import re
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import shorten
from threading import Event, Thread
from typing import Any
from uuid import uuid4

from filelock import BaseFileLock, FileLock

from nzc.runs.layout import LEARNING_CURVES, RESULT
from nzc.storage.files import write_private
from nzc.validation import InputError, in_a_line, masked

#: The record of a run or sweep in its folder; the lock that its process holds, or one that sends
#: it.
RECORD, LOCK = "tracking.json", ".tracking.lock"
#: A run that takes fewer seconds is sent at its end only: importing MLflow would slow it down.
SHORT = 30.0
#: Learning curves are sent every so many seconds, because each request takes milliseconds.
EVERY = 5.0
#: Overrides that the name of a tracked run leaves out. A sweep file's name is the title already.
_UNNAMED = re.compile(r"[+~]*(sweeps|tracking|trainer|paths|hydra)([./@=]|$)")


class Tracker(ABC):
    """Records one run, or one sweep as parent of runs. Any error but InputError is an outage.

    private  whether to record also what may not be published: exact ε, accuracies of teachers,
             figures
    """

    private: bool = True

    @abstractmethod
    def check(self, experiment: str) -> None:
        """Raise InputError where runs can never be recorded. A server that is down is no wrong
        input.
        """

    @abstractmethod
    def open(self, record: Mapping[str, Any], parent: str | None) -> str:
        """Open the run of a record (tracking.json) below the run `parent`, or find it by its key;
        return its id.
        """

    @abstractmethod
    def follow(self, folder: Path) -> None:
        """Record what is new in the learning curves in the `folder` of the open run."""

    @abstractmethod
    def close(self, folder: Path, record: Mapping[str, Any]) -> None:
        """Record what the open run left in `folder`, and that it `ended` at `until` (milliseconds
        since 1970).
        """


@contextmanager
def tracked(
    tracker: Tracker | None, folder: Path, experiment: str, name: str, params: Mapping[str, Any] | None = None,
    sweep: Path | None = None, question: str = "",
) -> Iterator[None]:  # fmt: skip
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
    later = f"{folder} could not be tracked", ": `nzc sync` sends it later"
    with _lock(folder):
        with _outage(f"the earlier run in {folder} could not be tracked"):
            if not read_record(folder).get("sent", True):  # it was killed
                send(folder, tracker)
        (folder / LEARNING_CURVES).unlink(missing_ok=True)  # of the earlier run, too
        parent = read_record(sweep) if sweep else {}
        record: dict[str, Any] = {
            "experiment": experiment,
            "name": masked(name),
            "question": masked(question)[:2000],
        }
        record |= {"key": uuid4().hex, "process": f"{platform.node()} {os.getpid()}"}
        record |= {"params": {key: masked(value) for key, value in (params or {}).items()}}
        record |= {"sweep": os.path.relpath(sweep, folder) if parent and sweep else None}
        _write(
            folder,
            record | {"run": None, "begun": _now(), "ended": None, "until": None, "sent": False},
        )
        follower = _Follower(tracker, folder, later)
        if parent and parent["run"] is None:
            follower.works = False
        elif params is None:
            follower.open()
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
            with _outage(*later):
                _write(folder, {"ended": ended, "until": _now()})
                if follower.works:
                    send(folder, tracker)


class _Follower(Thread):
    """Opens a run that lasts at its tracker, and sends its learning curves as they grow."""

    def __init__(self, tracker: Tracker, folder: Path, later: tuple[str, str]) -> None:
        super().__init__(daemon=True)
        self.tracker, self.folder, self.later = tracker, folder, later
        self.works = True  # whether the run could be opened, if that was tried
        self.ended = Event()

    def open(self) -> None:
        """Open the run. Where that fails, it is sent later."""
        self.works = False
        with _outage(*self.later):
            _open(self.folder, self.tracker)
            self.works = True

    def run(self) -> None:
        if self.ended.wait(SHORT):
            return
        self.open()
        with _outage("learning curves are no longer tracked"):
            while self.works and not self.ended.wait(EVERY):
                self.tracker.follow(self.folder)

    def stop(self) -> None:
        """Return when nothing is sent any more."""
        self.ended.set()
        if self.is_alive():
            self.join()


def send(folder: Path, tracker: Tracker) -> None:
    """Send what was not sent of a run or a sweep. filelock.Timeout: it is under way, or another
    process sends it.
    """
    with _lock(folder).acquire(timeout=0):
        record = read_record(folder)
        if record["ended"] is None:  # it was killed, nobody knows when: it ends now
            result = folder / RESULT
            written = int(1000 * result.stat().st_mtime) if result.is_file() else 0
            whole = (
                written >= record["begun"]
            )  # an earlier run in this folder may have left another
            _write(
                folder,
                {"ended": "FINISHED", "until": written}
                if whole
                else {"ended": "KILLED", "until": _now()},
            )
        tracker.close(folder, _open(folder, tracker))
        _write(folder, {"sent": True})


def unsent(root: Path) -> list[Path]:
    """Return the folders below `root` of runs and sweeps that were not sent completely, sweeps
    before their jobs.
    """
    waiting = [
        path.parent for path in root.rglob(RECORD) if not read_record(path.parent).get("sent", True)
    ]
    return sorted(waiting, key=lambda folder: (len(folder.parts), folder))


def tracked_name(title: Sequence[str], overrides: Iterable[str]) -> str:
    """Return the name of a run or a sweep at its tracker: title and overrides, in at most 100
    characters.

    Overrides that say only where it is recorded or how it is launched are left out, and so are
    passwords.
    """
    typed = " ".join(masked(override) for override in overrides if not _UNNAMED.match(override))
    return shorten(masked(" · ".join(filter(None, [*title, typed]))), 100, placeholder=" …")


def cause(error: Exception) -> str:
    """Return an error in a line; of an error of requests only the cause, which stands behind the
    whole address.
    """
    return in_a_line(str(error).rpartition("(Caused by ")[2], 200)


def read_record(folder: Path) -> dict[str, Any]:
    """Return the content of tracking.json; empty where there is none."""
    path = folder / RECORD
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


@contextmanager
def _outage(what: str, then: str = "") -> Iterator[None]:
    """Say in a line that a tracker failed in this context, which may raise any error."""
    try:
        yield
    except KeyboardInterrupt:
        if then:
            print(f"nzc: {what} (stopped){then}", file=sys.stderr)
        raise
    except Exception as error:
        print(f"nzc: {what} ({cause(error)}){then}", file=sys.stderr)


def _write(folder: Path, values: Mapping[str, Any]) -> dict[str, Any]:
    """Change values of tracking.json, and return all of them."""
    record = {**read_record(folder), **values}
    write_private(folder / RECORD, json.dumps(record))
    return record


def _open(folder: Path, tracker: Tracker) -> dict[str, Any]:
    """Open or find the run that is recorded in `folder`, below that of its sweep if it has one;
    return its record.
    """
    record = read_record(folder)
    parent = read_record(folder / record["sweep"]) if record["sweep"] else {}
    if parent and parent["run"] is None:
        raise InputError("FOLDER", folder / record["sweep"], "must be sent before its jobs")
    return _write(folder, {"run": tracker.open(record, parent.get("run"))})


def _lock(folder: Path) -> BaseFileLock:
    """Return the lock of a folder, the same for all who ask in this process."""
    return FileLock(folder / LOCK, mode=0o600, is_singleton=True)


def _now() -> int:
    return int(1000 * time.time())
