"""The command `nzc`: a run, a sweep, or a subcommand."""

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import hydra
import psutil
from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig

from nzc.app.commands import COMMANDS
from nzc.app.config import CONF, register, shows_private
from nzc.app.errors import TRACEBACK, Stop, error_line, reported
from nzc.app.run import PRIVATE, PreparedJob, build_tracker, prepare, tracked
from nzc.app.sweep import answer_interrupted
from nzc.runs.formatting import show
from nzc.runs.layout import RESULT, as_typed, flatten, with_infinity, write_error
from nzc.runs.prepare import forget_data
from nzc.runs.result import RunResult
from nzc.runs.summary import result_line, result_table
from nzc.sweeps.frame import job_name
from nzc.validation import InputError, meant, one_line, shortened
from nzc.version import __version__

STOPPED = "nzc: stopped; finished teachers are stored, and the same command continues from there"


def main() -> None:
    """Run the command. Exit code 0; 1 for a failure while running; 2 for wrong input; 130 when stopped."""
    os.environ["MPLBACKEND"] = "agg"  # figures are files; a notebook's backend may not even be installed
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises its errors, and they are reported here
    _begin()
    words = sys.argv[1:]
    words[:1] = ["baseline=true"] if words[:1] == ["baseline"] else words[:1]
    command = COMMANDS.get("".join(words[:1]))
    try:
        with reported(otherwise=1 if command else 2):  # before a job begins, the input is wrong
            if command:
                sys.exit(command(words[1:]))
            if "--version" in words:
                print(f"nzc {__version__}")
                return
            if words and words[0][:1] not in "-~" and "=" not in words[0]:
                known = [*COMMANDS, "baseline"]
                raise InputError("nzc", words[0], f"must be KEY=VALUE, or a subcommand{meant(words[0], known)}")
            sys.argv[1:] = sorted(words, key=_is_override)  # Hydra accepts no flag between them
            register()
            forget_data()
            with answer_interrupted():
                hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")(run_job)()
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
    """Begin a command, or a job in a process of a launcher: SIGTERM is as Ctrl-C, and files are their owner's only."""
    os.umask(PRIVATE)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)


class RunHooks(Callback):
    """Prepares a single run before Hydra makes its folder, so that wrong input leaves nothing behind."""

    prepared: ClassVar[PreparedJob | None] = None  # in this process

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        with reported(shows_private(config)):  # Hydra would make a warning of an error
            begun = psutil.Process().create_time()  # imports take seconds
            RunHooks.prepared = prepare(config, config.hydra.runtime.choices, begun)
            if RunHooks.prepared.help_train():
                sys.exit()
            RunHooks.prepared.take("hydra.run.dir", Path(config.hydra.run.dir))


def run_job(cfg: DictConfig) -> float | list[float] | None:
    """Run one job and return its values of `objective`. In a sweep, an error costs this job only."""
    _begin()
    settings = HydraConfig.get()
    folder = Path(settings.runtime.output_dir)
    if settings.mode != RunMode.MULTIRUN:
        assert RunHooks.prepared is not None
        with reported(shows_private(cfg), folder=folder):
            result = RunHooks.prepared.execute(speaks=True).waited(RunHooks.prepared.begun)
        show(result_table(result if shows_private(cfg) else result.public))
        show(str(folder / RESULT), "dim")
        return None
    sweep, choices, job = Path(settings.sweep.dir), settings.runtime.choices, None
    name = job_name(sweep, settings.job.num, as_typed(settings.overrides.task))
    try:
        job = prepare(cfg, choices, time.time(), in_sweep=True)
        if job.help_train():
            return None
        job.take("hydra.sweep.dir", folder)
        result = job.execute(sweep, name)
        show(result_line(result if shows_private(cfg) else result.public, name))
        return None if cfg.objective is None else _objective(cfg.objective, result)
    except Exception as error:
        if job is None:
            with suppress(Exception), tracked(build_tracker(cfg), cfg, choices, folder, sweep, name):
                raise
        if TRACEBACK:
            raise
        line = error_line(error, shows_private(cfg))[1]
        with suppress(OSError):  # the disk may be full
            write_error(folder, line)
        print(f"nzc: {line}", file=sys.stderr)
        return None


def _objective(objective: Any, result: RunResult) -> float | list[float]:
    """Return the numbers of result.json that `objective` names."""
    known = with_infinity(flatten(result.as_dict()))
    numbers = {key: float(value) for key, value in known.items() if isinstance(value, int | float)}
    for key in [objective] if isinstance(objective, str) else objective:
        if key not in numbers:
            raise InputError("objective", key, f"must be a number of result.json: {', '.join(numbers)}")
    return numbers[objective] if isinstance(objective, str) else [numbers[key] for key in objective]
