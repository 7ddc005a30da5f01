"""A run, or a sweep, as its tracker sees it: opened while there is work, then closed as what became of it.

Once the work has begun, a tracker that fails costs a line, never the run: what could not be sent stands in the folder,
which says so by the file NOTE, and `python -m nzc.tracking` sends it.
"""

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
from filelock import FileLock
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from nzc._files import written
from nzc.config import build
from nzc.errors import InputError, in_a_line
from nzc.report.folder import PROGRESS
from nzc.tracking.tracker import Tracker, Unreachable

#: The file that lies in the folder of a run or a sweep from before the tracker hears of it until it has heard all.
#: It says the key by which its run is found; its process; the id of its run, null where it was not opened; when it
#: began, in milliseconds since 1970; and once it has ended, how and when.
NOTE = "untracked.json"
#: In a sweep's folder: the id of its run, by which the jobs know their parent.
PARENT = "parent.json"
#: In the folder while somebody sends it.
LOCK = ".untracked.lock"
_LATER = "python -m nzc.tracking sends it later"


class Tracked:
    """The run whose folder is `folder`; a job of the sweep in the folder `sweep`, if given."""

    def __init__(self, cfg: DictConfig, folder: Path, sweep: Path | None) -> None:
        self.cfg, self.folder, self.sweep = cfg, folder, sweep
        self.tracker: Tracker | None = None
        self.run: str | None = None
        self.listens = self.unfinished = True
        self.noted = False  # whether the note in the folder is of this run
        self.lines = ["curve,step,value"]

    def open(self) -> None:
        """Open the run at its tracker; below a sweep that could not be opened, leave the note only."""
        if self.tracker is None:
            (self.folder / NOTE).unlink(missing_ok=True)  # of an earlier run in this folder, which is no more
        elif self.sweep is not None and (self.sweep / PARENT).is_file() and parent(self.sweep) is None:
            (self.folder / NOTE).unlink(missing_ok=True)
            note(self.folder)  # nobody could be reached, as the sweep has said
            self.noted = True
        else:
            choices, self.noted = HydraConfig.get().runtime.choices, True
            try:
                self.run = start(self.tracker, self.folder, *described(self.cfg, choices), parent(self.sweep))
            except InputError:
                self.noted = False
                raise

    def draw(self, whose: str, values: Mapping[str, float], step: int) -> None:
        """Points of curves: at once, as long as the tracker listens, and all of them into PROGRESS at the end."""
        self.lines += [f"{whose}/{name},{step},{value:.9g}" for name, value in values.items()]
        try:
            if self.tracker is not None and self.run is not None and self.listens:
                self.tracker.draw(self.run, {f"{whose}/{key}": value for key, value in values.items()}, step)
        except Exception as error:  # nothing is lost: all points are kept here
            self.listens = False
            print(f"nzc: curves are no longer tracked ({in_a_line(error, 200)})", file=sys.stderr)

    def write(self) -> None:
        """Leave all points of curves in PROGRESS, if there are any."""
        if len(self.lines) > 1:
            written(self.folder / PROGRESS, ("\n".join(self.lines) + "\n").encode())

    def finish(self) -> None:
        """Send what the run left in its folder, and close it."""
        if self.tracker is not None:
            send(self.folder, self.run, "FINISHED", partial(self.tracker.finish, folder=self.folder))
        self.unfinished = False

    def fail(self, stopped: bool) -> None:
        """Close the run as failed, unless it has finished. A sweep's job is opened for that where it was not yet."""
        if not self.unfinished:
            return
        with suppress(Exception):  # why the run ended is what must be said
            if self.run is None and self.sweep is not None and not self.noted:
                self.tracker = self.tracker or build(self.cfg, "tracking", Tracker)
                self.open()
            if self.tracker is not None and self.noted:
                fail(self.folder, self.run, self.tracker, stopped)


def note(folder: Path, **known: Any) -> dict[str, Any]:
    """What NOTE says, with what is new; made where there is none."""
    path = folder / NOTE
    told = {"key": uuid4().hex, "process": process(), "run": None, "begun": now(), "ended": None, "until": None}
    if path.is_file():
        told |= json.loads(path.read_text())
    written(path, json.dumps(told | known).encode())
    return told | known


def start(
    tracker: Tracker, folder: Path, experiment: str, name: str, params: dict[str, Any], above: str | None
) -> str | None:
    """Open a run and leave its note in `folder`: its id; None where nobody answers, which is said."""
    folder.mkdir(parents=True, exist_ok=True)
    before = (folder / NOTE).read_bytes() if (folder / NOTE).is_file() else None  # of an earlier run in this folder
    (folder / NOTE).unlink(missing_ok=True)
    told = note(folder)
    try:
        run = tracker.start(experiment, name, params, above, told["begun"], told["key"])
    except Unreachable as error:
        print(f"nzc: {in_a_line(error)}: {_LATER}", file=sys.stderr)
        return None
    except InputError:
        (folder / NOTE).unlink()
        if before is not None:
            written(folder / NOTE, before)
        with suppress(OSError):  # a job's holds its configuration
            folder.rmdir()
        raise
    note(folder, run=run)
    return run


def now() -> int:
    """In milliseconds since 1970."""
    return int(1000 * time.time())


def send(folder: Path, run: str | None, ended: str, last: Callable[[str], None], quiet: bool = False) -> None:
    """Send the last of a run, and take the note away; of one that was not opened, or where that fails, it stays."""
    note(folder, ended=ended, until=now())
    if run is None:
        return
    try:
        with alone(folder):
            last(run)
    except Exception as error:  # nothing is lost: the folder is whole
        if not quiet:
            print(f"nzc: {folder} could not be tracked ({in_a_line(error, 200)}): {_LATER}", file=sys.stderr)
    else:
        (folder / NOTE).unlink()


def fail(folder: Path, run: str | None, tracker: Tracker, stopped: bool) -> None:
    """Close a run that did not come to its end; in silence, for why it ended is what must be said."""
    send(folder, run, "KILLED" if stopped else "FAILED", partial(tracker.fail, stopped=stopped), quiet=True)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One sender at a time; filelock.Timeout where there is another."""
    with FileLock(folder / LOCK, timeout=0, mode=0o600):
        try:
            yield
        finally:
            (folder / LOCK).unlink(missing_ok=True)


def leave_parent(sweep: Path, run: str | None) -> None:
    """Leave the run of a sweep in its folder, for `parent`."""
    (sweep / PARENT).write_text(json.dumps({"run": run}))


def parent(sweep: Path | None) -> str | None:
    """The run of a sweep, as `leave_parent` left it."""
    if sweep is None or not (sweep / PARENT).is_file():
        return None
    run: str | None = json.loads((sweep / PARENT).read_text())["run"]
    return run


def described(cfg: DictConfig, choices: Mapping[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """Experiment, name and parameters of a run: its composed configuration, less what only puts objects together."""
    flat: dict[str, Any] = {}

    def walk(prefix: str, node: Any) -> None:
        if isinstance(node, dict):
            for key, value in node.items():
                walk(f"{prefix}.{key}" if prefix else str(key), value)
        elif not prefix.endswith("_target_"):
            flat[prefix] = node

    tree: Any = OmegaConf.to_container(cfg, resolve=True)
    tree.pop("sweep")
    tree["aggregator"].pop("mechanism")
    walk("", tree)
    groups = {group: choices[group] for group in ("dataset", "teachers", "aggregator", "student")}
    return choices["dataset"], f"{choices['aggregator']} · {choices['student']}", groups | flat


def process() -> str:
    """A name of this process that no other has: its number alone may be another's later."""
    return f"{platform.node()} {os.getpid()} {psutil.Process().create_time():.0f}"


def dead(told: str) -> bool:
    """Whether a `process` was on this machine, and is no more."""
    host, number, created = told.rsplit(" ", 2)
    if host != platform.node():
        return False
    try:
        found = psutil.Process(int(number))
        return bool(abs(found.create_time() - int(created)) > 10 or found.status() == psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return True
