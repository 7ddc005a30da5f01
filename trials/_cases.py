"""Cases of a trial: their table, what lies in a folder, and a signal at every write of a process."""

import hashlib
import os
import signal
import stat
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from _nzc import ERR, OUT, progress
from rich.table import Table

from nzc.runs.formatting import show

#: What is wrong with a command that should have been refused.
ACCEPTED = "was accepted"
#: What Python says before it opens a file, and before it changes a folder.
_OPENED = ("open", "sqlite3.connect")
_CHANGED = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Case(NamedTuple):
    """One case of a trial, and in words what is wrong; empty: nothing."""

    kind: str
    name: str
    problem: str = ""


def shown(case: Case) -> Case:
    """Show a line for a case where something is wrong, and return the case."""
    if case.problem:
        progress(f"{case.kind}: {case.name}: {' '.join(case.problem.split())[:300]}\n")
    return case


def show_cases(title: str, cases: Iterable[Case], wrong: str = "wrong") -> int:
    """Show how many cases of each kind were tried, and in how many something is wrong. Return 1 if in any, else 0."""
    table, done = Table(title=title, title_style="bold"), list(cases)
    for name in ("kind", "tried", "held", wrong):
        table.add_column(name, justify="left" if name == "kind" else "right")
    for kind in [*dict.fromkeys(case.kind for case in done), "all"]:
        of = [case for case in done if kind in (case.kind, "all")]
        bad = sum(bool(case.problem) for case in of)
        table.add_row(kind, str(len(of)), str(len(of) - bad), str(bad))
    show(table)
    return int(any(case.problem for case in done))


def refusal(code: int, folder: Path) -> str:
    """Return what is wrong with the end of a command in `folder` that must be refused; empty: nothing."""
    said = (folder / ERR).read_text(errors="replace")
    if code == 0:
        return ACCEPTED
    if code == -signal.SIGKILL:
        return "did not end in time"
    if code != 2 or not said.startswith("nzc: ") or said.count("\n") != 1:
        return f"exit code {code}: {said[-300:]!r}"
    return ""


def snapshot(folder: Path, times: bool = True) -> dict[str, tuple[Any, ...]]:
    """Return what lies below `folder`, by name: kind and mode, owner, and the content's digest or a link's target.

    times  also the modification times of files; those of folders change with what is added to them
    """
    found: dict[str, tuple[Any, ...]] = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        about = path.lstat()
        content: object = None
        if stat.S_ISLNK(about.st_mode):
            content = os.readlink(path)
        elif stat.S_ISREG(about.st_mode):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        modified = about.st_mtime_ns if times and not stat.S_ISDIR(about.st_mode) else None
        if path.name not in (OUT, ERR):
            found[str(path.relative_to(folder))] = (about.st_mode, about.st_uid, about.st_gid, content, modified)
    return found


def differences(before: dict[str, tuple[Any, ...]], after: dict[str, tuple[Any, ...]], added: bool = False) -> str:
    """Return in words what was lost or changed between two snapshots; with `added`, also what is new."""
    lost = sorted(before.keys() - after.keys())
    changed = sorted(name for name in before.keys() & after.keys() if before[name] != after[name])
    new = sorted(after.keys() - before.keys()) if added else []
    return ", ".join(
        f"{word} {' '.join(names)}" for word, names in (("lost", lost), ("changed", changed), ("new", new)) if names
    )


@dataclass(frozen=True)
class WriteTrap:
    """A signal that a process sends to itself before its `call`-th write below a folder.

    A write is a file that is opened for writing, an SQLite database that is opened, or a change of a folder: renamed,
    removed, made, linked. It is counted only if something has changed there since the last one that was counted.

    call  0: never
    log   a file that gets a line for every write
    """

    below: Path
    call: int
    log: Path
    signal: int = signal.SIGKILL

    def install(self) -> None:
        """Watch the writes of this process. It cannot be undone, so only a fork may call this."""
        file, here = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), f"{self.below}{os.sep}"
        count, last = 0, None

        def watch(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal count, last
            if event not in _OPENED + _CHANGED or not isinstance(arguments[0], str | bytes | os.PathLike):
                return
            if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & _WRITES):
                return
            path = os.path.abspath(os.fsdecode(arguments[0]))
            if not f"{path}{os.sep}".startswith(here) or os.path.basename(path) in (OUT, ERR):
                return
            if (state := _state(self.below)) == last:
                return
            count, last = count + 1, state
            os.write(file, f"{event} {path.removeprefix(here)}\n".encode())
            if count == self.call:
                os.kill(os.getpid(), self.signal)

        sys.addaudithook(watch)


def _state(folder: Path) -> set[tuple[str, int, int]]:
    """Return the names, sizes and times of the files below a folder, and the names of folders."""
    found = set()
    for at, folders, files in os.walk(folder):
        found |= {(os.path.join(at, name), 0, 0) for name in folders}
        for name in set(files) - {OUT, ERR}:
            about = os.lstat(os.path.join(at, name))
            found.add((os.path.join(at, name), about.st_size, about.st_mtime_ns))
    return found


def writes(trap: WriteTrap) -> list[str]:
    """Return the writes that a trap has seen."""
    return trap.log.read_text().splitlines()
