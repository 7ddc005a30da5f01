"""A sweep: the check of all keys before its first job, its run in the tracker, and its answer."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from operator import attrgetter
from os.path import relpath
from pathlib import Path
from typing import Any

from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict

from nzc.app.build import build, build_metrics, plain
from nzc.app.config import better_recipe, experiment_of, shows_private
from nzc.app.errors import Stop, error_line, input_error, reported
from nzc.app.job import build_tracker, show_view
from nzc.app.keys import refuse_unknown_keys
from nzc.app.overrides import telling
from nzc.data import DataSplits
from nzc.data.cache import forget_data
from nzc.runs import layout
from nzc.runs.formatting import optional, show
from nzc.saying import say
from nzc.storage.files import OwnFolder, require_own
from nzc.sweeps.jobs import JOBS, is_seed, job_folders, write_jobs
from nzc.sweeps.spec import SweepRow, check_keys, name_of, spec_of
from nzc.tracking import tracked
from nzc.validation import InputError, in_a_line, within

_DIR = "hydra.sweep.dir"
_SWEEP_FILES = (layout.SWEEP, JOBS, layout.TABLE, layout.TABLE_CSV, layout.PAGE)


@dataclass(frozen=True)
class SweepJob:
    """One job of a sweep: its row, and the overrides KEY=VALUE of command line, grid and row.

    folder  relative to that of the sweep
    """

    row: SweepRow
    overrides: list[str]
    folder: str = ""


class JobsFailed(Stop):
    """The end of a sweep, in `folder`, of which some jobs have no result."""

    def __init__(self, folder: Path, *errors: object) -> None:
        super().__init__(2, *errors)
        self.folder = folder


@contextmanager
def running_sweep(config: DictConfig) -> Iterator[Sequence[Any]]:
    """Check a sweep, run it in this context, and answer its question, also where it is stopped.

    Yield what the sweeper takes: `rows` the overrides of each job, others those of the sweep.
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
        if spec.time:
            say(f"this sweep takes time: {spec.time}")
        name = layout.short_name(layout.as_typed(config.hydra.overrides.task), name_of(config))
        run = tracked(tracker, folder, experiment, name, question=spec.question)
        with ExitStack() as ends, closing(own), run:
            ends.callback(show_view, folder)
            _write_question(config, folder, jobs)
            try:
                yield [job.overrides for job in jobs] or config.hydra.overrides.task
            except BaseException:
                with suppress(Exception, Stop):
                    if any((job / layout.RESULT).is_file() for job in job_folders(folder)):
                        _answer(config, folder)
                raise
            _answer(config, folder)


def _write_question(config: DictConfig, folder: Path, jobs: Sequence[SweepJob]) -> None:
    """Write what the sweep asks and its jobs, instead of those of an earlier sweep."""
    if (folder / layout.SWEEP).is_file():
        layout.clear(folder, _SWEEP_FILES, map(attrgetter("name"), spec_of(config).figures))
    OmegaConf.save(config, folder / layout.SWEEP)  # not every sweeper writes it
    if jobs:
        write_jobs(folder, [vars(job) | {"row": job.row.model_dump()} for job in jobs])
    for begun in filter(Path.is_dir, job_folders(folder)):
        layout.write_error(begun, layout.NOT_STARTED)


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
        show(str(write_page(sweep).absolute()), "dim")
    failed = len(sweep.jobs) - len(sweep.done)
    if failed:
        raise JobsFailed(
            folder.absolute(),
            *sweep.table.failures,
            f"{failed} of {len(sweep.jobs)} jobs did not finish; the others are whole",
        )


def _checked_jobs(config: DictConfig) -> list[SweepJob]:
    """Return the jobs of the sweeper `rows`; another makes its own.

    Stop: keys are wrong, with a line for each. InputError: a file or a folder is.
    """
    refuse_unknown_keys(config)
    jobs: list[SweepJob] = []
    mistakes: list[InputError] = []
    if config.hydra.runtime.choices["hydra/sweeper"] in ("rows", "basic"):  # see hydra_plugins.nzc
        jobs, configs, mistakes = compose_jobs(config, plan_jobs(config))
    else:
        config.hydra.overrides.task += better_recipe(config)
        configs = [deepcopy(config), deepcopy(config)]  # its jobs differ in their numbers at least
    mistakes += check_keys(spec_of(config), configs)
    if mistakes:
        raise Stop(2, *mistakes)
    for cfg in {str([plain(cfg.dataset), plain(cfg.teachers)]): cfg for cfg in configs}.values():
        _check_files(cfg)
    folders = _own_folders(config, configs)
    return [replace(job, folder=folder) for job, folder in zip(jobs, folders, strict=False)]


def _check_files(cfg: DictConfig) -> None:
    """Raise InputError where a file of a job's dataset or votes is missing or damaged.

    No dataset is loaded whose folder has files. Jobs on other machines may have other files.
    """
    choices = cfg.hydra.runtime.choices
    if choices["hydra/launcher"] not in ("basic", "joblib"):
        return
    dataset = build(cfg, "dataset", choices.dataset)
    if dataset is not None:
        with within("dataset"):
            root = getattr(dataset, "root", None)
            if root and not any(map(Path.is_file, Path(root).rglob("*"))):
                dataset.load()  # torchvision downloads the files, or says what is missing
            dataset.check()
    if choices.teachers == "votes":
        with within("teachers"):
            build(cfg, "teachers").check(DataSplits.empty())


def _own_folders(config: DictConfig, configs: Sequence[DictConfig]) -> list[str]:
    """Return the folders of jobs in that of the sweep, by the configurations of the jobs.

    InputError: two share one, or one is elsewhere.
    """
    home = config.hydra.sweep
    folders: list[str] = []
    for number, cfg in enumerate(configs):
        with open_dict(cfg):
            cfg.hydra.job.num = number
        HydraConfig.instance().set_config(cfg)  # for ${hydra:…}
        folder = relpath(Path(cfg.hydra.sweep.dir, str(cfg.hydra.sweep.subdir)), home.dir)
        jobs = f"job {number}"
        if folder in folders:
            jobs = f"job {folders.index(folder)} and {jobs}"
        elif folder != "." and not folder.startswith(".."):
            folders.append(folder)
            continue
        raise InputError(
            "hydra.sweep.subdir",
            layout.unresolved(home)["subdir"],
            "must give each job a folder of its own in hydra.sweep.dir; "
            f"{jobs} would have {folder}",
        )
    return folders


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
        raise InputError(
            "sweep.only", spec.only, f"must be in the name of a row: {'; '.join(titles)}"
        )
    return rows


def plan_jobs(config: DictConfig) -> list[SweepJob]:
    """Return the jobs of the sweeper `rows`: every row with every point of the grid.

    The grid is that of the sweep file, `hydra.sweeper.params`, and of the command line. A row's
    value of a key replaces the grid's.
    """
    params = config.hydra.sweeper.get("params") or {}
    grid = _grid([*map("{}={}".format, params, params.values()), *config.hydra.overrides.task])
    jobs: list[SweepJob] = []
    for point, row in product(grid, expand_rows(config) or [SweepRow()]):
        set_keys = set(map(key_of, row.set))
        outside = [override for override in point if key_of(override) not in set_keys]
        job = SweepJob(row, [*outside, *row.set])
        if job not in jobs:  # the row's value of a key stands for all values of the grid
            jobs.append(job)
    return jobs


def compose_jobs(
    config: DictConfig, jobs: Sequence[SweepJob]
) -> tuple[list[SweepJob], list[DictConfig], list[InputError]]:
    """Return the jobs that can be composed, their configurations, and mistakes of the others.

    Each job has the recipe that suits its dataset.
    """
    loader = GlobalHydra.instance().config_loader()

    @cache
    def better(*told: str) -> list[str]:
        return better_recipe(loader.load_sweep_config(config, [*told]))

    whole = []
    composed = []
    mistakes: dict[str, InputError] = {}
    for job in jobs:
        try:
            more = better(*telling(job.overrides))
            row = job.row.model_copy(update={"set": [*job.row.set, *more]})
            job = SweepJob(row, [*job.overrides, *more])
            cfg = loader.load_sweep_config(config, list(job.overrides))
            refuse_unknown_keys(cfg)
            build_metrics(cfg)
            composed.append(cfg)
            whole.append(job)
        except Exception as error:  # Hydra's, OmegaConf's, or an InputError
            wrong = input_error(error, job.overrides)
            if wrong is None:
                wrong = InputError("overrides", " ".join(job.overrides), error_line(error)[1])
            mistakes[str(wrong)] = wrong
    return whole, composed, [*mistakes.values()]


def _points(row: SweepRow, number: int) -> list[SweepRow]:
    """Return a row for every combination of the values that it sets."""
    try:
        grid = _grid(row.set)
    except HydraException as error:
        raise InputError(
            f"sweep.rows.{number}.set", row.set, f"must read key=value ({in_a_line(error)})"
        ) from error
    points = []
    common = set.intersection(*map(set, grid))
    for values in grid:
        point = [text for text in values if text not in common and not is_seed(text)]
        points.append(row.model_copy(update={"set": values, "point": point}))
    return points


def _grid(overrides: Sequence[str]) -> list[list[str]]:
    """Return every combination of the values of overrides; the last override of a key counts."""
    parser = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())
    values: dict[str, list[str]] = {}
    for override in parser.parse_overrides([*overrides]):
        key = override.get_key_element()
        if override.is_sweep_override():
            values[key] = [f"{key}={value}" for value in override.sweep_string_iterator()]
        else:
            values[key] = [f"{key}={override.get_value_element_as_str()}"]
    return list(map(list, product(*values.values())))


def key_of(override: str) -> str:
    """Return KEY of KEY=VALUE."""
    return override.partition("=")[0]
