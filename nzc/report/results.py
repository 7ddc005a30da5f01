"""The jobs of a sweep as one table: the paper's numbers before the measured."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from rich.table import Table

from nzc.report.folder import Job
from nzc.report.words import EPSILONS, heading, is_share, number, percent

#: The ε that are a run's own; the ledger's total counts whatever came before it.
OF_A_RUN = [f"epsilon.{name}" for name in EPSILONS if name != "ledger_total"]


@dataclass(frozen=True)
class Column:
    """The cells of a key, a line each: the paper's and the measured; all dashes where there is none."""

    key: str
    paper: list[str]
    measured: list[str]

    def shown(self) -> Iterable[tuple[str, list[str]]]:
        """Heading and cells, less what is empty."""
        for whose, cells in {"paper": self.paper, "measured": self.measured}.items():
            if any(cell != "–" for cell in cells):
                yield f"{heading(self.key)}: {whose}" if self.compared else heading(self.key), cells

    @property
    def compared(self) -> bool:
        """Whether the paper says anything."""
        return any(cell != "–" for cell in self.paper)


class Results:
    """The jobs of a sweep as one table: a run's name, then keys of result.json, the paper's value before the measured.

    Keys: what every sweep shows, those for which a row gives the paper's value, and `keys`; less the empty ones.
    Jobs that differ in their seed only are one line, of means ± standard deviations.
    """

    def __init__(self, jobs: Sequence[Job], keys: Sequence[str] = ()) -> None:
        last = ["accuracy", "epsilon", *OF_A_RUN]
        asked = [key for job in jobs for key in [*job.paper, *map(job.whole, keys)] if key not in last]
        self.runs: dict[str, list[Job]] = {}
        for job in jobs:
            self.runs.setdefault(job.name if job.result else f"{job.name}: {job.failure}", []).append(job)
        self.keys = {key: self._of(key) for key in dict.fromkeys(["answered", "label_accuracy", *asked, *last])}
        shown = [pair for column in self.keys.values() for pair in column.shown()]
        self.columns = ["run", *(name for name, _ in shown)]
        self.lines = [list(line) for line in zip(self.runs, *(cells for _, cells in shown), strict=True)]

    def _of(self, key: str) -> Column:
        lines = self.runs.values()
        paper = [_printed(key, jobs[0].paper.get(key)) for jobs in lines]
        return Column(key, paper, [_measured(key, [job.result.get(key) for job in of if job.result]) for of in lines])

    def rich(self, title: str) -> Table:
        """For a terminal."""
        table = Table(title=title, title_style="bold")
        for column in self.columns:
            table.add_column(column, justify="left" if column == "run" else "right")
        for line in self.lines:
            table.add_row(*line)
        return table

    def markdown(self, title: str) -> str:
        """For docs/results.md."""
        rule = ["---", *["---:"] * (len(self.columns) - 1)]
        lines = [self.columns, rule, *self.lines]
        return f"# {title}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _printed(key: str, value: Any) -> str:
    """A cell of the paper: as the sweep file gives it, but for shares."""
    if value is None:
        return "–"
    return percent(value) if is_share(key) and not isinstance(value, str) else str(value)


def mean(values: Sequence[Any]) -> float | None:
    """None where one of them is no number."""
    numbers = [value for value in values if isinstance(value, int | float)]
    return fmean(numbers) if numbers and len(numbers) == len(values) else None


def _measured(key: str, values: Sequence[Any]) -> str:
    """A cell of one run, or of several that differ in their seed."""
    middle, share = mean(values), is_share(key)
    if middle is None:
        return str(values[0]) if values and isinstance(values[0], str) else "–"
    whole = share or all(isinstance(value, int) for value in values)
    shown = percent(middle) if share else f"{middle:,.0f}" if whole else number(middle)
    if len(set(values)) < 2 or math.isinf(middle):
        return shown
    spread = f"{100 * stdev(values):.1f} %" if share else f"{stdev(values):,.{0 if whole else 3}f}"
    return f"{shown.removesuffix(' %')} ± {spread}"
