"""Run a composed configuration: prepare it, execute it in a folder, and track it."""

import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.singleton import Singleton
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from nzc.app.components import build_components, build_tracker, run_params, without_hydra
from nzc.app.config import CONF, register, shows_private
from nzc.app.errors import check_overrides, input_error
from nzc.labeling.randomness import SYSTEM
from nzc.runs import pipeline
from nzc.runs.layout import read_overrides
from nzc.runs.prepare import PreparedRun, forget_data
from nzc.runs.prepare import prepare as prepare_run
from nzc.runs.result import RunResult
from nzc.storage.claim import OwnFolder, require_own, require_writable
from nzc.storage.predictions import STORED
from nzc.tracking import TrackedRun, Tracker, tracked_name
from nzc.training.progress import say_stage
from nzc.validation import InputError, in_a_line

#: Everything that a run writes is readable by its owner only, because most of it depends on votes.
PRIVATE = 0o077


@dataclass
class PreparedJob:
    """A run whose input is known to be good, and its tracker."""

    cfg: DictConfig
    choices: Mapping[str, Any]
    run: PreparedRun
    tracker: Tracker | None
    folder: OwnFolder | None = None

    def take(self, key: str, folder: Path) -> None:
        """Make the run's folder, and keep other runs away from it; InputError: another run has it."""
        self.folder = OwnFolder(key, folder)
        self.folder.take()

    def help_train(self) -> bool:
        """On a worker node, which only helps another to train teachers: train its share, and return true."""
        if is_worker := self.run.parts.trainer.is_worker:
            pipeline.train_worker(self.run)
        return is_worker

    def execute(self, sweep: Path | None = None, name: str = "", speaks: bool = False) -> RunResult:
        """Run the job in the folder that it has taken; if given, as the job `name` of the sweep in the folder `sweep`.

        speaks  whether standard error gets a line a stage, where it is no terminal
        """
        assert self.folder is not None
        with closing(self.folder):
            return self._execute(self.folder.path, sweep, name, speaks)

    def _execute(self, folder: Path, sweep: Path | None, name: str, speaks: bool) -> RunResult:
        speaks = speaks and self.run.parts.trainer.progress
        say = partial(say_stage, timed=shows_private(self.cfg)) if speaks else None
        with _tracked(self.tracker, self.cfg, self.choices, folder, sweep, name) as tracked:
            result = pipeline.execute(self.run, folder, tracked.log, say)
            begun = time.perf_counter()
        if tracked.sent and say is not None:
            say("tracking", "recorded", time.perf_counter() - begun)
        return result


def prepare(cfg: DictConfig, choices: Mapping[str, Any], in_sweep: bool = False) -> PreparedJob:
    """Build and check everything, also the tracker's address. An InputError leaves nothing behind.

    A job of a sweep draws no figures by default, and does not check the address: the sweep has done so.
    """
    require_writable("paths.output", Path(cfg.paths.output))
    run_params(cfg, choices)  # every value can be resolved
    require_own("paths.store", Path(cfg.paths.store), STORED)
    if os.path.lexists(stored := Path(cfg.paths.store) / "predictions") and not stored.is_dir():
        raise InputError("paths.store", cfg.paths.store, "must have a folder predictions, or nothing of this name")
    if not in_sweep:
        require_own("hydra.run.dir", Path(cfg.hydra.run.dir))
    prepared = prepare_run(build_components(cfg, choices, figures=not in_sweep))
    if not shows_private(cfg):
        session = prepared.session
        if session.policy.rng != SYSTEM:
            allowed = (
                f"must be true unless rng={SYSTEM}: anyone who knows the seed can subtract the noise from the labels"
            )
            raise InputError("tracking.private", False, allowed)
        if prepared.splits is not None and prepared.splits.undeclared_classes is not None:
            allowed = "must be declared where tracking.private=false, because else private labels decide what is sent"
            raise InputError("dataset.classes", None, allowed)
        if not np.isfinite(session.promise.epsilon):
            allowed = f"must be true: the labels of {session.policy.name} have no finite ε"
            raise InputError("tracking.private", False, allowed)
    tracker = build_tracker(cfg)
    if tracker is not None and not (in_sweep or prepared.parts.trainer.is_worker):
        tracker.check(choices["dataset"])
    return PreparedJob(cfg, choices, prepared, tracker)


def track_failure(cfg: DictConfig, choices: Mapping[str, Any], folder: Path, sweep: Path, name: str) -> None:
    """Record a job of a sweep that failed before it began. In silence: why it failed must be said instead."""
    with suppress(Exception):
        tracked = _tracked(build_tracker(cfg), cfg, choices, folder, sweep, name)
        tracked.open()
        tracked.close("FAILED")


def _tracked(
    tracker: Tracker | None, cfg: DictConfig, choices: Mapping[str, Any], folder: Path, sweep: Path | None, name: str
) -> TrackedRun:
    named = {f"{group}={choices[group]}": choices[group] for group in ("dataset", "aggregator")}
    typed = [each for each in read_overrides(folder) if each not in named]
    return TrackedRun(
        tracker,
        folder,
        experiment=choices["dataset"],
        name=name or tracked_name([*named.values()], typed),
        params=run_params(cfg, choices),
        sweep=sweep,
    )


def run(overrides: Sequence[str] = ()) -> RunResult:
    """Do what `nzc OVERRIDE…` does, and return the result; `result.folder` holds everything else.

    Nothing is printed but warnings and progress. Sweeps are for the command line. Hydra's global state, the umask and
    `sys.path` are as before when this returns. InputError: a value cannot be used.
    """
    state, umask, path = Singleton.get_state(), os.umask(PRIVATE), sys.path.copy()
    try:
        GlobalHydra.instance().clear()
        register()
        cfg = _compose(list(overrides))
        folder = Path(cfg.hydra.run.dir).absolute()
        prepared = prepare(cfg, cfg.hydra.runtime.choices)
        prepared.take("hydra.run.dir", folder)
        _save_config(folder, cfg)
        return prepared.execute()
    except (HydraException, OmegaConfBaseException) as error:
        raise input_error(error) or InputError("overrides", " ".join(overrides), in_a_line(error)) from error
    finally:
        forget_data()  # its files may change before the next run of this process
        os.umask(umask)
        Singleton.set_state(state)
        sys.path[:] = path


def _compose(overrides: list[str]) -> DictConfig:
    check_overrides(overrides)
    with initialize_config_dir(str(CONF), job_name="nzc", version_base="1.3"):
        cfg = compose("config", overrides, return_hydra_config=True)
    if cfg.hydra.mode == RunMode.MULTIRUN:
        raise InputError("overrides", " ".join(overrides), "must describe one run; sweeps are for the command line")
    return cfg


def _save_config(folder: Path, cfg: DictConfig) -> None:
    """Write the configuration as Hydra does: config.yaml, hydra.yaml and overrides.yaml."""
    (folder / ".hydra").mkdir(parents=True, exist_ok=True)
    OmegaConf.save(without_hydra(cfg), folder / ".hydra" / "config.yaml")
    OmegaConf.save(OmegaConf.masked_copy(cfg, "hydra"), folder / ".hydra" / "hydra.yaml")
    OmegaConf.save(cfg.hydra.overrides.task, folder / ".hydra" / "overrides.yaml")
