"""Run `nzc` in forks of one process that has imported everything, and read what the runs left.

All trials use it.
"""

import importlib
import json
import os
import pkgutil
import random
import re
import signal
import sqlite3
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Overrides of a run that takes seconds on a CPU, without those of its student, and with them.
TEACHERS = 6
SMALL = [f"teachers.count={TEACHERS}", "teachers.epochs=20", "figures=false"]
SMALL += ["trainer.accelerator=cpu", "trainer.progress=false"]
STUDENT = [*SMALL, "student.steps=60"]
ERR = "err.txt"  # standard error, in the folder of a command
#: The exit code of a process that may be started again, and how often it is.
AGAIN, TRIES = 75, 20
#: What Python says before it opens a file, or changes a folder; the flags of a file that is opened
#: for writing.
_EVENTS = {
    "open",
    "sqlite3.connect",
    "os.rename",
    "os.remove",
    "os.mkdir",
    "os.rmdir",
    "os.link",
    "os.symlink",
}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


@dataclass(frozen=True)
class Watch:
    """Writes a line to `log` for every write of a process below a folder, and can stop the process
    before one of them.

    A write is a file that is opened for writing, an SQLite database that is opened, or a file or
    folder that is made, renamed or removed. The signal `number` is sent before write `stop`; writes
    before which nothing has changed are not numbered.
    """

    below: Path
    log: Path
    stop: int | None = None
    number: int = signal.SIGKILL

    def install(self) -> None:
        """Watch the writes of this process. It cannot be undone, so only a fork may call this."""
        file, here = (
            os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            f"{self.below}{os.sep}",
        )
        count, state = 0, None

        def watch(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal count, state
            if event not in _EVENTS or (event == "open" and not (arguments[2] or 0) & _WRITES):
                return
            path = arguments[event in ("os.rename", "os.link", "os.symlink")]
            if not isinstance(path, str | bytes | os.PathLike):
                return
            path = os.path.abspath(os.fsdecode(path).removeprefix("file:").partition("?")[0])
            if not path.startswith(here) or path.endswith(ERR):
                return
            if self.stop is not None and (now := _state(self.below)) != state:
                count, state = count + 1, now
                if count == self.stop:
                    os.kill(os.getpid(), self.number)
            os.write(file, f"{count} {event} {path.removeprefix(here)}\n".encode())

        sys.addaudithook(watch)


def _state(folder: Path) -> set[tuple[str, int, int]]:
    """Return the names, sizes and times of the files below a folder."""
    files = [
        os.path.join(at, name) for at, _, names in os.walk(folder) for name in names if name != ERR
    ]
    return {
        (path, about.st_size, about.st_mtime_ns) for path in files for about in [os.lstat(path)]
    }


def trained(logs: Iterable[Path]) -> Counter[str]:
    """Return how often each teacher was trained, from the logs of watched processes."""
    return Counter(
        re.findall(
            r"os\.rename .*\.work/(\d+)\.npz$", "".join(log.read_text() for log in logs), re.M
        )
    )


def warm_up() -> None:
    """Import everything that a run needs, which takes ten seconds.

    Forks of this process do not import it again.
    """
    import nzc

    for module in pkgutil.walk_packages(nzc.__path__, "nzc."):
        importlib.import_module(module.name)
    for name in ("alembic.command", "mlflow.pytorch", "hydra_plugins"):
        importlib.import_module(name)


def start(folder: Path, command: list[str], watch: Watch | None = None, err: str = ERR) -> int:
    """Start `nzc COMMAND` in `folder`, in a fork, and return the process number."""
    sys.stdout.flush()
    if process := os.fork():
        return process
    code: int | str | None = 1
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.chdir(folder)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(os.open(err, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if watch is not None:
            watch.install()
        sys.argv = ["nzc", *command]
        from nzc.app.main import main

        main()
        code = 0
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else int(bool(code)))


def wait(process: int, seconds: float = 600) -> int:
    """Return the exit code of a process, below 0 where a signal ended it.

    After `seconds` it is killed.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(process, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def run(folder: Path, command: list[str], watch: Watch | None = None, seconds: float = 600) -> int:
    """Start `nzc COMMAND` in `folder`, wait for its end, and return its exit code."""
    return wait(start(folder, command, watch), seconds)


def must_run(folder: Path, command: list[str], watch: Watch | None = None) -> None:
    """Run a command that must end well. RuntimeError: it does not."""
    if code := run(folder, command, watch):
        raise RuntimeError(f"{command} ends with exit code {code}: {error_of(folder)}")


def together(
    starts: Sequence[Callable[[], int]], kills: int, rng: random.Random
) -> tuple[int, list[int]]:
    """Start processes at once, kill some at random moments, and start those again.

    Return the kills and exit codes.
    """
    alive = {begin(): at for at, begin in enumerate(starts)}
    codes, killed, again, moment = [0] * len(starts), 0, 0, time.monotonic() + rng.uniform(0, 4)
    while alive:
        ended, status = os.waitpid(-1, os.WNOHANG)
        if ended:
            at, code = alive.pop(ended), os.waitstatus_to_exitcode(status)
            again += code == AGAIN
            if code == -signal.SIGKILL or (code == AGAIN and again <= TRIES):
                alive[starts[at]()] = at
            codes[at] = code
        elif killed < kills and time.monotonic() > moment:
            os.kill(rng.choice(list(alive)), signal.SIGKILL)
            killed, moment = killed + 1, time.monotonic() + rng.uniform(0, 4)
        else:
            time.sleep(0.01)
    return killed, codes


def error_of(folder: Path, err: str = ERR) -> str:
    """Return the end of what a command wrote to standard error, as one line."""
    return " ".join((folder / err).read_text(errors="replace").split())[-300:]


def result(path: Path) -> dict[str, Any]:
    """Return a result.json without times, the commit, and what depends on the order of the runs."""
    content: dict[str, Any] = json.loads(path.read_text())
    content["epsilon"] = {
        key: value for key, value in content["epsilon"].items() if not key.startswith("ledger")
    }
    return {
        key: content[key]
        for key in content.keys() - {"seconds", "finished", "versions", "ledger_trials"}
    }


def entries(store: Path) -> list[tuple[Any, ...]]:
    """Return the entries of the ledger of a store."""
    from nzc import Ledger

    return [
        (entry.dataset, entry.key, entry.kind, entry.labels)
        for entry in Ledger(store / "ledger.db").entries()
    ]


def names(folder: Path) -> set[str]:
    """Return the names of the files below a folder, without hidden ones, as a killed writer leaves
    them.
    """
    return {str(path.relative_to(folder)) for path in folder.rglob("[!.]*") if path.is_file()}


def open_runs(folder: Path) -> set[str]:
    """Return the states of the tracked runs in the database of `folder` that are not closed."""
    with closing(sqlite3.connect(folder / "mlflow.db")) as connection:
        return {state for (state,) in connection.execute("SELECT status FROM runs")} - {
            "FINISHED",
            "FAILED",
            "KILLED",
        }


def progress(text: str) -> None:
    """Print a line of progress."""
    print(text, file=sys.stderr, flush=True)


def show_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], caption: str = ""
) -> None:
    """Print a table.

    The first column is aligned left, the others right. An empty row draws a line.
    """
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, caption=caption, title_style="bold")
    for at, name in enumerate(columns):
        table.add_column(name, justify="right" if at else "left")
    for row in rows:
        table.add_row(*row) if row else table.add_section()
    console = Console(markup=False, emoji=False)
    console.width = max(console.width, 160)
    console.print(table)
