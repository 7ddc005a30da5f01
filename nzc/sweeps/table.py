"""A sweep and its table: for people (paper's values beside the measured) and for programs (CSV)."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import fields
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import pandas
from omegaconf import OmegaConf
from pandas import DataFrame, Index, Series
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from nzc.runs.formatting import figure, heading, is_share, percent, some
from nzc.runs.layout import SWEEP, TABLE_CSV
from nzc.runs.metrics import RECALL, Metrics, unequal_classes
from nzc.runs.quantities import EPSILONS, NOBODY
from nzc.storage.files import write_private
from nzc.sweeps.jobs import read_jobs
from nzc.sweeps.spec import as_list, name_of, spec_of
from nzc.validation import InputError

#: Columns at the end of the table. The ledger's sums also count what came before a run, and the
#: lower bound is close to ε exact: they are no columns.
_HIDDEN = ("ledger_released", "ledger_total", "exact_lower")
_LAST = ["epsilon", "epsilon.published", "epsilon.exact", "epsilon.paper"]
_LAST += [f"epsilon.{name}" for name in EPSILONS if name not in _HIDDEN]
#: nzc's own metrics, which say little beside the accuracy where classes are about equally frequent.
_OF_CLASSES = [f"metrics.{metric.name}" for metric in fields(Metrics)]
#: What the table shows where there is no value.
NOTHING = "–"


class Sweep:
    """What table, figures, page and summary show: the question of a sweep, and its jobs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = OmegaConf.load(folder / SWEEP)
        self.name = name_of(self.config)
        self.spec = spec_of(self.config)
        self.jobs = read_jobs(folder, list(chain.from_iterable(self.spec.keys.values())))
        self.done = self.jobs[self.jobs["error"].isna()]

    @property
    def swept(self) -> list[str]:
        """The keys whose values differ among the jobs."""
        settings = _settings(self.jobs)
        return [key.lstrip("+") for key in settings if settings[key].nunique(dropna=False) > 1]

    @cached_property
    def table(self) -> "SweepTable":
        drawn: list[str] = []
        for asked in self.spec.figures:
            drawn += asked.y
        jobs = self.jobs
        directions = OmegaConf.select(self.config, "hydra.sweeper.direction")
        if directions and self.config.objective and len(self.done):  # a search: the best first
            jobs = jobs.sort_values(
                [*as_list(self.config.objective)],
                ascending=[direction == "minimize" for direction in as_list(directions)],
                key=partial(pandas.to_numeric, errors="coerce"),  # an ε may be a text
            )
        return SweepTable(jobs, drawn, self.spec.columns, self.name)


class SweepTable:
    """The finished jobs as lines: the paper's value before the measured, for keys of result.json.

    Jobs that differ in their seed only share a line. The keys are those that every sweep shows,
    those with a paper's value in a row, and `drawn`, as far as there are values; and `columns`,
    which stand there in any case.

    cells  the table as text, by the name of the run
    """

    def __init__(
        self,
        jobs: DataFrame,
        drawn: Sequence[str] = (),
        columns: Sequence[str] = (),
        title: str = "",
    ) -> None:
        self.title = title
        self.failures = failure_lines(jobs)
        self.warnings = warning_lines(jobs)
        done = jobs[jobs["error"].isna()].astype(object)
        done = done.where(done.notna(), None)
        runs = done.groupby("name", sort=False)
        seeds = runs.size()
        self.cells = DataFrame(index=seeds.index)
        for key in _keys(done, [*columns, *drawn]):
            name = heading(key)
            if f"paper.{key}" in done:
                self.cells[f"{name}: paper"] = runs[f"paper.{key}"].agg(partial(_paper_cell, key))
                name += ": measured"
            measured = Series(NOTHING, index=seeds.index)
            if key in done:
                measured = runs[key].agg(partial(cell, key))
            repeats = key == "epsilon.data_independent" and measured.equals(
                self.cells.get(heading("epsilon.published"))
            )
            if key in columns or ((measured != NOTHING).any() and not repeats):
                self.cells[name] = measured
        self.notes: list[str] = []
        if seeds.max() > 1:
            self.notes.append(f"Mean ± standard deviation over up to {seeds.max()} seeds.")

    @property
    def headings(self) -> list[str]:
        return ["run", *self.cells]

    @property
    def lines(self) -> list[list[str]]:
        return self.cells.reset_index(allow_duplicates=True).astype(str).to_numpy().tolist()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table, its notes and its warnings for a terminal."""
        table = Table(title=self.title, title_style="bold")
        table.add_column("run")
        for name in self.cells:
            table.add_column(str(name), justify="right")
        for line in self.lines:
            table.add_row(*line)
        yield table
        for note in [*self.notes, *self.warnings]:
            yield Text(note, style="dim")

    def markdown(self) -> str:
        """Return table, notes, warnings and failures in Markdown."""
        head, *lines = [f"| {' | '.join(line)} |" for line in [self.headings, *self.lines]]
        rows = [head, "| --- |" + " ---: |" * len(self.cells.columns), *lines]
        parts = ["\n".join(rows), *self.notes]
        parts.append("\n".join(map("- {}".format, [*self.warnings, *self.failures])))
        return "\n\n".join(filter(None, parts)) + "\n"


def _keys(done: DataFrame, more: Sequence[str]) -> list[str]:
    """Return the keys of the columns in order. Metrics stand beside the accuracy."""
    paper = done.filter(regex=r"^paper\.").columns.str.removeprefix("paper.")
    metrics = done.filter(regex=rf"^metrics\.(?!{RECALL.removeprefix('metrics.')})").columns
    if not any(map(unequal_classes, done.to_dict("records"))):
        metrics = metrics.difference(_OF_CLASSES, sort=False)
    beside = ["accuracy", *metrics, *filter(lambda key: key.startswith(RECALL), more)]
    others = Index([*more, *paper]).difference([*beside, *_LAST], sort=False)
    return list(dict.fromkeys(["answered", "label_accuracy", *others, *beside, *_LAST]))


def failure_lines(jobs: DataFrame) -> list[str]:
    """Return a line for each different error of the jobs: how many, why, and which."""
    lines = []
    for why, members in jobs.groupby("error", sort=False):
        which = f"{', '.join(map(str, members['job']))}: {some(members['name'], 3)}"
        lines.append(f"{len(members)} of {len(jobs)} jobs: {why} (job {which})")
    return lines


def warning_lines(jobs: DataFrame) -> list[str]:
    """Return a line for each kind of warning: how many jobs have it, which, and the first text.

    Warnings are of one kind where they differ in numbers only.
    """
    texts = jobs.get("warnings", Series(dtype=object)).explode().dropna().astype(str)
    lines = []
    for _, alike in texts.groupby(texts.str.replace(r"\d[\d.,]*", "", regex=True), sort=False):
        names = some(jobs["name"][alike.index.unique()], 3)
        count = f"{alike.index.nunique()} of {len(jobs)} runs"
        lines.append(f"{count} ({names}) warn: {alike.iloc[0]}")
    return lines


def write_csv(folder: Path, jobs: DataFrame) -> None:
    """Write table.csv: one line per job, with its name, its own overrides, and its result.json."""
    lines = jobs[["job", "name"]].assign(failure=jobs["error"])
    settings = _settings(jobs)
    hidden = ["job", "name", "folder", "run", "row", "overrides", "error"]
    results = jobs.replace(NOBODY, 0.0).drop(columns=[*hidden, *jobs.filter(regex=r"^paper\.")])
    if "warnings" in results:
        results["warnings"] = results["warnings"].map(" | ".join, na_action="ignore")
    results = results.loc[:, ~results.map(lambda value: isinstance(value, list)).any()]
    # A job that failed has no result with its seed.
    results.update(settings[jobs["error"].notna()], overwrite=False)
    settings = settings.drop(columns=results.columns, errors="ignore")
    table = pandas.concat([lines, settings, results], axis=1)
    write_private(folder / TABLE_CSV, table.to_csv(index=False, lineterminator="\r\n"))


def _settings(jobs: DataFrame) -> DataFrame:
    """Return what the jobs' overrides KEY=VALUE set: a line for each job, a column for each key."""
    settings = []
    for overrides in jobs["overrides"]:
        settings.append(dict(override.partition("=")[::2] for override in overrides))
    return DataFrame(settings, index=jobs.index)


def read_sweep(folder: str | Path) -> DataFrame:
    """Return a sweep's table.csv as a DataFrame, one row per job; `attrs["folder"]` is the folder.

    Columns: `job` (its number), `name`, `failure` (why it has no result), the keys that the sweep
    set, and those of result.json, dotted. InputError: it is no folder of a sweep.
    """
    path = Path(folder).absolute() / TABLE_CSV
    if not path.is_file():
        raise InputError("folder", folder, f"must be the folder of a sweep, with {TABLE_CSV} in it")
    table = pandas.read_csv(path)
    table.attrs["folder"] = str(path.parent)
    return table


def cell(key: str, values: Iterable[Any]) -> str:
    """Return the cell of one run, or of several that differ in their seed.

    It is the mean ± the standard deviation, or all texts.
    """
    values = list(values)
    types = set(map(type, values))
    if not types.isdisjoint({str, bool, list, tuple}):
        return some(filter(None, map(_text, values)), 3)
    if not values or None in values:
        return NOTHING
    share = is_share(key)
    average = mean(values)  # exact: the mean of equal ε must not be rounded up to a larger one
    decimals = 3
    if not share and types == {int}:
        average = round(average)
        decimals = 0
    shown = figure(average, key)
    if len(set(values)) == 1 or math.isinf(average):
        return shown
    if share:
        return f"{shown.removesuffix(' %')} ± {percent(stdev(values))}"
    return f"{shown} ± {stdev(values):,.{decimals}f}"


def _text(value: object) -> str:
    """Return a value that is no number as text, as one types it; empty where there is none."""
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _paper_cell(key: str, values: Series) -> str:
    value = values.iloc[0]
    if value is None:
        return NOTHING
    if is_share(key) and not isinstance(value, str):
        return percent(value)
    return str(value)
