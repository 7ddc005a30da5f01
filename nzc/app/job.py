"""The life of a run: for the command, for `nzc.run`, and as a job of a sweep."""

import gc
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, chdir, closing, redirect_stderr, suppress
from dataclasses import dataclass
from functools import partial
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
from hydra._internal.callbacks import Callbacks
from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import run_job
from omegaconf import DictConfig

from nzc.app.build import build, run_params
from nzc.app.components import build_components
from nzc.app.config import experiment_of, names_of, shows_private
from nzc.app.errors import TRACEBACK, error_line
from nzc.data.cache import forget_data
from nzc.privacy.randomness import SYSTEM
from nzc.progress import say_stage
from nzc.runs import pipeline
from nzc.runs.formatting import show
from nzc.runs.layout import (
    RESULT,
    as_typed,
    flatten,
    read_overrides,
    short_name,
    with_infinity,
    write_error,
)
from nzc.runs.prepare import prepare as prepare_run
from nzc.runs.result import RunResult
from nzc.runs.summary import result_line, result_table
from nzc.saying import say
from nzc.storage.files import OwnFolder, require_own, require_writable
from nzc.storage.predictions import STORED
from nzc.sweeps.jobs import job_name, jobs_left
from nzc.tracking import MLflow, read_record, tracked, wait_at_most
from nzc.validation import InputError, Tree, one_of


@dataclass
class Job:
    """A run from its configuration to its result: `prepare`, then `execute`.

    choices  the chosen options of the groups
    begun    when the user started it, in seconds since 1970
    sweep    the folder of the sweep that the run is a job of, as `name`; None: it is a single run
    """

    cfg: DictConfig
    choices: Tree
    begun: float
    sweep: Path | None = None
    name: str = ""

    def prepare(self) -> None:
        """Build and check everything. An InputError leaves nothing behind.

        A job of a sweep draws no figures by default. The sweep has checked the tracker's address.
        """
        cfg = self.cfg
        require_writable("paths.output", Path(cfg.paths.output))
        run_params(cfg, self.choices)  # every value can be resolved
        require_own("paths.store", Path(cfg.paths.store), STORED)
        if cfg.paths.ledger is not None:
            require_writable("paths.ledger", Path(cfg.paths.ledger).absolute().parent)
        is_single = self.sweep is None
        if is_single:
            require_own("hydra.run.dir", Path(cfg.hydra.run.dir))
        self.run = prepare_run(build_components(cfg, self.choices, figures=is_single))
        private = shows_private(cfg)
        if cfg.rng == SYSTEM or not private:
            self.run.require_publishable(private)
        self.tracker = build_tracker(cfg)
        if is_single and self.tracker is not None and not self.run.parts.trainer.is_worker:
            self.tracker.check(experiment_of(cfg, self.choices))

    def help_train(self) -> bool:
        """On a worker node, train its share of another's teachers, and return true."""
        if self.run.parts.trainer.is_worker:
            pipeline.train_worker(self.run)
        return self.run.parts.trainer.is_worker

    def execute(
        self, folder: OwnFolder, on_result: Callable[[RunResult], None] | None = None
    ) -> RunResult:
        """Run the job in a folder that it has taken.

        on_result  receives the result when its numbers are known; None: stages are silent, too
        """
        if not gc.isenabled():  # the imports are done
            gc.freeze()
            gc.enable()
        say = None
        if on_result is not None and self.run.parts.trainer.progress:
            say = partial(say_stage, timed=shows_private(self.cfg))
        with closing(folder), self.tracked(folder.path):
            return pipeline.execute(self.run, folder.path, self.begun, say, on_result)

    def tracked(self, folder: Path) -> AbstractContextManager[None]:
        """Track the run in `folder`, by its name in the sweep or by what was typed."""
        cfg = self.cfg
        name = self.name
        if not name:
            names = names_of(cfg, self.choices)
            title = {f"{group}={names[group]}": names[group] for group in ("aggregator", "dataset")}
            others = [word for word in read_overrides(folder) if word not in title]
            name = short_name(others, *title.values())
        experiment = experiment_of(cfg, self.choices)
        if self.sweep is not None and self.choices["dataset"] == "none":
            # All votes of a sweep are in one experiment.
            experiment = read_record(self.sweep).get("experiment", experiment)
        return tracked(
            self.tracker, folder, experiment, name, run_params(cfg, self.choices), self.sweep
        )


def build_tracker(cfg: DictConfig) -> MLflow | None:
    """Return the tracker; None for tracking=none."""
    wait_at_most(cfg.wait)
    tracker: MLflow | None = build(cfg, "tracking")
    return tracker


def run_command(cfg: DictConfig) -> None:
    """Do a single run for the command: show its table, its folder, and how long it took."""
    start = _age()  # spent on imports and the configuration
    begun = time.time() - start

    def show_table(result: RunResult) -> None:
        show(result_table(_shown(cfg, result)))

    run_single(cfg, begun, show_table)
    folder = Path(cfg.hydra.run.dir).absolute()
    show(str(folder / RESULT), "dim")
    show_view(folder)
    show(f"The run took {time.time() - begun:.1f} s, {start:.1f} s of it to start.", "dim")


def _age() -> float:
    """Return how many seconds ago this process began."""
    # Both are off by the same part of a second.
    since_boot = psutil.Process().create_time() - psutil.boot_time()
    return time.clock_gettime(time.CLOCK_BOOTTIME) - since_boot


def show_view(folder: Path) -> None:
    """Print how to look at the run or the sweep in `folder` in MLflow, if that has recorded it."""
    view = read_record(folder).get("view")
    if view:
        show(view, "dim")


def _shown(cfg: DictConfig, result: RunResult) -> RunResult:
    """Return what the output may say of a result."""
    return result if shows_private(cfg) else result.public


def run_single(
    cfg: DictConfig, begun: float, on_result: Callable[[RunResult], None] | None = None
) -> RunResult:
    """Check everything, then make the run's folder, and execute the run there.

    A worker node trains its share of the teachers, and ends here. A failure leaves its line in the
    folder. `on_result` is as of `Job.execute`. Hydra's callbacks are called as in a job of a sweep.
    """
    forget_data()  # of an earlier run of this process
    HydraConfig.instance().set_config(cfg)  # for ${hydra:…}
    callbacks = Callbacks(cfg)
    name = cfg.hydra.job.config_name
    callbacks.on_run_start(config=cfg, config_name=name)
    job = Job(cfg, cfg.hydra.runtime.choices, begun)
    job.prepare()
    if job.help_train():
        sys.exit()
    folder = OwnFolder("hydra.run.dir", Path(cfg.hydra.run.dir).absolute())
    folder.take()
    results = []

    def execute(_: DictConfig) -> Any:
        try:
            results.append(job.execute(folder, on_result))
        except Exception as error:
            write_error(folder.path, error_line(error, shows_private(cfg))[1])
            raise
        with suppress(InputError):  # it is a search's
            return _objective(cfg.objective, results[0])

    context: Any = SimpleNamespace(callbacks=callbacks)  # a job needs no more of Hydra
    is_command = on_result is not None  # nzc.run leaves logging as it is
    ended = run_job(execute, cfg, "hydra.run.dir", None, context, is_command)
    callbacks.on_run_end(config=cfg, config_name=name, job_return=ended)
    with redirect_stderr(StringIO()):  # Hydra would write a line of its own
        _ = ended.return_value  # raises where the run did
    return results[0]


def run_in_sweep(cfg: DictConfig) -> float | list[float] | None:
    """Run one job of a sweep in the folder that Hydra made, and return its values of `objective`.

    An error costs this job only.
    """
    settings = HydraConfig.get()
    folder = Path(settings.runtime.output_dir)
    home = Path(settings.runtime.cwd if settings.job.chdir else ".")  # where relative paths start
    sweep = home / settings.sweep.dir
    name = job_name(sweep, settings.job.num, as_typed(settings.overrides.task))
    job = Job(cfg, settings.runtime.choices, time.time(), sweep, name)
    is_prepared = False
    try:
        with chdir(home):
            job.prepare()
        is_prepared = True
        if job.help_train():
            return None
        own_folder = OwnFolder("hydra.sweep.dir", folder)
        own_folder.take()
        result = job.execute(own_folder)
        show(result_line(_shown(cfg, result), name))
        say(*jobs_left(sweep))
        return _objective(cfg.objective, result)
    except Exception as error:
        if not is_prepared:  # the tracker hears of it all the same
            with suppress(Exception), chdir(home):
                job.tracker = build_tracker(cfg)
                with job.tracked(folder):
                    raise
        if TRACEBACK:
            raise
        line = error_line(error, shows_private(cfg))[1]
        write_error(folder, line)
        say(line)
        return None


def _objective(objective: Any, result: RunResult) -> float | list[Any] | None:
    """Return the numbers of result.json that `objective` names: a key, a list of keys, or null."""
    if objective is None:
        return None
    if not isinstance(objective, str):
        return [_objective(key, result) for key in objective]
    values = with_infinity(flatten(result.as_dict()))
    numbers = {key: float(value) for key, value in values.items() if isinstance(value, int | float)}
    one_of("objective", objective, [*numbers])
    return numbers[objective]
