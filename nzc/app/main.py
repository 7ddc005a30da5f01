"""The command `nzc`: a run, a sweep, or a subcommand. What these need is imported later."""

import atexit
import gc
import os
import signal
import sys
import threading
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path

import hydra
from hydra._internal.utils import get_args_parser
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from nzc.app.config import CONF, compose_run, recipe_of, register, shows_private
from nzc.app.errors import Parser, Stop, reported
from nzc.app.overrides import check_overrides, quoted
from nzc.saying import say
from nzc.storage.files import PRIVATE
from nzc.validation import InputError, meant, one_line, shortened

#: The subcommands: each is a function of this name, in the module of this name in nzc.app.
COMMANDS = ("plan", "predict", "publish", "report", "store", "sync")
STOPPED = "stopped; finished teachers are stored, and the same command continues from there"
#: Flags of Hydra that nzc does not follow, and what serves instead.
_INSTEAD = {
    "config_path": "--config-dir FOLDER adds your options, and --config-name NAME your keys",
    "experimental_rerun": "type the overrides that RUN/.hydra/overrides.yaml lists",
}


def main() -> None:
    """Run the command.

    Exit code 0; 1 for a failure while running; 2 for wrong input; 130 when stopped.
    """
    os.environ["MPLBACKEND"] = "agg"  # figures are files; a notebook's backend may be missing
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises its errors, and they are reported here
    # Imports make a million objects that stay: each search for garbage among them takes long.
    atexit.register(gc.freeze)
    gc.disable()
    begin_process()
    words = sys.argv[1:]
    try:
        if words and words[0] in COMMANDS:
            with reported():
                subcommand = getattr(import_module(f"nzc.app.{words[0]}"), words[0])
                sys.exit(subcommand(words[1:]))
        with reported(otherwise=2):  # before a job begins, the input is wrong
            _run(words)
    except Stop as stop:
        say(*(shortened(one_line(str(error))) for error in stop.errors))
        raise
    except KeyboardInterrupt:
        say(STOPPED)
        sys.exit(130)
    finally:
        gc.enable()
        gc.unfreeze()


def begin_process() -> None:
    """Begin a command, or a job in a process of a launcher.

    SIGTERM is as Ctrl-C, and files are their owner's only.
    """
    os.umask(PRIVATE)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def _run(words: Sequence[str]) -> None:
    """Run what is no subcommand: a run, a sweep, or a question that a flag asks."""
    if "--version" in words:
        from nzc.version import __version__  # slow to import

        print(f"nzc {__version__}")
        return
    ordered = sorted(words, key=_is_override)  # Hydra accepts no flag between overrides
    flags = Parser("nzc", parents=[get_args_parser()], add_help=False).parse_args(ordered)
    for name, hint in _INSTEAD.items():
        typed = getattr(flags, name)
        if typed:
            raise InputError(f"--{name.replace('_', '-')}", typed, f"must be left out: {hint}")
    overrides = flags.overrides
    if overrides and not _is_override(overrides[0]):
        raise InputError(
            "nzc",
            overrides[0],
            f"must be KEY=VALUE (nzc --help), or a subcommand{meant(overrides[0], COMMANDS)}",
        )
    check_overrides(overrides)
    if flags.config_dir is not None:
        folder = quoted(f"file://{Path(flags.config_dir).absolute()}")
        overrides = [*overrides, f"hydra.searchpath=[{folder}]"]
    composed = partial(compose_run, overrides, flags.config_name or "config")
    if flags.help:  # Hydra would first list its own options, for a second
        print(composed().hydra.help.template)
        return
    if flags.cfg:  # Hydra composes it once more
        ordered += recipe_of(composed())
    if any((flags.multirun, flags.cfg, flags.info, flags.hydra_help, flags.shell_completion)):
        _run_hydra(ordered)
        return
    cfg = composed()
    if cfg.hydra.mode == RunMode.MULTIRUN:
        _run_hydra(["--multirun", *ordered])
        return
    with reported(shows_private(cfg)):
        _say_start(cfg)
        from nzc.app.job import run_command  # slow to import

        run_command(cfg)


def _is_override(word: str) -> bool:
    return word.startswith("~") or ("=" in word and not word.startswith("-"))


def _say_start(cfg: DictConfig) -> None:
    """Print what the run combines: the imports that follow take seconds."""
    if not OmegaConf.select(cfg, "trainer.progress", default=True):
        return
    choices = cfg.hydra.runtime.choices
    words = [f"dataset={choices.dataset}", "baseline=true"]
    if not cfg.baseline:
        groups = ("dataset", "teachers", "aggregator", "student")
        words = [f"{group}={choices[group]}" for group in groups]
    say(" ".join(words))


def _run_hydra(words: Sequence[str]) -> None:
    """Let Hydra run a sweep, or show a configuration."""
    sys.argv[1:] = words
    register()
    hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")(do_job)()


def do_job(cfg: DictConfig) -> float | list[float] | None:
    """Run one job of a sweep, here or in a process of a launcher."""
    begin_process()
    from nzc.app.job import run_in_sweep

    return run_in_sweep(cfg)
