"""What the trials share: `nzc` in forks of one warm process, and what a command left behind."""

import functools
import importlib
import json
import os
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from nzc.runs.provenance import versions

#: A run of seconds, on the processor; and its student.
BASE = ["teachers.count=6", "teachers.epochs=20", "trainer.accelerator=cpu", "trainer.progress=false", "figures=false"]
SMALL = [*BASE, "student.steps=60"]
#: In a folder of a trial: the number of every teacher that was ever trained, a line each; and what was said.
TRAINED, OUT, ERR = "trained.txt", "out.txt", "err.txt"
#: What a run imports on its way.
NEEDED: tuple[str, ...] = (
    "nzc.__main__",
    "nzc.teachers.engine",
    "nzc.teachers.sklearn",
    "nzc.students.module",
    "nzc.tracking.mlflow",
    "nzc.figures",
)
NEEDED += ("nzc.students.supervised", "mlflow.pytorch", "alembic.command")
#: What may differ between two results of one seed: clocks.
_CLOCKS = ("seconds", "finished")


@dataclass(frozen=True)
class Trap:
    """A signal that a process sends itself at the `call`-th call of a function, before it or after.

    where   module:function or module:Class.method
    """

    where: str
    after: bool = False
    call: int = 1
    signal: int = signal.SIGKILL

    def set(self) -> None:
        calls = 0

        def around(whole: Callable[..., Any], *args: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            here = calls == self.call
            if here and not self.after:
                os.kill(os.getpid(), self.signal)
            result = whole(*args, **options)
            if here and self.after:
                os.kill(os.getpid(), self.signal)
            return result

        _wrap(self.where, around)


def _wrap(where: str, around: Callable[..., Any]) -> None:
    """Replace a function by around(function, *its arguments)."""
    module, _, path = where.partition(":")
    *owners, name = path.split(".")
    owner = functools.reduce(getattr, owners, importlib.import_module(module))
    whole = getattr(owner, name)

    @functools.wraps(whole)
    def wrapped(*args: Any, **options: Any) -> Any:
        return around(whole, *args, **options)

    bound = isinstance(vars(owner).get(name), staticmethod | classmethod)
    setattr(owner, name, staticmethod(wrapped) if bound else wrapped)


def _counted(whole: Callable[..., Any], path: Path, *rest: Any) -> None:
    """One teacher is trained: say so where a kill cannot take it back."""
    whole(path, *rest)
    with Path(TRAINED).open("a") as file:
        file.write(f"{path.stem}\n")


def warm() -> None:
    """Import all that a run needs: ten seconds that forks of this process do not spend."""
    for module in NEEDED:
        importlib.import_module(module)
    versions()  # of now, whatever is edited meanwhile
    for kind in ("engine", "sklearn"):
        _wrap(f"nzc.teachers.{kind}:save", _counted)


def apart(task: Callable[[], object]) -> None:
    """Do it in a process of its own: some libraries remember what they opened, and forks would share it."""
    if not (process := os.fork()):
        task()
        os._exit(0)
    if code := wait(process):
        raise RuntimeError(f"ended with {code}")


def become(command: list[str], before: Callable[[], object]) -> NoReturn:
    """In a fork: be `nzc COMMAND` from here on, once `before` is done."""
    code: int | str | None = 1
    try:
        before()
        from nzc.app.main import main

        sys.argv = ["nzc", *command]
        try:
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


def ended(process: int, seconds: float) -> int | None:
    """How a process ended within so long; None where it did not."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    return None


def start(folder: Path, command: list[str], trap: Trap | None = None, name: str = "") -> int:
    """`nzc COMMAND` in `folder`, in a process of its own; its number. What it says goes into name + ERR there."""
    sys.stdout.flush()
    if process := os.fork():
        return process

    def before() -> None:
        folder.mkdir(parents=True, exist_ok=True)
        os.chdir(folder)
        for stream, file in ((1, OUT), (2, ERR)):
            os.dup2(os.open(name + file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), stream)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if trap is not None:
            trap.set()

    become(command, before)


def wait(process: int, seconds: float | None = None, then: int = signal.SIGKILL) -> int:
    """How a process ended: its exit code, or less than 0 where a signal ended it; `then` is sent after so long."""
    if seconds is not None:
        if (code := ended(process, seconds)) is not None:
            return code
        os.kill(process, then)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def run(folder: Path, command: list[str], trap: Trap | None = None, seconds: float | None = None) -> int:
    """start, then wait."""
    return wait(start(folder, command, trap), seconds)


@dataclass
class Left:
    """What commands left in their folder.

    results    of the newest command: result.json by job, less clocks; labels.csv in the same order. Of a sweep, the
               ledger's total by its last job only: jobs of a command that was stopped count already at the first
    releases   the ledger's rows, but for when
    trained    how often each teacher was trained, in all
    store      the names of the files there
    states     of the tracked runs
    """

    results: list[dict[str, Any]]
    labels: list[str]
    releases: set[tuple[Any, ...]]
    trained: Counter[str]
    store: set[str]
    states: Counter[str]

    def told(self, other: "Left") -> list[str]:
        """What is not as in `other`, in words; the states of tracked runs aside."""
        return [name for name in ("results", "labels", "releases", "trained", "store")
                if getattr(self, name) != getattr(other, name)]  # fmt: skip


def left(folder: Path) -> Left:
    """What is in a folder where commands ran."""
    newest = max([*folder.glob("outputs/[0-9]*/*/"), *folder.glob("outputs/sweeps/*/*/")], default=folder / "none")
    paths = sorted(newest.glob("**/result.json"))
    results = [result(path) for path in paths]
    for each in results[:-1]:
        del each["epsilon"]["ledger_total"]
    return Left(
        results,
        [(path.parent / "labels.csv").read_text() for path in paths if (path.parent / "labels.csv").is_file()],
        releases(folder / ".nzc"),
        trained(folder),
        files(folder),
        states(folder),
    )


def files(folder: Path) -> set[str]:
    """The names of what is in the store of a folder where commands ran."""
    return {str(path.relative_to(folder)) for path in folder.glob(".nzc/**/*")}


def result(path: Path) -> dict[str, Any]:
    """A result.json, less clocks."""
    return {key: value for key, value in json.loads(path.read_text()).items() if key not in _CLOCKS}


def trained(folder: Path) -> Counter[str]:
    """How often each teacher was trained by the commands in this folder."""
    path = folder / TRAINED
    return Counter(path.read_text().split() if path.is_file() else [])


def releases(store: Path) -> set[tuple[Any, ...]]:
    from nzc.labeling.ledger import Ledger

    if not (store / "ledger.db").is_file():
        return set()
    return {(one.dataset, one.key, one.rdp.tobytes(), one.labels) for one in Ledger(store / "ledger.db").entries()}


def states(folder: Path) -> Counter[str]:
    """How the runs in a folder's mlflow.db stand; read as a plain database, so that reading changes nothing."""
    import sqlite3
    from contextlib import closing

    if not (folder / "mlflow.db").is_file():
        return Counter()
    with closing(sqlite3.connect(folder / "mlflow.db")) as connection:
        try:
            return Counter(state for (state,) in connection.execute("SELECT status FROM runs"))
        except sqlite3.OperationalError:  # not yet a table
            return Counter()


def progress(text: str) -> None:
    """One line that is written over, on a terminal; a line each elsewhere."""
    end = "" if sys.stderr.isatty() else "\n"
    print(f"\r\x1b[K{text}" if not end else text, end=end, file=sys.stderr, flush=True)
