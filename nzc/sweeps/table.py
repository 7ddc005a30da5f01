"""The table of a sweep: for people (paper's values beside the measured) and for programs (CSV)."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pandas
from pandas import DataFrame
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from nzc.runs.formatting import EPSILONS, heading, is_share, number, percent, some
from nzc.runs.layout import TABLE_CSV
from nzc.runs.metrics import unequal_classes
from nzc.storage.files import write_private
from nzc.sweeps.frame import whole_key
from nzc.validation import InputError

#: The last columns. The ledger's sums are not among them, because they also count what came before a run.
_LAST = ["accuracy", "epsilon", *(f"epsilon.{name}" for name in EPSILONS if not name.startswith("ledger_"))]
#: A line about failed jobs names up to so many.
_NAMED = 3
#: Columns of the CSV file that are no numbers of a run.
_NOT_IN_CSV = ("folder", "run", "row", "overrides", "error")


class SweepTable:
    """The finished jobs as lines. Columns: the run's name, then keys of result.json with the paper's value before the
    measured.

    Keys are those that every sweep shows, those with a paper's value in a row, and `keys`; columns without a value are
    left out. Jobs that differ in their seed only share one line of means ± standard deviations.

    jobs      a row a job (`frame.read_jobs`)
    changed   settings of the command line, for which the paper's values do not hold
    """

    def __init__(self, jobs: DataFrame, keys: Sequence[str] = (), title: str = "", changed: Sequence[str] = ()) -> None:
        self.title, self.failures = title, failure_lines(jobs)
        done = jobs[jobs["error"].isna()]
        runs = {str(name): of for name, of in done.groupby("name", sort=False)}
        printed = [name.removeprefix("paper.") for name in done if name.startswith("paper.")]
        wanted = [key for key in [*printed, *map(whole_key, keys)] if key not in _LAST]
        merits = [key for key in wanted if key.startswith("metrics.")]  # stand beside the student's accuracy
        if any(unequal_classes(job) for job in done.to_dict("records")):
            merits = ["metrics.balanced_accuracy", *merits]
        others = [key for key in wanted if key not in merits]
        self.columns: list[tuple[str, list[str]]] = []  # heading and cells
        self.notes = _seeds([len(of) for of in runs.values()])
        for key in dict.fromkeys(["answered", "label_accuracy", *others, "accuracy", *merits, *_LAST]):
            paper = [_paper_cell(key, *_values(of, f"paper.{key}")[:1]) for of in runs.values()]
            values = {name: _values(of, key) for name, of in runs.items()}
            measured = [cell(key, several) for several in values.values()]
            if compared := any(text != "–" for text in paper):
                self.columns.append((f"{heading(key)}: paper", paper))
            if any(text != "–" for text in measured):
                self.columns.append((f"{heading(key)}: measured" if compared else heading(key), measured))
                self.notes += _incomplete(key, values)
        if changed and printed:
            self.notes.append(f"The paper's values are not for these settings: {', '.join(changed)}.")
        self.headings = ["run", *(name for name, _ in self.columns)]
        self.lines = [list(line) for line in zip(runs, *(cells for _, cells in self.columns), strict=True)]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table for a terminal: in parts, one below the other, where it is too wide. No number is broken."""
        yield from self._parts(console, options, self.columns, self.title)
        for note in self.notes:
            yield Text(note, style="dim")

    def _parts(
        self, console: Console, options: ConsoleOptions, columns: list[tuple[str, list[str]]], title: str | None
    ) -> Iterable[Table]:
        table = Table(title=title, title_style="bold")
        table.add_column("run", min_width=_longest(word for line in self.lines for word in line[0].split()))
        for name, cells in columns:
            table.add_column(name, justify="right", width=_longest([*cells, *name.split()]))
        for at, line in enumerate(self.lines):
            table.add_row(line[0], *(cells[at] for _, cells in columns))
        if len(columns) < 2 or table.__rich_measure__(console, options).minimum <= options.max_width:
            yield table
        else:
            half = (len(columns) + 1) // 2
            yield from self._parts(console, options, columns[:half], title)
            yield from self._parts(console, options, columns[half:], None)

    def markdown(self) -> str:
        """Return the table in Markdown."""
        lines = [self.headings, ["---", *["---:"] * len(self.columns)], *self.lines]
        table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
        failed = "".join(f"- {line}\n" for line in self.failures)
        return "\n".join([f"# {self.title}\n", table, *(f"{note}\n" for note in self.notes), failed]).rstrip() + "\n"


def failures(jobs: DataFrame) -> list[tuple[str, str, str]]:
    """Return the jobs that did not finish as (how many, why, which), one entry for each different error."""
    entries = []
    for why, of in jobs.groupby("error", sort=False):
        noun = "job" if len(of) == 1 else "jobs"
        which = f"{noun} {', '.join(map(str, of['job']))}: {some(of['name'], _NAMED)}"
        entries.append((f"{len(of)} {noun}", str(why), which))
    return entries


def failure_lines(jobs: DataFrame) -> list[str]:
    """Return a line for each different error of the jobs that did not finish."""
    return [f"{count}: {why} ({which})" for count, why, which in failures(jobs)]


def write_csv(folder: Path, jobs: DataFrame) -> None:
    """Write table.csv: one line per job, with its name, its own overrides, and every number of result.json."""
    overrides = [dict(text.partition("=")[::2] for text in texts) for texts in jobs["overrides"]]
    lines = DataFrame({"job": jobs["job"], "name": jobs["name"], "failure": jobs["error"]})
    results = jobs.drop(columns=[*lines.columns, *_NOT_IN_CSV], errors="ignore")
    lists = results.map(lambda value: isinstance(value, list)).any()
    results = results[[name for name in results if not (name.startswith("paper.") or lists[name])]]
    set_keys = DataFrame(overrides, index=jobs.index)
    table = pandas.concat([lines, set_keys[[name for name in set_keys if name not in results]], results], axis=1)
    write_private(folder / TABLE_CSV, table.to_csv(index=False, lineterminator="\r\n"))


def read_sweep(folder: str | Path) -> DataFrame:
    """Return a sweep's table.csv as a pandas DataFrame, one row per job; InputError: it is no folder of a sweep."""
    path = Path(folder) / TABLE_CSV
    if not path.is_file():
        raise InputError("folder", folder, f"must be the folder of a sweep, with {TABLE_CSV} in it")
    return pandas.read_csv(path)


def cell(key: str, values: Sequence[Any]) -> str:
    """Return the cell of one run, or of several that differ in their seed: mean ± standard deviation."""
    numbers, share = [value for value in values if isinstance(value, int | float)], is_share(key)
    if not numbers or len(numbers) < len(values):
        return str(values[0]) if values and isinstance(values[0], str) else "–"
    mean = fmean(numbers)
    whole = share or all(isinstance(value, int) for value in values)
    shown = percent(mean) if share else f"{mean:,.0f}" if whole else number(mean, key)
    if len(set(values)) < 2 or math.isinf(mean):
        return shown
    spread = f"{100 * stdev(values):.1f} %" if share else f"{stdev(values):,.{0 if whole else 3}f}"
    return f"{shown.removesuffix(' %')} ± {spread}"


def _values(jobs: DataFrame, key: str) -> list[Any]:
    """Return the values of a key, None where a job has none."""
    values = jobs[key].tolist() if key in jobs else [None] * len(jobs)
    return [None if isinstance(value, float) and math.isnan(value) else value for value in values]


def _longest(texts: Iterable[str]) -> int:
    return max(map(cell_len, texts), default=0)


def _paper_cell(key: str, value: Any) -> str:
    if value is None:
        return "–"
    return percent(value) if is_share(key) and not isinstance(value, str) else str(value)


def _seeds(counts: Sequence[int]) -> list[str]:
    """Return the note on lines of several seeds, if there are any."""
    several = f"{'up to ' if len({*counts}) > 1 else ''}{max(counts, default=0)}"
    return [f"Mean ± standard deviation over {several} seeds."] if {*counts} - {1} else []


def _incomplete(key: str, values: dict[str, list[Any]]) -> list[str]:
    """Return notes on lines whose runs do not all have a value, or of which only some are infinite."""
    lacking, infinite = [], []
    for name, several in values.items():
        none, endless = several.count(None), several.count(math.inf)
        if 0 < none < len(several) or (none and key == "accuracy"):
            lacking.append(name if none == len(several) else f"{name} ({none} of {len(several)} runs)")
        if 0 < endless < len(several):
            infinite.append(f"{name} ({endless} of {len(several)} runs)")
    notes = {"without a value": lacking, "∞ in some runs only": infinite}
    return [f"{heading(key)}, {what}: {some(names)}." for what, names in notes.items() if names]
