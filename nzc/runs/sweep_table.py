"""The jobs of a sweep as one table: for people (paper's values beside the measured) and for programs (CSV)."""

import csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from rich.table import Table

from nzc.data.files import write_private
from nzc.runs.formatting import EPSILONS, heading, is_share, number, percent
from nzc.runs.layout import TABLE_CSV, Job
from nzc.validation import InputError

if TYPE_CHECKING:
    from pandas import DataFrame

#: The ε of a run itself; the ledger's total also counts what came before it.
OF_A_RUN = [f"epsilon.{name}" for name in EPSILONS if name != "ledger_total"]


@dataclass(frozen=True)
class Column:
    """The cells of a key, one per line of the table: the paper's and the measured; a dash where there is none."""

    key: str
    paper: list[str]
    measured: list[str]

    def shown(self) -> Iterator[tuple[str, list[str]]]:
        """Yield heading and cells, without empty columns."""
        compared = any(cell != "–" for cell in self.paper)
        for whose, cells in {"paper": self.paper, "measured": self.measured}.items():
            if any(cell != "–" for cell in cells):
                yield f"{heading(self.key)}: {whose}" if compared else heading(self.key), cells


class SweepTable:
    """The jobs as lines. Columns: the run's name, then keys of result.json with the paper's value before the measured.

    Keys are those that every sweep shows, those with a paper's value in a row, and `keys`. Jobs that differ in their
    seed only share one line of means ± standard deviations.
    """

    def __init__(self, jobs: Sequence[Job], keys: Sequence[str] = ()) -> None:
        last = ["accuracy", "epsilon", *OF_A_RUN]
        asked = [key for job in jobs for key in [*job.paper, *map(job.whole_key, keys)] if key not in last]
        self.runs: dict[str, list[Job]] = {}
        for job in jobs:
            self.runs.setdefault(job.name if job.result else f"{job.name}: {job.failure}", []).append(job)
        columns = [self._column(key) for key in dict.fromkeys(["answered", "label_accuracy", *asked, *last])]
        self.columns = [pair for column in columns for pair in column.shown()]
        self.lines = [list(line) for line in zip(self.runs, *(cells for _, cells in self.columns), strict=True)]

    @property
    def headings(self) -> list[str]:
        """The heading of each column, the run's name first."""
        return ["run", *(name for name, _ in self.columns)]

    def _column(self, key: str) -> Column:
        lines = self.runs.values()
        paper = [_printed(key, jobs[0].paper.get(key)) for jobs in lines]
        return Column(key, paper, [_measured(key, [job.result.get(key) for job in of if job.result]) for of in lines])

    def rich(self, title: str) -> Table:
        """Return the table for a terminal."""
        table = Table(title=title, title_style="bold")
        for column in self.headings:
            table.add_column(column, justify="left" if column == "run" else "right")
        for line in self.lines:
            table.add_row(*line)
        return table

    def markdown(self, title: str) -> str:
        """Return the table in Markdown."""
        lines = [self.headings, ["---", *["---:"] * len(self.columns)], *self.lines]
        return f"# {title}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def write_csv(folder: Path, jobs: Sequence[Job]) -> None:
    """Write table.csv: one line per job, with its name, its own overrides, and every number of result.json."""
    lines = []
    for job in jobs:
        overrides = dict(each.partition("=")[::2] for each in job.overrides)
        result = {key: value for key, value in (job.result or {}).items() if not isinstance(value, list)}
        failure = None if job.result else job.failure
        lines.append({"job": job.folder.name, "name": job.name, "failure": failure, **overrides, **result})
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(key for line in lines for key in line)))
    writer.writeheader()
    writer.writerows(lines)
    write_private(folder / TABLE_CSV, text.getvalue())


def read_sweep(folder: str | Path) -> "DataFrame":
    """Return a sweep's table.csv as a pandas DataFrame, one row per job; InputError: it is no folder of a sweep."""
    import pandas

    path = Path(folder) / TABLE_CSV
    if not path.is_file():
        raise InputError("folder", folder, f"must be the folder of a sweep, with {TABLE_CSV} in it")
    return pandas.read_csv(path)


def _printed(key: str, value: Any) -> str:
    """Return a cell of the paper's values."""
    if value is None:
        return "–"
    return percent(value) if is_share(key) and not isinstance(value, str) else str(value)


def _measured(key: str, values: Sequence[Any]) -> str:
    """Return a cell of one run, or of several that differ in their seed."""
    numbers, share = [value for value in values if isinstance(value, int | float)], is_share(key)
    if not numbers or len(numbers) < len(values):
        return str(values[0]) if values and isinstance(values[0], str) else "–"
    mean = fmean(numbers)
    whole = share or all(isinstance(value, int) for value in values)
    shown = percent(mean) if share else f"{mean:,.0f}" if whole else number(mean)
    if len(set(values)) < 2 or math.isinf(mean):
        return shown
    spread = f"{100 * stdev(values):.1f} %" if share else f"{stdev(values):,.{0 if whole else 3}f}"
    return f"{shown.removesuffix(' %')} ± {spread}"
