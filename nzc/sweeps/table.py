"""A sweep and its table: for people (paper's values beside the measured) and for programs (CSV)."""

import math
import re
from collections.abc import Sequence
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import pandas
from omegaconf import OmegaConf
from pandas import DataFrame, Series
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from nzc.runs.formatting import (
    EPSILONS,
    RECALL,
    figure,
    heading,
    is_share,
    percent,
    short_mechanism,
    some,
)
from nzc.runs.layout import SWEEP, TABLE_CSV
from nzc.runs.metrics import Metrics, unequal_classes
from nzc.storage.files import write_private
from nzc.sweeps.jobs import changed_settings, name_of, read_jobs, spec_of, whole_key
from nzc.validation import InputError

if TYPE_CHECKING:
    from nzc.sweeps.figures import Drawing

#: What is no column: the ledger's sums also count what came before a run, and the lower bound is
#: close to ε exact.
_HIDDEN = ("ledger_released", "ledger_total", "exact_lower", "paper")
_BOUNDS = (f"epsilon.{name}" for name in EPSILONS if name not in _HIDDEN)
_LAST = list(
    dict.fromkeys(
        ["accuracy", "epsilon", "epsilon.published", "epsilon.exact", "epsilon.paper", *_BOUNDS]
    )
)
#: nzc's own metrics, which say little beside the accuracy where classes are about equally frequent.
_OF_CLASSES = [f"metrics.{part.name}" for part in fields(Metrics)]
#: Overrides that decide the mechanism, or its noise.
_SAYS_HOW = re.compile(r"[+~]*(aggregator|budget|recipe|baseline)\b")
#: Columns of the CSV file that are no numbers of a run.
_NOT_IN_CSV = ("folder", "run", "row", "overrides", "error")


class Sweep:
    """What table, figures, page and summary show. `jobs`: a row a job (`frame.read_jobs`); `done`:
    the finished.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.config = folder, OmegaConf.load(folder / SWEEP)
        self.name, self.spec = name_of(self.config), spec_of(self.config)
        self.figures = self.spec.figures
        self.jobs = read_jobs(folder, [key for keys in self.spec.keys.values() for key in keys])
        self.done = self.jobs[self.jobs["error"].isna()]

    @cached_property
    def drawings(self) -> "list[Drawing]":
        """The figures, if a job has finished."""
        from nzc.sweeps.figures import Drawing  # imports matplotlib

        return [Drawing(figure, self.done) for figure in self.figures] if len(self.done) else []

    @cached_property
    def table(self) -> "SweepTable":
        keys = [key for figure in self.figures for key in figure.y]
        return SweepTable(
            self.jobs, keys, self.name, changed_settings(self.config), self.spec.columns
        )


class SweepTable:
    """The finished jobs as lines: the run's name, then keys of result.json, with the paper's value
    before the measured.

    Keys are those that every sweep shows, those with a paper's value in a row, and `keys`, as far
    as there are values; and `columns`, which stand there in any case. Jobs that differ in their
    seed only share a line. The paper's values do not hold for settings that are `changed`.
    """

    def __init__(
        self,
        jobs: DataFrame,
        keys: Sequence[str] = (),
        title: str = "",
        changed: Sequence[str] = (),
        columns: Sequence[str] = (),
    ) -> None:
        self.title, self.failures, self.warnings = title, failure_lines(jobs), warning_lines(jobs)
        done = jobs[jobs["error"].isna()].astype(object)
        done = done.where(done.notna(), None)
        runs = {str(name): members for name, members in done.groupby("name", sort=False)}
        printed = [name.removeprefix("paper.") for name in done if name.startswith("paper.")]
        named = [whole_key(key) for key in columns]
        cells: dict[str, list[str]] = {}  # by heading
        if changes_untyped(done):
            cells["mechanism"] = [
                some(of["mechanism"].map(short_mechanism)) for of in runs.values()
            ]
        self.notes: list[str] = []
        for key in _keys(done, [*named, *printed, *map(whole_key, keys)]):
            paper = [_paper_cell(key, of) for of in runs.values()]
            measured = [cell(key, of[key].tolist()) if key in of else "–" for of in runs.values()]
            title = heading(key)
            if any(text != "–" for text in paper):
                cells[f"{title}: paper"], title = paper, f"{title}: measured"
            if key in named:
                cells[title] = measured
            elif key == "metrics.majority" and len(set(measured)) == 1:
                self.notes += [f"Always answering the most frequent class has {measured[0]}."] * (
                    measured[0] != "–"
                )
            elif any(text != "–" for text in measured):
                cells[title] = measured
        same = cells.get("ε data-independent") == cells.get("ε published")
        if same and "epsilon.data_independent" not in named:
            cells.pop("ε data-independent", None)
        if self.warnings:
            cells["with warning"] = [
                f"{sum(map(bool, of['warnings']))} of {len(of)}" for of in runs.values()
            ]
        counts = {len(of) for of in runs.values()}
        if counts - {1}:
            several = f"{'up to ' if len(counts) > 1 else ''}{max(counts)}"
            self.notes.append(f"Mean ± standard deviation over {several} seeds.")
        if changed and printed:
            self.notes.append(
                f"The paper's values are not for these settings: {', '.join(changed)}."
            )
        self.headings, self.columns = ["run", *cells], cells
        self.lines = [list(line) for line in zip(runs, *cells.values(), strict=True)]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table for a terminal; where it is too wide, a paragraph for each run. No number
        is broken.
        """
        table = Table(title=self.title, title_style="bold")
        table.add_column(
            "run",
            min_width=max(
                (len(word) for line in self.lines for word in line[0].split()), default=0
            ),
        )
        for name, cells in self.columns.items():
            table.add_column(name, justify="right", width=max(map(len, [*cells, *name.split()])))
        for line in self.lines:
            table.add_row(*line)
        if table.__rich_measure__(console, options).minimum <= options.max_width:
            yield table
        else:
            named = (zip(self.columns, line[1:], strict=True) for line in self.lines)
            texts = (" · ".join(f"{name} {text}" for name, text in values) for values in named)
            yield from (
                Text(f"{line[0]}\n{text}\n") for line, text in zip(self.lines, texts, strict=True)
            )
        yield from (Text(note, style="dim") for note in [*self.notes, *self.warnings])

    def markdown(self) -> str:
        """Return the table in Markdown."""
        lines = [self.headings, ["---", *["---:"] * len(self.columns)], *self.lines]
        table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
        listed = "".join(f"- {line}\n" for line in [*self.warnings, *self.failures])
        return (
            "\n".join(
                [f"# {self.title}\n", table, *(f"{note}\n" for note in self.notes), listed]
            ).rstrip()
            + "\n"
        )


def changes_untyped(jobs: DataFrame) -> bool:
    """Return whether mechanisms differ although nothing was typed that says so: with the dataset's
    own values, say.
    """
    if "mechanism" not in jobs:
        return False
    typed = jobs["overrides"].map(
        lambda texts: " ".join(sorted(text for text in texts if _SAYS_HOW.match(text)))
    )
    settings = jobs["mechanism"].str.replace(
        r", adjacency=\w+\([^)]*\)", "", regex=True
    )  # says who votes
    return bool((settings.groupby(typed).nunique() > 1).any())


def _keys(done: DataFrame, more: Sequence[str]) -> list[str]:
    """Return the keys of the columns in order. Metrics stand beside the accuracy, where they differ
    from it.
    """
    merits = [key for key in done if key.startswith("metrics.") and not key.startswith(RECALL)]
    if not any(unequal_classes(job) for job in done.to_dict("records")):
        merits = [key for key in merits if key not in _OF_CLASSES]
    merits += [key for key in more if key.startswith(RECALL)]
    others = [key for key in more if key not in _LAST and key not in merits]
    return list(dict.fromkeys(["answered", "label_accuracy", *others, "accuracy", *merits, *_LAST]))


def failure_lines(jobs: DataFrame) -> list[str]:
    """Return a line for each different error of the jobs that did not finish: how many, why, and
    which.
    """
    lines = []
    for why, members in jobs.groupby("error", sort=False):
        noun = "job" if len(members) == 1 else "jobs"
        which = f"{noun} {', '.join(map(str, members['job']))}: {some(members['name'], 3)}"
        lines.append(f"{len(members)} {noun}: {why} ({which})")
    return lines


def warning_lines(jobs: DataFrame) -> list[str]:
    """Return a line for each kind of warning of the jobs: how many have it, the first one's text,
    and which jobs.
    """
    texts, lines = jobs.get("warnings", Series(dtype=object)).explode().dropna().astype(str), []
    for _, alike in texts.groupby(
        texts.str.replace(r"\d[\d.,]*", "", regex=True), sort=False
    ):  # but for numbers
        first = f"for example: {alike.iloc[0]}" if alike.nunique() > 1 else alike.iloc[0]
        names = some(jobs["name"][alike.index.unique()], 3)
        lines.append(f"{alike.index.nunique()} of {len(jobs)} runs ({names}) warn: {first}")
    return lines


def write_csv(folder: Path, jobs: DataFrame) -> None:
    """Write table.csv: one line per job, with its name, its own overrides, and every number of
    result.json.
    """
    lines = DataFrame({"job": jobs["job"], "name": jobs["name"], "failure": jobs["error"]})
    results = jobs.drop(
        columns=[*lines.columns, *_NOT_IN_CSV, *jobs.filter(regex=r"^paper\.")], errors="ignore"
    )
    if "warnings" in results:
        results["warnings"] = results["warnings"].map(" | ".join, na_action="ignore")
    results = results.loc[:, ~results.map(lambda value: isinstance(value, list)).any()]
    overrides = [dict(text.partition("=")[::2] for text in texts) for texts in jobs["overrides"]]
    set_keys = DataFrame(overrides, index=jobs.index)
    results.update(
        set_keys[jobs["error"].notna()], overwrite=False
    )  # a job that failed has no result with its seed
    table = pandas.concat(
        [lines, set_keys[set_keys.columns.difference(results.columns, sort=False)], results], axis=1
    )
    write_private(folder / TABLE_CSV, table.to_csv(index=False, lineterminator="\r\n"))


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


def cell(key: str, values: Sequence[Any]) -> str:
    """Return the cell of one run, or of several that differ in their seed: mean ± standard
    deviation.
    """
    numbers = [
        value for value in values if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    if len(numbers) < len(values) or not values:
        texts = [text for text in map(_text, values) if text]
        return some(texts, 3) if texts and not numbers else "–"
    mean = fmean(numbers)
    share = is_share(key)
    whole = share or all(isinstance(value, int) for value in values)
    shown = figure(round(mean) if whole and not share else mean, key)
    if len(set(values)) < 2 or math.isinf(mean):
        return shown
    spread = f"{100 * stdev(values):.1f} %" if share else f"{stdev(values):,.{0 if whole else 3}f}"
    return f"{shown.removesuffix(' %')} ± {spread}" if spread.strip("0.% ") else shown


def _text(value: object) -> str:
    """Return a value that is no number as text, as one types it; empty where there is none."""
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _paper_cell(key: str, jobs: DataFrame) -> str:
    value = jobs[f"paper.{key}"].iloc[0] if f"paper.{key}" in jobs else None
    if value is None:
        return "–"
    return percent(value) if is_share(key) and not isinstance(value, str) else str(value)
