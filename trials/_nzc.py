"""Run `nzc` in forks of one process that has imported everything it needs. All trials use this module."""

import functools
import importlib
import itertools
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol

from nzc.runs.provenance import versions
from nzc.types import AnyArray

#: Overrides of a run that takes seconds on a CPU, without and with those of its student.
BASE = ["teachers.count=6", "teachers.epochs=20", "recipe=papers"]
BASE += ["trainer.accelerator=cpu", "trainer.progress=false", "figures=false"]
SMALL = [*BASE, "student.steps=60"]
#: Files in the folder of a trial: one line per trained teacher, with its number; standard output; standard error.
TRAINED, OUT, ERR = "trained.txt", "out.txt", "err.txt"
#: The modules that a run imports, some of them late.
NEEDED: tuple[str, ...] = (
    "nzc.app.main",
    "nzc.app.commands",
    "nzc.app.sweep",
    "nzc.runs.page",
    "nzc.runs.plots",
    "nzc.runs.sweep_plots",
    "nzc.runs.sweep_table",
    "nzc.students.export",
    "nzc.students.module",
    "nzc.students.supervised",
    "nzc.teachers.engine",
    "nzc.teachers.sklearn",
    "nzc.tracking.mlflow",
    "nzc.training.callbacks",
    "alembic.command",
    "mlflow.pytorch",
)


@dataclass(frozen=True)
class Trap:
    """A signal that a process sends to itself, before or after the `call`-th call of a function.

    where  the function, as module:function or module:Class.method
    about  only calls with this text in one of their arguments are counted
    again  whether the signal is sent a second time, 0.05 s later
    """

    where: str
    after: bool = False
    call: int = 1
    signal: int = signal.SIGKILL
    about: str = ""
    again: bool = False

    def install(self) -> None:
        """Replace the function in this process by one that sends the signal."""
        numbers = itertools.count(1)

        def around(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
            counted = not self.about or any(self.about in str(argument) for argument in args)
            now = counted and next(numbers) == self.call
            if now and not self.after:
                self.send()
            result = function(*args, **options)
            if now and self.after:
                self.send()
            return result

        wrap(self.where, around)

    def send(self) -> None:
        """Send the signal to this process, once or twice."""
        if self.again:
            second = threading.Timer(0.05, os.kill, [os.getpid(), self.signal])
            second.daemon = True
            second.start()
        os.kill(os.getpid(), self.signal)


def find(where: str) -> tuple[Any, str]:
    """Return the owner and the name of a function that is given as module:function or module:Class.method."""
    module, _, path = where.partition(":")
    *owners, name = path.split(".")
    owner = functools.reduce(getattr, owners, importlib.import_module(module))
    getattr(owner, name)  # AttributeError: there is no such function
    return owner, name


def wrap(where: str, around: Callable[..., Any]) -> None:
    """Replace a function by `around`, which receives the function and its arguments."""
    owner, name = find(where)
    function = getattr(owner, name)

    @functools.wraps(function)
    def wrapped(*args: Any, **options: Any) -> Any:
        return around(function, *args, **options)

    bound = isinstance(vars(owner).get(name), staticmethod | classmethod)
    setattr(owner, name, staticmethod(wrapped) if bound else wrapped)


def _save_and_count(save: Callable[..., None], path: Path, **arrays: AnyArray) -> None:
    """Save the predictions of one teacher, and add the teacher's number to a file, which a kill cannot undo."""
    save(path, **arrays)
    with Path(TRAINED).open("a") as file:
        file.write(f"{path.stem}\n")


def warm_up() -> None:
    """Import everything that a run needs, which takes ten seconds. Forks of this process do not import it again."""
    for module in NEEDED:
        importlib.import_module(module)
    versions()  # they are cached: files that are edited during a trial do not change the results
    for module in ("engine", "sklearn"):
        wrap(f"nzc.teachers.{module}:save", _save_and_count)


def in_own_process(task: Callable[[], object]) -> None:
    """Do a task in a process of its own. Some libraries cache open files, which later forks would share."""
    if not (process := os.fork()):
        task()
        os._exit(0)
    if code := wait(process):
        raise RuntimeError(f"the process ended with exit code {code}")


def run_and_exit(command: list[str], before: Callable[[], object]) -> NoReturn:
    """Call `before`, run `nzc COMMAND`, and end this process with the exit code. Only a fork may call this."""
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


def exit_code_within(process: int, seconds: float) -> int | None:
    """Return the exit code of a process that ends within so many seconds; None where it does not."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    return None


class Installed(Protocol):
    """What a fork puts in place before it runs the command, such as a Trap."""

    def install(self) -> None: ...


def start(folder: Path, command: list[str], trap: Installed | None = None, name: str = "") -> int:
    """Start `nzc COMMAND` in `folder`, in a process of its own, and return the process number.

    The files of standard output and standard error there are called `name` + OUT and `name` + ERR.
    """
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
            trap.install()

    run_and_exit(command, before)


def wait(process: int, seconds: float | None = None, then: int = signal.SIGKILL) -> int:
    """Return the exit code of a process, below 0 where a signal ended it. After `seconds`, send the signal `then`."""
    if seconds is not None:
        if (code := exit_code_within(process, seconds)) is not None:
            return code
        os.kill(process, then)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def run(folder: Path, command: list[str], trap: Installed | None = None, seconds: float | None = None) -> int:
    """Start `nzc COMMAND` in `folder`, wait for its end, and return its exit code."""
    return wait(start(folder, command, trap), seconds)


def progress(text: str) -> None:
    """Show one line of progress. A terminal replaces the line before; elsewhere every line stays."""
    end = "" if sys.stderr.isatty() else "\n"
    print(f"\r\x1b[K{text}" if not end else text, end=end, file=sys.stderr, flush=True)
