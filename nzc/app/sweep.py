"""A sweep: the check of all keys before its first job, its run in the tracker, and its answer."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from itertools import product
from operator import attrgetter
from pathlib import Path
from typing import Any

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
from nzc.data.cache import forget_data
from nzc.runs import layout
from nzc.runs.formatting import optional, show
from nzc.storage.files import OwnFolder, require_own
from nzc.sweeps.jobs import JOBS, is_seed, job_folders, write_jobs
from nzc.sweeps.spec import SweepRow, check_keys, name_of, spec_of
from nzc.tracking import tracked, tracked_name
from nzc.validation import InputError, in_a_line

_DIR = "hydra.sweep.dir"
_SUBDIR = "hydra.sweep.subdir"
_SWEEP_FILES = (layout.SWEEP, JOBS, layout.TABLE, layout.TABLE_CSV, layout.PAGE)


@dataclass(frozen=True)
class SweepJob:
    """One job of a sweep: its row, and the overrides KEY=VALUE of command line, grid and row.

    folder  its own, below that of the sweep
    """

    row: SweepRow
    overrides: list[str]
    folder: str = ""

    def in_folder(self, folder: str) -> "SweepJob":
        return replace(self, folder=folder)

    def as_dict(self) -> dict[str, Any]:
        """Return the job as it is written."""
        return {**asdict(self), "row": self.row.model_dump()}

    def launched(self) -> list[str]:
        """The overrides with which it is launched.

        They have its folder, so that no process names it otherwise.
        """
        folder = QuotedString(self.folder, Quote.single).with_quotes()
        return [*self.overrides, f"{_SUBDIR}={folder}"]


class JobsFailed(Stop):
    """The end of a sweep, in `folder`, of which some jobs have no result."""

    def __init__(self, folder: Path, *errors: object) -> None:
        super().__init__(2, *errors)
        self.folder = folder


@contextmanager
def running_sweep(config: DictConfig) -> Iterator[list[list[str]]]:
    """Check a sweep, run it in this context, and answer its question, also where it is stopped.

    Yield the overrides of each job of the sweeper `rows`; other sweepers make their own jobs.
    JobsFailed: some jobs have no result.
    """
    folder = Path(config.hydra.sweep.dir)
    own = OwnFolder(_DIR, folder)
    forget_data()  # of an earlier command of this process
    with reported():
        require_own(_DIR, folder)
        spec = spec_of(config)
        jobs = _checked_jobs(config)
        tracker = build_tracker(config)
        experiment = experiment_of(config, config.hydra.runtime.choices)
        if tracker is not None:
            tracker.check(experiment)
        own.take()
        name = tracked_name([name_of(config)], layout.as_typed(config.hydra.overrides.task))
        try:
            with tracked(tracker, folder, experiment, name, question=spec.question):
                _write_question(config, folder, jobs)
                try:
                    yield list(map(SweepJob.launched, jobs))
                except BaseException:
                    with suppress(Exception, Stop):
                        if any((job / layout.RESULT).is_file() for job in _begun(folder)):
                            _answer(config, folder)
                    raise
                _answer(config, folder)
        finally:
            # A job may not have begun, as with a row that cannot be composed.
            if not (_begun(folder) or (folder / layout.RECORD).is_file()):
                layout.clear(folder, _SWEEP_FILES)
                own.undo()
            own.close()


def _begun(folder: Path) -> list[Path]:
    """Return the folders of the jobs that have begun."""
    return list(filter(Path.is_dir, job_folders(folder).values()))


def _write_question(config: DictConfig, folder: Path, jobs: Sequence[SweepJob]) -> None:
    """Write what the sweep asks and its jobs, instead of those of an earlier sweep."""
    if (folder / layout.SWEEP).is_file():
        layout.clear(folder, _SWEEP_FILES, map(attrgetter("name"), spec_of(config).figures))
    OmegaConf.save(config, folder / layout.SWEEP)  # not every sweeper writes it
    if jobs:
        write_jobs(folder, map(SweepJob.as_dict, jobs))
    for job in _begun(folder):
        layout.write_error(job, layout.NOT_STARTED)


def _answer(config: DictConfig, folder: Path) -> None:
    """Write table, figures and page of the finished jobs. JobsFailed: some have no result."""
    from nzc.sweeps.figures import plot  # imports matplotlib
    from nzc.sweeps.page import write_page
    from nzc.sweeps.table import Sweep, write_csv

    sweep = Sweep(folder)
    with optional("table"):
        text = f"# {sweep.table.title}\n\n{sweep.table.markdown()}"
        (folder / layout.TABLE).write_text(text, encoding="utf-8")
        write_csv(folder, sweep.jobs)
    if shows_private(config) and sys.stdout is not sys.stderr:  # nzc.sweep returns it
        show(sweep.table)
    with optional("figures"):
        if config.figures is not False and len(sweep.done):
            for figure in sweep.spec.figures:
                plot(figure, sweep.done, folder)
    with optional("page"):
        show(str(write_page(sweep)), "dim")
    failed = len(sweep.jobs) - len(sweep.done)
    if failed:
        last = f"{failed} of {len(sweep.jobs)} jobs did not finish; the others are whole"
        raise JobsFailed(folder.absolute(), *sweep.table.failures, last)


def _checked_jobs(config: DictConfig) -> list[SweepJob]:
    """Return the jobs of the sweeper `rows`; another makes its own.

    Stop: keys are wrong, with a line for each.
    """
    refuse_unknown_keys(config)
    sweeper = config.hydra.runtime.choices["hydra/sweeper"]
    jobs: list[SweepJob] = []
    configs = [config]
    mistakes: list[InputError] = []
    if sweeper == "rows":
        jobs = plan_jobs(config)
        configs, mistakes = compose_jobs(config, jobs)
    mistakes += check_keys(spec_of(config), configs)
    if mistakes:
        raise Stop(2, *mistakes)
    sweep: Any = OmegaConf.to_container(config.hydra.sweep, resolve=False)
    typed = sweep["subdir"]
    if not jobs:
        if typed != "${hydra.job.num}":
            reason = f"with hydra/sweeper={sweeper}, whose jobs are not known beforehand"
            raise InputError(_SUBDIR, typed, f"must be ${{hydra.job.num}} {reason}")
        return []
    return list(map(SweepJob.in_folder, jobs, _folders(config, typed, configs)))


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
        sweep = cfg.hydra.sweep.dir
        folder = os.path.normpath(str(cfg.hydra.sweep.subdir))
        if sweep != config.hydra.sweep.dir:
            raise InputError(_DIR, sweep, f"must be the same for all jobs; {_SUBDIR} may differ")
        if Path(folder).is_absolute() or folder.split(os.sep)[0] in (os.curdir, os.pardir):
            raise InputError(_SUBDIR, typed, f"must name a folder below {_DIR}, not {folder}")
        if folder in jobs:
            both = f"jobs {jobs[folder]} and {number} both have {folder}: add ${{hydra.job.num}}"
            raise InputError(_SUBDIR, typed, f"must name a folder for each job, but {both}")
        require_own(_SUBDIR, Path(sweep, folder), (layout.RECORDED, layout.ERROR))
        jobs[folder] = number
    return list(jobs)


def expand_rows(config: DictConfig) -> list[SweepRow]:
    """Return the rows of a sweep file, each once for every combination of the values that it sets.

    `+sweep.only=TEXT` keeps the rows whose name contains TEXT.
    """
    spec = spec_of(config)
    rows = []
    titles = []
    for number, row in enumerate(spec.rows):
        for point in _points(row, number):
            titles.append(point.title)
            if str(spec.only or "") in point.title:
                rows.append(point)
    if titles and not rows:
        allowed = f"must be in the name of a row: {'; '.join(titles)}"
        raise InputError("sweep.only", spec.only, allowed)
    return rows


def plan_jobs(config: DictConfig) -> list[SweepJob]:
    """Return the jobs of the sweeper `rows`: every row with every point of the grid.

    The grid is that of the sweep file, `hydra.sweeper.params`, and of the command line. A row's
    value of a key replaces the grid's.
    """
    parser = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())
    params = config.hydra.sweeper.get("params") or {}
    typed = []
    for key, value in params.items():
        typed.append(f"{key}={value}")
    grid = _values(parser.parse_overrides([*typed, *config.hydra.overrides.task]))
    jobs: list[SweepJob] = []
    for point, row in product(product(*grid.values()), expand_rows(config) or [SweepRow()]):
        set_keys = set(map(key_of, row.set))
        outside = [override for override in point if key_of(override) not in set_keys]
        job = SweepJob(row, [*outside, *row.set])
        if job not in jobs:  # the row's value of a key stands for all values of the grid
            jobs.append(job)
    return jobs


def compose_jobs(
    config: DictConfig, jobs: Sequence[SweepJob]
) -> tuple[list[DictConfig], list[InputError]]:
    """Return the configuration of each job that can be composed, and the mistakes of the others."""
    loader = GlobalHydra.instance().config_loader()
    composed = []
    mistakes: dict[tuple[str, str], InputError] = {}
    rows: dict[tuple[str, str], list[str]] = {}  # those that have the mistake
    for job in jobs:
        try:
            cfg = loader.load_sweep_config(config, list(job.overrides))
            refuse_unknown_keys(cfg)
            _build_added(cfg, job.overrides)
            composed.append(cfg)
            build_metrics(cfg)
        except Exception as error:  # Hydra's, OmegaConf's, or an InputError
            wrong = input_error(error, job.overrides)
            if wrong is None:
                wrong = InputError("overrides", " ".join(job.overrides), error_line(error)[1])
            mistake = (wrong.key, wrong.allowed)
            mistakes.setdefault(mistake, wrong)
            rows.setdefault(mistake, []).append(job.row.title)
    errors = []
    for mistake, wrong in mistakes.items():
        names = ", ".join(filter(None, dict.fromkeys(rows[mistake])))
        if names:
            wrong = InputError(wrong.key, wrong.value, f"{wrong.allowed} (row {names})")
        errors.append(wrong)
    return composed, errors


def _build_added(cfg: DictConfig, overrides: Sequence[str]) -> None:
    """Build the groups below which a key was added: composition accepts any key after +."""
    added = {text.lstrip("+").partition(".")[0] for text in overrides if text.startswith("+")}
    for group in KINDS:
        if group in added:
            build(cfg, group)


def _points(row: SweepRow, number: int) -> list[SweepRow]:
    """Return a row for every combination of the values that it sets."""
    try:
        overrides = OverridesParser.create().parse_overrides(row.set)
    except HydraException as error:
        allowed = f"must read key=value ({in_a_line(error)})"
        raise InputError(f"sweep.rows.{number}.set", row.set, allowed) from error
    swept = [override.get_key_element() for override in overrides if override.is_sweep_override()]
    points = []
    for values in product(*_values(overrides).values()):
        point = [text for text in values if key_of(text) in swept and not is_seed(text)]
        points.append(row.model_copy(update={"set": list(values), "point": point}))
    return points


def _values(overrides: Sequence[Override]) -> dict[str, list[str]]:
    """Return the values of each key, as KEY=VALUE; the last override of a key counts."""
    values: dict[str, list[str]] = {}
    for override in overrides:
        key = override.get_key_element()
        if not override.is_sweep_override():
            texts = [override.get_value_element_as_str()]
        elif override.is_discrete_sweep():
            texts = list(map(str, override.sweep_string_iterator()))
        else:
            allowed = "must list its values; a search needs hydra/sweeper=optuna"
            raise InputError(key, override.value(), allowed)
        values[key] = []
        for text in texts:
            values[key].append(f"{key}={text}")
    return values


def key_of(override: str) -> str:
    """Return KEY of KEY=VALUE."""
    return override.partition("=")[0]
