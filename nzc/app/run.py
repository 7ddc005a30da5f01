"""Run a composed configuration: prepare it, execute it in a folder, and track it."""

import re
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig, OmegaConf

from nzc.app.build import build, run_params
from nzc.app.components import build_components
from nzc.app.config import experiment_of, shows_private
from nzc.labeling.randomness import SYSTEM
from nzc.progress import say_stage
from nzc.runs import pipeline
from nzc.runs.layout import read_overrides
from nzc.runs.prepare import PreparedRun
from nzc.runs.prepare import prepare as prepare_run
from nzc.runs.result import RunResult
from nzc.storage.files import OwnFolder, require_own, require_writable
from nzc.storage.predictions import STORED
from nzc.tracking import TrackedRun, Tracker, tracked_name, wait_at_most
from nzc.tracking.record import read_record
from nzc.validation import InputError


@dataclass
class PreparedJob:
    """A run whose input is known to be good, and its tracker. `begun`: when the user started it, since 1970."""

    cfg: DictConfig
    choices: Mapping[str, Any]
    run: PreparedRun
    tracker: Tracker | None
    begun: float

    def help_train(self) -> bool:
        """On a worker node, which only helps another to train teachers: train its share, and return true."""
        if is_worker := self.run.parts.trainer.is_worker:
            pipeline.train_worker(self.run)
        return is_worker

    def take(self, key: str, folder: Path) -> None:
        """Make the run's folder, and keep other runs away from it; InputError: another run has it."""
        self.folder = OwnFolder(key, folder)
        self.folder.take()

    def execute(self, sweep: Path | None = None, name: str = "", speaks: bool = False) -> RunResult:
        """Run the job in the folder that it has taken; if given, as the job `name` of the sweep in the folder `sweep`.

        speaks  whether standard error gets a line a stage, where it is no terminal
        """
        speaks = speaks and self.run.parts.trainer.progress
        say = partial(say_stage, timed=shows_private(self.cfg)) if speaks else None
        with closing(self.folder), tracked(self.tracker, self.cfg, self.choices, self.folder.path, sweep, name) as run:
            return pipeline.execute(self.run, self.folder.path, self.begun, run.log, say)


def prepare(cfg: DictConfig, choices: Mapping[str, Any], begun: float, in_sweep: bool = False) -> PreparedJob:
    """Build and check everything, also the tracker's address. An InputError leaves nothing behind.

    begun  when the user started the run, in seconds since 1970

    A job of a sweep draws no figures by default, and does not check the address: the sweep has done so.
    """
    require_writable("paths.output", Path(cfg.paths.output))
    run_params(cfg, choices)  # every value can be resolved
    require_own("paths.store", Path(cfg.paths.store), STORED)
    if cfg.paths.ledger is not None:
        require_writable("paths.ledger", Path(cfg.paths.ledger).absolute().parent)
    if not in_sweep:
        require_own("hydra.run.dir", Path(cfg.hydra.run.dir))
    components = build_components(cfg, choices, figures=not in_sweep)
    try:
        prepared = prepare_run(components)
    except InputError as error:
        raise _as_typed(cfg, error) from error
    if not shows_private(cfg):
        _require_publishable(prepared)
    elif line := prepared.session.ledger.stranger:
        print(f"nzc: {line}", file=sys.stderr)
    tracker = build_tracker(cfg)
    if tracker is not None and not (in_sweep or prepared.parts.trainer.is_worker):
        tracker.check(experiment_of(cfg, choices))
    return PreparedJob(cfg, choices, prepared, tracker, begun)


def _as_typed(cfg: DictConfig, error: InputError) -> InputError:
    """Return an error with the key that has the value, where its own key only refers to that (`${dataset.network}`)."""
    group, _, name = error.key.rpartition(".")
    node: Any = OmegaConf.select(cfg, group) if group else None
    if not OmegaConf.is_dict(node) or name not in node or not OmegaConf.is_interpolation(node, name):
        return error
    tree: Any = OmegaConf.to_container(node, resolve=False)
    referred = re.fullmatch(r"\$\{([a-z_.]+)\}", str(tree[name]))
    return InputError(referred[1], error.value, error.allowed) if referred else error


def _require_publishable(prepared: PreparedRun) -> None:
    """Raise InputError where what a public tracker gets would tell more of private records than ε says."""
    session = prepared.session
    if session.policy.rng != SYSTEM:
        allowed = f"must be true unless rng={SYSTEM}: anyone who knows the seed can subtract the noise from the labels"
        raise InputError("tracking.private", False, allowed)
    if prepared.splits is not None and prepared.splits.undeclared_classes is not None:
        allowed = "must be declared where tracking.private=false, because else private labels decide what is sent"
        raise InputError("dataset.classes", None, allowed)
    if not np.isfinite(session.promise.epsilon):
        allowed = f"must be true: the labels of {session.policy.name} have no finite ε"
        raise InputError("tracking.private", False, allowed)


def build_tracker(cfg: DictConfig) -> Tracker | None:
    """Return the tracker; None for tracking=none."""
    wait_at_most(cfg.wait)
    tracker: Tracker | None = build(cfg, "tracking")
    return tracker


def tracked(
    tracker: Tracker | None, cfg: DictConfig, choices: Mapping[str, Any], folder: Path, sweep: Path | None, name: str
) -> TrackedRun:
    """Return the run in `folder` at its tracker, named by what was typed unless it is the job `name` of a sweep."""
    named = {f"{group}={choices[group]}": choices[group] for group in ("dataset", "aggregator")}
    typed = [override for override in read_overrides(folder) if override not in named]
    name = name or tracked_name([*named.values()], typed)
    experiment = experiment_of(cfg, choices)
    if sweep is not None and choices["dataset"] == "none":  # all votes of a sweep stand in its own experiment
        experiment = read_record(sweep).get("experiment", experiment)
    return TrackedRun(tracker, folder, experiment, name, run_params(cfg, choices), sweep)
