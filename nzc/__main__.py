"""The command line: compose, check, build, run; and what is said and left when that fails."""

from nzc import _stopped  # isort: skip  # before what takes long

import os
import shutil
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
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
from nzc.errors import InputError
from nzc.inquiry import Terms
from nzc.privacy import release
from nzc.queries import Rounds
from nzc.report import Report, show
from nzc.report.results import ERROR, LABELS, STUDENT, flat
from nzc.store import Store
from nzc.store.store import written
from nzc.sweep import closing, parent

#: What a run leaves is its owner's alone: most of it follows from votes.
PRIVATE = 0o077


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
            rng=cfg.rng,
        ),
        queries=cfg.queries,
        learner=build(cfg, "student"),
        training=build(cfg, "trainer"),
        store=Store(cfg.paths.store),
        names={group: choices[group] for group in ("dataset", "aggregator", "student")},
    )


def job(cfg: DictConfig, traceback: bool) -> float | list[float] | None:
    """One run; what it found of the `objective`. Of a wrong input nothing is left; in a sweep, its line, and the other
    jobs go on."""
    os.umask(PRIVATE)  # of a worker too, whoever started it
    settings = HydraConfig.get()
    folder, sweeping = Path(settings.runtime.output_dir), settings.mode == RunMode.MULTIRUN
    tracked = _Tracked(cfg, parent(settings.sweep.dir) if sweeping else None)
    try:
        report = _run(cfg, folder, sweeping, tracked)
        if sweeping and cfg.objective is not None:
            return _found(cfg.objective, report)
    except BaseException as error:
        tracked.fail(stopped=isinstance(error, KeyboardInterrupt))
        if traceback or not isinstance(error, Exception):
            raise
        code, line = complaint(error)
        if code == 1 and not config.shows_private(cfg):  # no words of ours: they may say what they failed at
            line = f"{type(error).__name__} (HYDRA_FULL_ERROR=1 shows where)"
        if not sweeping:
            if code == 2:
                _remove(folder)
                Store(cfg.paths.store).discard()
            _stop(code, line)
        print(f"nzc: {line}", file=sys.stderr)
        (folder / ERROR).write_text(f"{line}\n")
    return None


def _found(objective: Any, report: Report) -> float | list[float]:
    """The values of its keys in result.json."""
    keys, known = [objective] if isinstance(objective, str) else list(objective), dict(flat(asdict(report)))
    for key in keys:
        if not isinstance(known.get(key), int | float):
            numbers = ", ".join(name for name, value in known.items() if isinstance(value, int | float))
            raise InputError("objective", key, f"must be a number of result.json: {numbers}")
    values = [float(known[key]) for key in keys]
    return values[0] if isinstance(objective, str) else values


def _run(cfg: DictConfig, folder: Path, sweeping: bool, tracked: "_Tracked") -> Report:
    put_together = parts(cfg)
    tracked.tracker = build(cfg, "tracking")
    outcome = pipeline.run(put_together, tracked.open, tracked.draw)
    _write_labels(folder, outcome)
    _write_student(folder, outcome)
    outcome.report.write(folder)
    outcome.close()
    tracked.write(folder)
    if put_together.learner is not None and outcome.student is None:
        print("nzc: no label was released: there is no student, and no accuracy", file=sys.stderr)
    curves.write(folder, outcome.curves)
    if not sweeping if cfg.figures is None else cfg.figures:
        from nzc import figures  # matplotlib: nearly half a second

        figures.of_run(outcome, folder / figures.FOLDER)
    shown = outcome.report if config.shows_private(cfg) else outcome.report.public
    show(shown.line() if sweeping else shown.table())
    if not sweeping:
        show(f"[dim]{folder / 'result.json'}[/dim]")
    tracked.finish(folder, outcome)
    return outcome.report


class _Tracked:
    """The run as its tracker sees it: open while there is work, then closed as what became of it.

    Once it is open, a tracker that fails costs a line, never the run.
    """

    def __init__(self, cfg: DictConfig, parent: str | None) -> None:
        self.cfg, self.parent = cfg, parent
        self.tracker: Any = None
        self.run: str | None = None
        self.listens = self.unfinished = True
        self.lines = ["curve,step,value"]

    def open(self) -> None:
        if self.tracker is not None:
            choices = HydraConfig.get().runtime.choices
            name = f"{choices['aggregator']} · {choices['student']}"
            self.run = self.tracker.start(choices["dataset"], name, _flat(self.cfg), self.parent)

    def draw(self, whose: str, values: Mapping[str, float], step: int) -> None:
        """Points of curves: at once, as long as the tracker listens, and all of them into student.csv at the end."""
        self.lines += [f"{whose}/{name},{step},{value:.6g}" for name, value in values.items()]
        try:
            if self.run is not None and self.listens:
                self.tracker.draw(self.run, {f"{whose}/{key}": value for key, value in values.items()}, step)
        except Exception as error:  # nothing is lost: all points are kept here
            self.listens = False
            print(f"nzc: curves are no longer tracked ({error})", file=sys.stderr)

    def write(self, folder: Path) -> None:
        if len(self.lines) > 1:
            written(folder / "student.csv", ("\n".join(self.lines) + "\n").encode())

    def finish(self, folder: Path, outcome: pipeline.Outcome) -> None:
        try:
            if self.run is not None:
                self.tracker.finish(self.run, folder, outcome)
        except Exception as error:  # nothing is lost: result.json is whole
            print(f"nzc: the run could not be tracked ({error}); its result is in {folder}", file=sys.stderr)
        self.unfinished = False

    def fail(self, stopped: bool) -> None:
        """A job of a sweep fails in sight of the others, even one whose input was wrong."""
        if not self.unfinished:
            return
        with suppress(Exception):  # why the run ended is what must be said
            if self.run is None and self.parent is not None:
                self.tracker = self.tracker or build(self.cfg, "tracking")
                self.open()
            if self.run is not None:
                self.tracker.fail(self.run, stopped)


def _write_labels(folder: Path, outcome: pipeline.Outcome) -> None:
    lines = ["row,label", *(f"{row},{label}" for row, label in enumerate(outcome.released) if label >= 0)]
    written(folder / LABELS, ("\n".join(lines) + "\n").encode())


def _write_student(folder: Path, outcome: pipeline.Outcome) -> None:
    if outcome.student is None or outcome.example is None:
        return
    from nzc.students import export

    try:
        export.write(folder / STUDENT, outcome.student, outcome.example.x)
    except Exception as error:  # a network of one's own that torch.export does not take: the run is whole without
        print(f"nzc: the student could not be written ({' '.join(str(error).split())[:200]})", file=sys.stderr)


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
    os.umask(PRIVATE)
    config.register()
    pipeline.load.cache_clear()  # files may have changed since a process last was here
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a run that is told to end closes what it opened
    traceback = TRACEBACK  # goes with the task into the processes that launchers start

    @hydra.main(version_base="1.3", config_path=str(config.CONF), config_name="config")
    def task(cfg: DictConfig) -> float | list[float] | None:
        return job(cfg, traceback)

    sys.excepthook = sys.__excepthook__
    try:
        with closing():
            task()
    except KeyboardInterrupt:
        print(_stopped.LINE, file=sys.stderr)
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
