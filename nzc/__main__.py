"""The command line: compose, check, build, run; and what is said and left when that fails."""

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import MissingConfigException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from nzc import config, curves, pipeline
from nzc.complaints import TRACEBACK, complaint
from nzc.config import build
from nzc.inquiry import Terms
from nzc.privacy import release
from nzc.queries import Rounds
from nzc.report import show
from nzc.report.results import ERROR
from nzc.store import Store
from nzc.sweep import parent


def parts(cfg: DictConfig) -> pipeline.Parts:
    """Everything that a run needs, put together and checked."""
    config.check(cfg)
    choices = HydraConfig.get().runtime.choices
    return pipeline.Parts(
        dataset=build(cfg, "dataset"),
        teachers=build(cfg, "teachers"),
        terms=Terms(
            aggregator=build(cfg, "aggregator"),
            rounds=Rounds(cfg.query_choice, list(cfg.rounds) if OmegaConf.is_list(cfg.rounds) else cfg.rounds),
            seed=cfg.seed,
            delta=cfg.delta,
            budget=cfg.budget.epsilon,
            plan=partial(release.plan, order=cfg.sanitise.order, beta=cfg.sanitise.beta),
            audit_trials=cfg.audit_trials if cfg.audit else None,
            name=choices["aggregator"],
        ),
        queries=cfg.queries,
        learner=build(cfg, "student"),
        training=build(cfg, "trainer"),
        store=Store(cfg.paths.store),
        names={group: choices[group] for group in ("dataset", "aggregator", "student")},
    )


def job(cfg: DictConfig) -> None:
    """One run. Of a wrong input nothing is left; in a sweep, its line, and the other jobs go on."""
    settings = HydraConfig.get()
    folder, sweeping = Path(settings.runtime.output_dir), settings.mode == RunMode.MULTIRUN
    try:
        _run(cfg, folder, settings.sweep.dir if sweeping else None)
    except Exception as error:
        if TRACEBACK:
            raise
        code, line = complaint(error)
        if not sweeping:
            if code == 2:
                _remove(folder)
                Store(cfg.paths.store).discard()
            _stop(code, line)
        print(f"nzc: {line}", file=sys.stderr)
        (folder / ERROR).write_text(f"{line}\n")


def _run(cfg: DictConfig, folder: Path, sweep_dir: str | None) -> None:
    put_together = parts(cfg)
    tracker = build(cfg, "tracking")
    run: list[str] = []

    def ready() -> None:
        if tracker is not None:
            names = put_together.names
            label = f"{names['aggregator']} · {names['student']}"
            run.append(tracker.start(names["dataset"], label, _flat(cfg), parent(sweep_dir)))

    drawn = _Drawn(tracker, run)
    try:
        outcome = pipeline.run(put_together, ready, drawn)
    except BaseException as error:
        for name in run:
            tracker.fail(name, stopped=isinstance(error, KeyboardInterrupt))
        raise
    outcome.report.write(folder)
    _write_labels(folder, outcome)
    drawn.write(folder)
    if put_together.learner is not None and outcome.student is None:
        print("nzc: no label was released: there is no student, and no accuracy", file=sys.stderr)
    curves.write(folder, outcome.curves)
    if sweep_dir is None if cfg.figures is None else cfg.figures:
        from nzc import figures  # matplotlib: nearly half a second

        figures.of_run(outcome, folder / figures.FOLDER)
    show(outcome.report.table() if sweep_dir is None else outcome.report.line())
    for name in run:
        try:
            tracker.finish(name, folder, outcome)
        except Exception as error:  # nothing is lost: result.json is whole
            print(f"nzc: the run could not be tracked ({error}); its result is in {folder}", file=sys.stderr)
    if sweep_dir is None:
        show(f"[dim]{folder / 'result.json'}[/dim]")


class _Drawn:
    """Points of curves: to the tracker at once, as long as it listens, and into student.csv at the end."""

    def __init__(self, tracker: Any, run: list[str]) -> None:
        self.tracker, self.run = tracker, run
        self.lines = ["curve,step,value"]

    def __call__(self, whose: str, values: Mapping[str, float], step: int) -> None:
        self.lines += [f"{whose}/{name},{step},{value:.6g}" for name, value in values.items()]
        try:
            for name in self.run if self.tracker is not None else []:
                self.tracker.draw(name, {f"{whose}/{key}": value for key, value in values.items()}, step)
        except Exception as error:  # nothing is lost: all points are kept here
            self.tracker = None
            print(f"nzc: curves are no longer tracked ({error})", file=sys.stderr)

    def write(self, folder: Path) -> None:
        if len(self.lines) > 1:
            (folder / "student.csv").write_text("\n".join(self.lines) + "\n")


def _write_labels(folder: Path, outcome: pipeline.Outcome) -> None:
    lines = ["row,label", *(f"{row},{label}" for row, label in enumerate(outcome.released) if label >= 0)]
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")


def _flat(cfg: DictConfig) -> dict[str, Any]:
    """The composed configuration as flat keys, less what only puts objects together."""
    flat: dict[str, Any] = {}

    def walk(prefix: str, node: Any) -> None:
        if isinstance(node, dict):
            for key, value in node.items():
                walk(f"{prefix}.{key}" if prefix else str(key), value)
        elif not prefix.endswith("_target_"):
            flat[prefix] = node

    tree: Any = OmegaConf.to_container(cfg, resolve=True)
    tree.pop("sweep")
    tree["aggregator"].pop("mechanism")
    walk("", tree)
    choices = HydraConfig.get().runtime.choices
    return {group: choices[group] for group in ("dataset", "teachers", "aggregator", "student")} | flat


def _remove(folder: Path) -> None:
    """Take back the run's folder, and the folders above it that it leaves empty."""
    shutil.rmtree(folder, ignore_errors=True)
    for above in list(folder.parents)[:2]:
        if above != Path.cwd() and above.is_dir() and not any(above.iterdir()):
            above.rmdir()


def main() -> None:
    """`nzc`: exit code 0, 1 for a failure while running, 2 for wrong input."""
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises, and what is said is said here
    config.register()
    task: Callable[[], None] = hydra.main(version_base="1.3", config_path=str(config.CONF), config_name="config")(job)
    try:
        task()
    except KeyboardInterrupt:
        print("nzc: stopped; what was finished is stored, and the same command goes on from there", file=sys.stderr)
        sys.exit(130)
    except MissingConfigException as error:
        _stop(*complaint(error))
    except OSError as error:  # Hydra makes the run's folder before the job begins
        if TRACEBACK or error.filename is None:
            raise
        _stop(2, f"paths.output={error.filename}: must be a folder that can be written ({error.strerror})")
    except Exception as error:
        if TRACEBACK:
            raise
        _stop(*complaint(error))


def _stop(code: int, line: str) -> NoReturn:
    print(f"nzc: {line}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
