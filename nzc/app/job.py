"""One job of the command `nzc`: Hydra's hook before a single run, and the function that Hydra calls for each job."""

import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import psutil
from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig

from nzc.app.config import shows_private
from nzc.app.errors import TRACEBACK, error_line, reported
from nzc.app.run import PreparedJob, build_tracker, prepare, tracked
from nzc.runs.formatting import show
from nzc.runs.layout import RESULT, as_typed, flatten, with_infinity, write_error
from nzc.runs.prepare import forget_data
from nzc.runs.result import RunResult
from nzc.runs.summary import result_line, result_table
from nzc.sweeps.frame import job_name
from nzc.validation import InputError


class RunHooks(Callback):
    """Prepares a single run before Hydra makes its folder, so that wrong input leaves nothing behind."""

    prepared: ClassVar[PreparedJob | None] = None  # in this process

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        forget_data()  # of an earlier command of this process
        with reported(shows_private(config)):  # Hydra would make a warning of an error
            begun = psutil.Process().create_time()  # imports take seconds
            RunHooks.prepared = prepare(config, config.hydra.runtime.choices, begun)
            if RunHooks.prepared.help_train():
                sys.exit()
            RunHooks.prepared.take("hydra.run.dir", Path(config.hydra.run.dir))


def run_job(cfg: DictConfig) -> float | list[float] | None:
    """Run one job and return its values of `objective`. In a sweep, an error costs this job only."""
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
