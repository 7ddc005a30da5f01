"""The outbox: a run is whole in its folder, and is sent to the tracker as far as that can be reached.

`tracking.json` in the folder of a run or a sweep says what was sent: the tracker's id of the run, when it began and
ended, and whether everything arrived. `nzc sync` sends the rest. A tracker that fails costs a line, never the run.
"""

import json
import os
import platform
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from textwrap import shorten
from typing import Any
from uuid import uuid4

import psutil
from filelock import FileLock

from nzc.data.files import write_private
from nzc.runs.layout import RESULT
from nzc.tracking.base import Tracker, Unreachable
from nzc.validation import InputError, in_a_line, masked, masked_tree

RECORD, LOCK = "tracking.json", ".tracking.lock"
_LATER = "`nzc sync` sends it later"
#: Overrides that the name of a tracked run leaves out. A sweep file's name is the title already.
_UNNAMED = re.compile(r"[+~]*(sweeps|tracking|trainer|paths|hydra)([./@=]|$)")


@dataclass
class TrackedRun:
    """A run or a sweep at its tracker.

    tracker     None: runs are not recorded
    experiment  name of its experiment; `name`, `params` and `question` are those of the run
    sweep       folder of the sweep that it is a job of
    """

    tracker: Tracker | None
    folder: Path
    experiment: str
    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    sweep: Path | None = None
    question: str = ""
    run: str | None = None
    logging: bool = True
    ended: bool = False
    closed: bool = False
    sent: bool = False

    def start(self) -> None:
        """Open the run. A job of a sweep that could not be opened is only noted, to be sent later."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / RECORD).unlink(missing_ok=True)  # of an earlier run in this folder
        if self.tracker is None:
            return
        parent = None if self.sweep is None else read_record(self.sweep)
        about = {
            "experiment": self.experiment,
            "name": masked(self.name),
            "question": masked(self.question)[:2000],
            "params": masked_tree({key: masked(value) for key, value in self.params.items()}),
            "sweep": os.path.relpath(self.sweep, self.folder) if parent and self.sweep else None,
        }
        state = {"run": None, "begun": int(1000 * time.time()), "ended": None, "until": None, "sent": False}
        update_record(self.folder, key=uuid4().hex, process=process(), **about, **state)
        if parent is not None and parent["run"] is None:
            return
        try:
            self.run = _open(self.folder, self.tracker)
        except Unreachable as error:
            print(f"nzc: {in_a_line(error)}: {_LATER}", file=sys.stderr)
        except InputError:
            (self.folder / RECORD).unlink()
            raise

    def log(self, fit: str, values: Mapping[str, float], step: int) -> None:
        """Send points of a learning curve, as long as the tracker accepts them. The folder keeps all of them."""
        try:
            if self.tracker is not None and self.run is not None and self.logging:
                self.tracker.log_metrics(self.run, {f"{fit}/{key}": value for key, value in values.items()}, step)
        except Exception as error:  # trackers raise many types
            self.logging = False
            print(f"nzc: learning curves are no longer tracked ({in_a_line(error, 200)})", file=sys.stderr)

    def finish(self, failed: bool = False) -> None:
        """Send what the run left in its folder, and close it; `failed`: a sweep, because jobs of it did."""
        try:
            self._close("FAILED" if failed else "FINISHED")
        except Exception as error:  # nothing is lost: the folder is whole
            print(f"nzc: {self.folder} could not be tracked ({in_a_line(error, 200)}): {_LATER}", file=sys.stderr)

    def fail(self, stopped: bool) -> None:
        """Close the run as failed or killed, unless it is closed. In silence: why it failed must be said instead."""
        status = "KILLED" if stopped else "FAILED"
        with suppress(Exception):
            if self.ended and not self.closed and self.tracker is not None and self.run is not None:
                self.tracker.finish(self.run, self.folder, status)  # the folder is whole: `nzc sync` sends the rest
            elif not self.ended and read_record(self.folder) is not None:
                self._close(status)

    def _close(self, status: str) -> None:
        self.ended = True
        if self.tracker is None:
            return
        with suppress(OSError):  # a full disk is no reason to leave the run open
            update_record(self.folder, ended=status, until=int(1000 * time.time()))
        if self.run is not None:
            with _alone(self.folder):
                self.tracker.finish(self.run, self.folder, status)
                self.closed = True
                update_record(self.folder, sent=True)
                self.sent = True


def tracked_name(title: Sequence[str], overrides: Iterable[str]) -> str:
    """Return the name of a run or a sweep at its tracker: title and overrides, in at most 100 characters.

    Overrides that say only where it is recorded or how it is launched are left out, and so are passwords.
    """
    typed = " ".join(masked(each) for each in overrides if not _UNNAMED.match(each))
    return shorten(masked(" · ".join(filter(None, [*title, typed]))), 100, placeholder=" …")


def read_record(folder: Path) -> dict[str, Any] | None:
    """Return the content of tracking.json; None where there is none, or it is another program's."""
    path = folder / RECORD
    try:
        record = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
    except ValueError:
        return None
    return record if isinstance(record, dict) and "sent" in record else None


def update_record(folder: Path, **values: Any) -> None:
    """Change values of tracking.json."""
    write_private(folder / RECORD, json.dumps((read_record(folder) or {}) | values))


def unsent(root: Path) -> list[Path]:
    """Return the folders below `root` of runs and sweeps that were not sent completely, sweeps before their jobs."""
    folders = [path.parent for path in root.rglob(RECORD)]
    waiting = [folder for folder in folders if not (read_record(folder) or {}).get("sent", True)]
    return sorted(waiting, key=lambda folder: (len(folder.parts), folder))


def resend(folder: Path, tracker: Tracker) -> bool:
    """Send what was not sent of a run or a sweep. Returns False where it is under way; Timeout: another sends it."""
    with _alone(folder):
        record = read_record(folder)
        if record is None or record["sent"]:
            return True
        if record["ended"] is None and not is_dead(record["process"]):
            return False
        run = _open(folder, tracker)
        files = (path for path in folder.iterdir() if path.name not in (RECORD, LOCK))
        last_write = max((int(1000 * path.stat().st_mtime) for path in files), default=0)
        status = record["ended"] or "KILLED"
        if (folder / RESULT).is_file():  # it may be that of an earlier run in this folder
            finished = datetime.fromisoformat(json.loads((folder / RESULT).read_text(encoding="utf-8"))["finished"])
            status = "FINISHED" if finished.timestamp() >= record["begun"] // 1000 else status
        tracker.finish(run, folder, status, record["until"] or max(record["begun"], last_write))
        update_record(folder, sent=True)
        return True


def _open(folder: Path, tracker: Tracker) -> str:
    """Open the run that is recorded in `folder`, below that of its sweep if it has one, and return its id."""
    record = read_record(folder) or {}
    parent = read_record(folder / record["sweep"]) if record["sweep"] else None
    if parent is not None and parent["run"] is None:
        raise InputError("FOLDER", folder / record["sweep"], "must be sent before its jobs")
    title, above = (record["experiment"], record["name"], record["params"]), parent["run"] if parent else None
    run = tracker.start(*title, above, record["begun"], record["key"], record.get("question", ""))
    update_record(folder, run=run)
    return run


def process() -> str:
    """Return a name of this process that no other process ever has: host, number, time of creation."""
    return f"{platform.node()} {os.getpid()} {psutil.Process().create_time():.0f}"


def is_dead(name: str) -> bool:
    """Return whether a process of this machine, named by `process`, has ended."""
    host, number, created = name.rsplit(" ", 2)
    if host != platform.node():
        return False
    try:
        found = psutil.Process(int(number))
        return bool(abs(found.create_time() - int(created)) > 10 or found.status() == psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return True


def _alone(folder: Path) -> FileLock:
    """Return a lock that one sender at a time holds; filelock.Timeout where another has it."""
    return FileLock(folder / LOCK, timeout=0, mode=0o600)
