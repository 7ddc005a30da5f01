"""A sweep: its jobs, the check of all keys before the first one, its parent run in the tracker, and
its answer.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, Quote, QuotedString
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict

from nzc.app.build import KINDS, build, build_metrics
from nzc.app.config import experiment_of, shows_private
from nzc.app.errors import Stop, error_line, input_error, reported
from nzc.app.job import build_tracker
from nzc.app.keys import refuse_unknown_keys
from nzc.runs import layout
from nzc.runs.checks import forget_data
from nzc.runs.formatting import optional, show
from nzc.storage.files import OwnFolder, require_own
from nzc.sweeps.jobs import (
    JOBS,
    SweepRow,
    check_keys,
    header_of,
    is_seed,
    job_folders,
    name_of,
    spec_of,
    write_jobs,
)
from nzc.tracking import RECORD, tracked, tracked_name
from nzc.validation import InputError, in_a_line

if TYPE_CHECKING:
    from pandas import DataFrame

_SUBDIR = "hydra.sweep.subdir"
_SWEEP_FILES = (layout.SWEEP, JOBS, layout.TABLE, layout.TABLE_CSV, layout.PAGE)


@dataclass(frozen=True)
class SweepJob:
    """One job of a sweep: its row, and the overrides KEY=VALUE of the command line, the grid and
    the row.

    folder  its own, below that of the sweep
    """

    row: SweepRow
    overrides: list[str]
    folder: str = ""

    @property
    def launched(self) -> list[str]:
        """The overrides with which it is launched: with its folder, so that no process names it
        otherwise.
        """
        return [
            *self.overrides,
            f"{_SUBDIR}={QuotedString(self.folder, Quote.single).with_quotes()}",
        ]


class RunningSweep:
    """A sweep: its parent run is opened before its jobs, and its question answered after them."""

    current: ClassVar["RunningSweep | None"] = None  # the sweep that is under way in this process
    ended: ClassVar[Path | None] = None  # the folder of the last one that came to its end

    def __init__(self, config: DictConfig) -> None:
        self.config, self.folder = config, Path(config.hydra.sweep.dir)
        self.own = OwnFolder("hydra.sweep.dir", self.folder)

    def begin(self) -> None:
        """Check the keys of all jobs, and open the parent run."""
        forget_data()  # of an earlier command of this process
        config, used = self.config, (self.folder / layout.SWEEP).is_file()
        with reported(), ExitStack() as undo:  # Hydra would make a warning of an error
            undo.callback(self.own.undo)
            require_own("hydra.sweep.dir", self.folder)
            self.jobs, header, tracker = (
                _checked_jobs(config),
                header_of(config),
                build_tracker(config),
            )
            experiment = experiment_of(config, config.hydra.runtime.choices)
            if tracker is not None:
                tracker.check(experiment)
            self.own.take()
            name = tracked_name([name_of(config)], layout.as_typed(config.hydra.overrides.task))
            question = header.get("Question") or next(iter(header.values()), "")
            self.tracked = tracked(tracker, self.folder, experiment, name, question=question)
            self.tracked.__enter__()
            undo.pop_all()
        if used:
            layout.clear(
                self.folder, _SWEEP_FILES, [figure.name for figure in spec_of(config).figures]
            )
        OmegaConf.save(config, self.folder / layout.SWEEP)  # not every sweeper writes it
        if self.jobs:
            write_jobs(
                self.folder, [vars(job) | {"row": job.row.model_dump()} for job in self.jobs]
            )
        for folder in self.begun:  # an earlier sweep was here
            layout.write_error(folder, layout.NOT_STARTED)
        RunningSweep.current = self

    def end(self) -> None:
        """Answer the sweep, and close its parent run. Stop: jobs did not finish."""
        from nzc.sweeps.table import failure_lines

        RunningSweep.ended = self.folder.absolute()
        jobs = self.answer()
        failed = int(jobs["error"].notna().sum())
        last = f"{failed} of {len(jobs)} jobs did not finish; the others are whole"
        self.close(stop := Stop(2, *failure_lines(jobs), last) if failed else None)
        if stop is not None:
            raise stop

    @property
    def begun(self) -> list[Path]:
        """The folders of the jobs that have begun."""
        return [folder for folder in job_folders(self.folder).values() if folder.is_dir()]

    def answer(self) -> "DataFrame":
        """Write table, figures and page of the finished jobs, and return all jobs."""
        from nzc.sweeps.page import write_page
        from nzc.sweeps.table import Sweep, write_csv

        sweep = Sweep(self.folder)
        with optional("table"):
            (self.folder / layout.TABLE).write_text(sweep.table.markdown(), encoding="utf-8")
            write_csv(self.folder, sweep.jobs)
        if shows_private(self.config) and sys.stdout is not sys.stderr:  # nzc.sweep returns it
            show(sweep.table)
        with optional("figures"):
            for drawing in sweep.drawings if self.config.figures is not False else []:
                drawing.plot(self.folder)
                if drawing.joined:
                    print(f"nzc: {drawing.joined}", file=sys.stderr)
        with optional("page"):
            show(str(write_page(sweep)), "dim")
        return sweep.jobs

    def close(self, error: BaseException | None) -> None:
        """Close the parent run, and let others use the folder, which goes where no job has begun."""
        RunningSweep.current = None
        self.tracked.__exit__(None if error is None else type(error), error, None)
        if not (
            self.begun or (self.folder / RECORD).is_file()
        ):  # as with a row that cannot be composed
            layout.clear(self.folder, _SWEEP_FILES)
            self.own.undo()
        self.own.close()


def _checked_jobs(config: DictConfig) -> list[SweepJob]:
    """Return the jobs of the sweeper `rows`; another makes its own. Wrong keys end the command, a
    line for each.
    """
    refuse_unknown_keys(config)
    sweeper = config.hydra.runtime.choices["hydra/sweeper"]
    jobs = plan_jobs(config) if sweeper == "rows" else []
    configs, mistakes = compose_jobs(config, jobs) if jobs else ([config], [])
    if mistakes := [*mistakes, *check_keys(spec_of(config), configs)]:
        raise Stop(2, *mistakes)
    sweep: Any = OmegaConf.to_container(config.hydra.sweep, resolve=False)
    typed = sweep["subdir"]
    if not jobs and typed != "${hydra.job.num}":
        allowed = f"must be ${{hydra.job.num}} with hydra/sweeper={sweeper}, whose jobs are not known beforehand"
        raise InputError(_SUBDIR, typed, allowed)
    folders = _folders(config, typed, configs[: len(jobs)])
    return [replace(job, folder=folder) for job, folder in zip(jobs, folders, strict=True)]


def _folders(config: DictConfig, typed: str, configs: Sequence[DictConfig]) -> list[str]:
    """Return the folder of each job below that of the sweep, which `typed` names.

    InputError: two jobs have one folder, or it is not below the sweep's, or has files that nzc did
    not make.
    """
    jobs: dict[str, int] = {}
    for number, cfg in enumerate(configs):
        with open_dict(cfg):
            cfg.hydra.job.num = number
            cfg.hydra.job.id = str(number)
        HydraConfig.instance().set_config(cfg)  # for ${hydra:…}
        sweep, folder = cfg.hydra.sweep.dir, os.path.normpath(str(cfg.hydra.sweep.subdir))
        if sweep != config.hydra.sweep.dir:
            raise InputError(
                "hydra.sweep.dir", sweep, f"must be the same for all jobs; {_SUBDIR} may differ"
            )
        if Path(folder).is_absolute() or folder.split(os.sep)[0] in (os.curdir, os.pardir):
            raise InputError(
                _SUBDIR, typed, f"must name a folder below hydra.sweep.dir, not {folder}"
            )
        if folder in jobs:
            allowed = f"must name a folder for each job, but jobs {jobs[folder]} and {number} both have {folder}"
            raise InputError(_SUBDIR, typed, f"{allowed}: add ${{hydra.job.num}}")
        require_own(_SUBDIR, Path(sweep, folder), (layout.RECORDED, layout.ERROR))
        jobs[folder] = number
    return list(jobs)


@contextmanager
def answer_interrupted() -> Iterator[None]:
    """Answer an interrupted sweep with what is finished, and close its parent run. Hydra only
    reports good ends.
    """
    try:
        yield
    except BaseException as error:
        if (sweep := RunningSweep.current) is None:
            raise
        with suppress(Exception):
            if any((folder / layout.RESULT).is_file() for folder in sweep.begun):
                sweep.answer()
        sweep.close(error)
        with reported():
            raise


def expand_rows(config: DictConfig) -> list[SweepRow]:
    """Return the rows of a sweep file, each once for every combination of the values that it sets.

    `+sweep.only=TEXT` keeps the rows whose name contains TEXT.
    """
    spec = spec_of(config)
    rows = [point for at, row in enumerate(spec.rows) for point in _points(row, at)]
    kept = [row for row in rows if str(spec.only or "") in (row.name or "")]
    if rows and not kept:
        names = "; ".join(row.name or "" for row in rows)
        raise InputError("sweep.only", spec.only, f"must be in the name of a row: {names}")
    return kept


def plan_jobs(config: DictConfig) -> list[SweepJob]:
    """Return the jobs of the sweeper `rows`: every row with every point of the grid.

    The grid is that of the sweep file, `hydra.sweeper.params`, and of the command line. A row's
    value of a key replaces the grid's.
    """
    parser = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())
    typed, params = list(config.hydra.overrides.task), config.hydra.sweeper.get("params") or {}
    grid = _values(
        parser.parse_overrides([*(f"{key}={value}" for key, value in params.items()), *typed])
    )
    jobs = list[SweepJob]()
    for point, row in product(product(*grid.values()), expand_rows(config) or [SweepRow()]):
        taken = {key_of(text) for text in row.set}
        job = SweepJob(row, [*(text for text in point if key_of(text) not in taken), *row.set])
        jobs += (
            [job] if job not in jobs else []
        )  # the row's value of a key stands for all values of the grid
    return jobs


def compose_jobs(
    config: DictConfig, jobs: Sequence[SweepJob]
) -> tuple[list[DictConfig], list[InputError]]:
    """Return the configuration of each job that can be composed, and the mistakes in the keys of
    the others.
    """
    loader, composed = GlobalHydra.instance().config_loader(), []
    mistakes: dict[object, tuple[InputError, dict[str, None]]] = {}  # with the names of their rows
    for job in jobs:
        try:
            cfg = loader.load_sweep_config(config, list(job.overrides))
            refuse_unknown_keys(cfg)
            added = {text.lstrip("+").partition(".")[0] for text in job.overrides if text[0] == "+"}
            for group in [group for group in KINDS if group in added]:
                build(cfg, group)  # composition accepts any key after +
            composed.append(cfg)
            build_metrics(cfg)
        except Exception as error:  # Hydra's, OmegaConf's, or an InputError
            wrong = input_error(error, job.overrides)
            wrong = wrong or InputError("overrides", " ".join(job.overrides), error_line(error)[1])
            mistakes.setdefault((wrong.key, wrong.allowed), (wrong, {}))[1].update(
                {job.row.name or "": None}
            )
    named = [(wrong, ", ".join(filter(None, names))) for wrong, names in mistakes.values()]
    return composed, [
        InputError(wrong.key, wrong.value, wrong.allowed + f" (row {of})" * bool(of))
        for wrong, of in named
    ]


def _points(row: SweepRow, at: int) -> list[SweepRow]:
    """Return a row for every combination of the values that it sets, named by its values but the
    seed.
    """
    try:
        overrides = OverridesParser.create().parse_overrides(row.set)
    except HydraException as error:
        raise InputError(
            f"sweep.rows.{at}.set", row.set, f"must read key=value ({in_a_line(error)})"
        ) from error
    swept = [override.get_key_element() for override in overrides if override.is_sweep_override()]
    points = []
    for point in product(*_values(overrides).values()):
        own = [text for text in point if key_of(text) in swept and not is_seed(text)]
        points.append(
            SweepRow(name=", ".join(filter(None, [row.name, *own])), set=[*point], paper=row.paper)
        )
    return points


def _values(overrides: Sequence[Override]) -> dict[str, list[str]]:
    """Return the values of each key, as KEY=VALUE; the last override of a key counts."""
    values: dict[str, list[str]] = {}
    for override in overrides:
        key = override.get_key_element()
        if not override.is_sweep_override():
            each = [override.get_value_element_as_str()]
        elif override.is_discrete_sweep():
            each = [str(value) for value in override.sweep_string_iterator()]
        else:
            raise InputError(
                key, override.value(), "must list its values; a search needs hydra/sweeper=optuna"
            )
        values[key] = [f"{key}={value}" for value in each]
    return values


def key_of(override: str) -> str:
    """Return KEY of KEY=VALUE."""
    return override.partition("=")[0]
