"""The command `nzc`: a run, a sweep, or a subcommand. What these need is imported later."""

import atexit
import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

import hydra
from omegaconf import DictConfig

from nzc.app.config import CONF, compose_run, register
from nzc.app.errors import Stop, refuse_divided_paths, reported
from nzc.storage.files import PRIVATE
from nzc.validation import InputError, meant, one_line, shortened

#: The subcommands, and the module of each, in nzc.app.
COMMANDS = {
    **{name: name for name in ("plan", "predict", "publish")}, **dict.fromkeys(("report", "store", "sync"), "folders"),
}  # fmt: skip
STOPPED = "nzc: stopped; finished teachers are stored, and the same command continues from there"


def main() -> None:
    """Run the command. Exit code 0; 1 for a failure while running; 2 for wrong input; 130 when
    stopped.
    """
    os.environ["MPLBACKEND"] = (
        "agg"  # figures are files; a notebook's backend may not even be installed
    )
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises its errors, and they are reported here
    atexit.register(
        gc.freeze
    )  # the interpreter would look once more for garbage among them all, for a second
    _begin()
    words = sys.argv[1:]
    command = COMMANDS.get("".join(words[:1]))
    try:
        with reported(otherwise=1 if command else 2):  # before a job begins, the input is wrong
            if command:
                sys.exit(getattr(import_module(f"nzc.app.{command}"), words[0])(words[1:]))
            if "--version" in words:
                from nzc.version import __version__  # slow to import

                print(f"nzc {__version__}")
                return
            if words and words[0][:1] not in "-~" and "=" not in words[0]:
                raise InputError(
                    "nzc",
                    words[0],
                    f"must be KEY=VALUE, or a subcommand{meant(words[0], COMMANDS)}",
                )
            if {"--help", "-h"} & {
                *words
            }:  # Hydra would list all options of its own first, which takes a second
                print(compose_run([word for word in words if word[:1] != "-"]).hydra.help.template)
                return
            if {"--multirun", "-m"} & {*words}:
                refuse_divided_paths(words)
            sys.argv[1:] = sorted(words, key=_is_override)  # Hydra accepts no flag between them
            register()
            try:
                with _collects_late():
                    hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")(
                        do_job
                    )()
            except BaseException:
                if (sweep := sys.modules.get("nzc.app.sweep")) is not None:
                    with sweep.answer_interrupted():
                        raise
                raise
    except Stop as stop:
        for error in stop.errors:
            print(f"nzc: {shortened(one_line(str(error)))}", file=sys.stderr)
        raise
    except KeyboardInterrupt:
        print(STOPPED, file=sys.stderr)
        sys.exit(130)


def _is_override(word: str) -> bool:
    return word[:1] == "~" or (word[:1] != "-" and "=" in word)


def _begin() -> None:
    """Begin a command, or a job in a process of a launcher: SIGTERM is as Ctrl-C, and files are
    their owner's only.
    """
    os.umask(PRIVATE)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)


@contextmanager
def _collects_late() -> Iterator[None]:
    """Look for no garbage before a job begins: imports make a million objects that stay, and each
    search takes long.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def do_job(cfg: DictConfig) -> float | list[float] | None:
    """Run one job, here or in a process of a launcher."""
    from nzc.app.job import run_job

    _begin()
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
    return run_job(cfg)
