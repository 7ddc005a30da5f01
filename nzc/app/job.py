"""One job of the command `nzc`: prepared from its configuration, executed in its folder, and
tracked.
"""

import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, chdir, closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import psutil
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from nzc.app.build import build, run_params
from nzc.app.components import build_components
from nzc.app.config import experiment_of, names_of, shows_private
from nzc.app.errors import TRACEBACK, error_line, reported
from nzc.labeling.randomness import SYSTEM
from nzc.progress import say_stage
from nzc.runs import pipeline
from nzc.runs.checks import PreparedRun, forget_data
from nzc.runs.checks import prepare as prepare_run
from nzc.runs.formatting import show
from nzc.runs.layout import RESULT, as_typed, flatten, read_overrides, with_infinity, write_error
from nzc.runs.result import RunResult
from nzc.runs.summary import result_line, result_table
from nzc.storage.files import OwnFolder, require_own, require_writable
from nzc.storage.predictions import STORED
from nzc.sweeps.jobs import job_name
from nzc.tracking import Tracker, read_record, tracked, tracked_name, wait_at_most
from nzc.validation import InputError


@dataclass
class PreparedJob:
    """A run whose input is known to be good, and its tracker. `begun`: when the user started it,
    since 1970.
    """

    single: ClassVar["PreparedJob | None"] = (
        None  # the single run of this process, between `begin_run` and `run_job`
    )

    cfg: DictConfig
    choices: Mapping[str, Any]
    run: PreparedRun
    tracker: Tracker | None
    begun: float

    def help_train(self) -> bool:
        """On a worker node, which only helps another to train teachers: train its share, and return
        true.
        """
        if is_worker := self.run.parts.trainer.is_worker:
            pipeline.train_worker(self.run)
        return is_worker

    def take(self, key: str, folder: Path) -> None:
        """Make the run's folder, and keep other runs away from it; InputError: another run has it."""
        self.folder = OwnFolder(key, folder)
        self.folder.take()

    def execute(
        self,
        sweep: Path | None = None,
        name: str = "",
        show: Callable[[RunResult], None] | None = None,
    ) -> RunResult:
        """Run the job in the folder that it has taken; if given, as the job `name` of the sweep in
        `sweep`.

        show  receives the result when its numbers are known; None: stages are not reported either
        """
        speaks = show is not None and self.run.parts.trainer.progress
        say = partial(say_stage, timed=shows_private(self.cfg)) if speaks else None
        with (
            closing(self.folder),
            _tracked(self.tracker, self.cfg, self.choices, self.folder.path, sweep, name),
        ):
            return pipeline.execute(self.run, self.folder.path, self.begun, say, show)


def prepare(
    cfg: DictConfig, choices: Mapping[str, Any], begun: float, in_sweep: bool = False
) -> PreparedJob:
    """Build and check everything, also the tracker's address. An InputError leaves nothing behind.

    A job of a sweep draws no figures by default, and does not check the address: the sweep has done
    so.
    """
    require_writable("paths.output", Path(cfg.paths.output))
    run_params(cfg, choices)  # every value can be resolved
    require_own("paths.store", Path(cfg.paths.store), STORED)
    if cfg.paths.ledger is not None:
        require_writable("paths.ledger", Path(cfg.paths.ledger).absolute().parent)
    if not in_sweep:
        require_own("hydra.run.dir", Path(cfg.hydra.run.dir))
    run = prepare_run(build_components(cfg, choices, figures=not in_sweep))
    if not shows_private(cfg):
        _require_publishable(run)
    elif line := run.session.ledger.stranger:
        print(f"nzc: {line}", file=sys.stderr)
    tracker = build_tracker(cfg)
    if tracker is not None and not (in_sweep or run.parts.trainer.is_worker):
        tracker.check(experiment_of(cfg, choices))
    return PreparedJob(cfg, choices, run, tracker, begun)


def _require_publishable(run: PreparedRun) -> None:
    """Raise InputError where what a public tracker gets would tell more of private records than ε
    says.
    """
    policy, splits = run.session.policy, run.splits
    if splits is not None and splits.undeclared_classes is not None:
        allowed = "must be declared where tracking.private=false, because else private labels decide what is sent"
        raise InputError("dataset.classes", None, allowed)
    why = (
        ""
        if np.isfinite(run.session.promise.epsilon)
        else f"the labels of {policy.mechanism} have no finite ε"
    )
    if policy.rng != SYSTEM:
        why = f"anyone who knows the seed can subtract the noise from the labels; rng={SYSTEM} has none"
    if why:
        raise InputError("tracking.private", False, f"must be true: {why}")


def build_tracker(cfg: DictConfig) -> Tracker | None:
    """Return the tracker; None for tracking=none."""
    wait_at_most(cfg.wait)
    tracker: Tracker | None = build(cfg, "tracking")
    return tracker


def _tracked(
    tracker: Tracker | None,
    cfg: DictConfig,
    choices: Mapping[str, Any],
    folder: Path,
    sweep: Path | None,
    name: str,
) -> AbstractContextManager[None]:
    """Track the run in `folder`, named by what was typed unless it is the job `name` of a sweep."""
    names = names_of(cfg, choices)
    named = {f"{group}={names[group]}": names[group] for group in ("dataset", "aggregator")}
    name = name or tracked_name(
        [*named.values()], [text for text in read_overrides(folder) if text not in named]
    )
    experiment = experiment_of(cfg, choices)
    if (
        sweep is not None and choices["dataset"] == "none"
    ):  # all votes of a sweep stand in its own experiment
        experiment = read_record(sweep).get("experiment", experiment)
    return tracked(tracker, folder, experiment, name, run_params(cfg, choices), sweep)


def begin_run(config: DictConfig) -> None:
    """Prepare a single run, and take its folder. A worker node trains its share of the teachers,
    and ends here.
    """
    forget_data()  # of an earlier command of this process
    begun = psutil.Process().create_time()  # imports take seconds
    job = prepare(config, config.hydra.runtime.choices, begun)
    if job.help_train():
        sys.exit()
    job.take("hydra.run.dir", Path(config.hydra.run.dir).absolute())  # the job may change it
    PreparedJob.single = job


def run_job(cfg: DictConfig) -> float | list[float] | None:
    """Run one job and return its values of `objective`. In a sweep, an error costs this job only."""
    settings, private = HydraConfig.get(), shows_private(cfg)
    folder = Path(settings.runtime.output_dir)
    if settings.mode == RunMode.MULTIRUN:
        home = Path(
            settings.runtime.cwd if settings.job.chdir else "."
        )  # where relative paths start
        sweep = home / settings.sweep.dir
        name = job_name(sweep, settings.job.num, as_typed(settings.overrides.task))
        return _run_of_sweep(cfg, settings.runtime.choices, folder, sweep, name, home)
    assert PreparedJob.single is not None
    with reported(private, folder=folder):
        PreparedJob.single.execute(show=partial(_show_table, private=private))
    show(str(folder / RESULT), "dim")
    return None


def _show_table(result: RunResult, private: bool) -> None:
    show(result_table(result if private else result.public))


def _run_of_sweep(
    cfg: DictConfig, choices: Mapping[str, Any], folder: Path, sweep: Path, name: str, home: Path
) -> float | list[float] | None:
    job, private = None, shows_private(cfg)
    try:
        with chdir(home):
            job = prepare(cfg, choices, time.time(), in_sweep=True)
        if job.help_train():
            return None
        job.take("hydra.sweep.dir", folder)
        result = job.execute(sweep, name)
        show(result_line(result if private else result.public, name))
        return None if cfg.objective is None else _objective(cfg.objective, result)
    except Exception as error:
        if job is None:
            with (
                suppress(Exception),
                chdir(home),
                _tracked(build_tracker(cfg), cfg, choices, folder, sweep, name),
            ):
                raise
        if TRACEBACK:
            raise
        line = error_line(error, private)[1]
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
            raise InputError(
                "objective", key, f"must be a number of result.json: {', '.join(numbers)}"
            )
    return numbers[objective] if isinstance(objective, str) else [numbers[key] for key in objective]
