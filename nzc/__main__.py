"""The command line: compose, check, build, run; and what is said and left when that fails."""

from nzc import _stopped  # isort: skip  # before what takes long

import os
import signal
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import hydra
import numpy as np
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import MissingConfigException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from nzc import config, curves, pipeline
from nzc._files import written
from nzc._undo import undo
from nzc.aggregators import Aggregator
from nzc.complaints import TRACEBACK, complaint, stop
from nzc.config import build
from nzc.datasets import Dataset
from nzc.errors import GROUPS, InputError, in_a_line
from nzc.inquiry import Terms
from nzc.privacy import sanitised
from nzc.queries import Rounds
from nzc.question import rows_of
from nzc.report import Report, page, show
from nzc.report.folder import ERROR, FIGURES, LABELS, PROGRESS, RESULT, STUDENT, called, clear, flat
from nzc.store import Store
from nzc.students import Learner
from nzc.sweep import closing
from nzc.teachers import Teachers
from nzc.tracking import Tracker
from nzc.tracking.tracked import Tracked
from nzc.training import Training

#: What a run leaves is its owner's alone: most of it follows from votes.
PRIVATE = 0o077
#: What it leaves, beside figures.
_LEFT = (RESULT, ERROR, LABELS, STUDENT, PROGRESS, curves.FILE, page.FILE)


def parts(cfg: DictConfig) -> pipeline.Parts:
    """Everything that a run needs, put together and checked."""
    config.check(cfg)
    choices = HydraConfig.get().runtime.choices
    return pipeline.Parts(
        dataset=build(cfg, "dataset", Dataset),
        teachers=build(cfg, "teachers", Teachers),
        terms=Terms(
            aggregator=build(cfg, "aggregator", Aggregator),
            rounds=Rounds(cfg.query_choice, list(cfg.rounds) if OmegaConf.is_list(cfg.rounds) else cfg.rounds),
            seed=cfg.seed,
            delta=cfg.delta,
            budget=cfg.budget.epsilon,
            plan=partial(sanitised.plan, order=cfg.sanitise.order, beta=cfg.sanitise.beta),
            audit_trials=cfg.audit_trials if cfg.audit else None,
            name=choices["aggregator"],
            rng=cfg.rng,
        ),
        queries=cfg.queries,
        learner=build(cfg, "student", Learner),
        training=build(cfg, "trainer", Training),
        store=Store(cfg.paths.store),
        names={group: choices[group] for group in ("dataset", "aggregator", "student")},
    )


def job(cfg: DictConfig, traceback: bool) -> float | list[float] | None:
    """One run; what it found of the `objective`.

    A wrong input leaves nothing behind; in a sweep it leaves the line that says so, and the other jobs go on.
    """
    os.umask(PRIVATE)  # of a worker too, whoever started it
    settings = HydraConfig.get()
    folder, sweeping = Path(settings.runtime.output_dir), settings.mode == RunMode.MULTIRUN
    tracked = Tracked(cfg, folder, Path(settings.sweep.dir) if sweeping else None)
    try:
        report = _run(cfg, folder, sweeping, tracked)
        if report is None:
            return None
        if sweeping and cfg.objective is not None:
            return _found(cfg.objective, report)
    except BaseException as error:
        tracked.fail(stopped=isinstance(error, KeyboardInterrupt))
        if traceback or not isinstance(error, Exception):
            raise
        code, line = complaint(error)
        if code == 1 and not config.shows_private(cfg):  # not its message, which may quote what it failed at
            line = f"{type(error).__name__} (HYDRA_FULL_ERROR=1 shows where)"
        if not sweeping:
            if code == 2:
                undo(folder, Path(settings.runtime.cwd))
                Store(cfg.paths.store).discard()
            stop(code, line)
        print(f"nzc: {line}", file=sys.stderr)
        (folder / ERROR).write_text(f"{line}\n")
    return None


def _found(objective: Any, report: Report) -> float | list[float]:
    """The values in result.json of the keys that `objective` names."""
    keys, known = [objective] if isinstance(objective, str) else list(objective), dict(flat(asdict(report)))
    for key in keys:
        if not isinstance(known.get(key), int | float):
            numbers = ", ".join(name for name, value in known.items() if isinstance(value, int | float))
            raise InputError("objective", key, f"must be a number of result.json: {numbers}")
    values = [float(known[key]) for key in keys]
    return values[0] if isinstance(objective, str) else values


def _run(cfg: DictConfig, folder: Path, sweeping: bool, tracked: Tracked) -> Report | None:
    """The report; None on a node that only helps the first."""
    put_together = parts(cfg)
    if put_together.training.helps:
        pipeline.help(put_together)
        if not sweeping:
            undo(folder, Path(HydraConfig.get().runtime.cwd))
        return None
    tracked.tracker = build(cfg, "tracking", Tracker)

    def begin() -> None:
        tracked.open()
        clear(folder, _LEFT, page.DRAWN)

    outcome = pipeline.run(put_together, begin, tracked.draw)
    _write_labels(folder, outcome)
    _write_student(folder, outcome)
    outcome.report.write(folder)
    outcome.close()
    tracked.write()
    if put_together.learner is not None and outcome.student is None:
        print("nzc: no label was released: there is no student, and no accuracy", file=sys.stderr)
    curves.write(folder, outcome.curves)
    drawn = not sweeping if cfg.figures is None else cfg.figures
    if drawn:
        from nzc import figures  # matplotlib: nearly half a second

        figures.of_run(outcome, folder / FIGURES)
    shown = outcome.report if config.shows_private(cfg) else outcome.report.public
    if sweeping:
        settings = HydraConfig.get()
        name = called(Path(settings.sweep.dir), rows_of(cfg), settings.job.num, settings.overrides.task)
        show(shown.line(name))
    else:
        show(shown.table())
        show(str(folder / RESULT), "dim")
    tracked.finish()
    return outcome.report


def _write_labels(folder: Path, outcome: pipeline.Outcome) -> None:
    rows = np.flatnonzero(outcome.released >= 0)
    columns = {"row": rows, "label": outcome.released[rows]}
    if outcome.origin is not None:
        columns["origin"] = outcome.origin[rows]
    lines = [",".join(map(str, line)) for line in (columns, *zip(*columns.values(), strict=True))]
    written(folder / LABELS, ("\n".join(lines) + "\n").encode())


def _write_student(folder: Path, outcome: pipeline.Outcome) -> None:
    if outcome.student is None or outcome.example is None:
        return
    from nzc.students import export

    try:
        export.write(folder / STUDENT, outcome.student, outcome.example.x, outcome.standard)
    except Exception as error:  # torch.export does not take every network: the run is whole without
        print(f"nzc: the student could not be written ({in_a_line(error, 200)})", file=sys.stderr)


def main() -> None:
    """`nzc`: exit code 0, 1 for a failure while running, 2 for wrong input."""
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises, and what is said is said here
    os.umask(PRIVATE)
    config.register()
    pipeline.load.cache_clear()  # files may have changed since a process last was here
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a run that is told to end closes what it opened
    began = False
    traceback = TRACEBACK  # goes with the task into the processes that launchers start

    @hydra.main(version_base="1.3", config_path=str(config.CONF), config_name="config")
    def task(cfg: DictConfig) -> float | list[float] | None:
        nonlocal began
        began = True
        return job(cfg, traceback)

    sys.excepthook = sys.__excepthook__
    try:
        _check_typed()
        with closing():
            task()
    except KeyboardInterrupt:
        print(_stopped.LINE, file=sys.stderr)
        sys.exit(130)
    except MissingConfigException as error:
        stop(*complaint(error))
    except Exception as error:
        if TRACEBACK:
            raise
        if isinstance(error, OSError) and error.filename is not None:  # Hydra makes the run's folder before the job
            stop(2, f"paths.output={error.filename}: must be a folder that can be written ({error.strerror})")
        code, line = complaint(error)
        stop(code if began else 2, line)  # before a job there is nothing but input


def _check_typed() -> None:
    """What Hydra complains of in a dozen lines, or in one that does not say of what."""
    parser = get_args_parser()

    def complain(message: str) -> NoReturn:
        raise InputError("nzc", " ".join(sys.argv[1:]), f"{message} (flags stand before or after all KEY=VALUE)")

    parser.error = complain  # type: ignore[method-assign]
    for each in OverridesParser.create().parse_overrides(parser.parse_args().overrides):
        if (group := each.key_or_group) in GROUPS and isinstance(value := each.value(), int | float | dict | None):
            typed = "null" if value is None else value  # also of ~GROUP
            raise InputError(group, typed, f"must be one of {config.options(f'conf/{group}')}")


if __name__ == "__main__":
    main()
