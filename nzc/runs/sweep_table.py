"""The jobs of a sweep as one table: for people (paper's values beside the measured) and for programs (CSV)."""

import math
from collections.abc import Sequence
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

#: The last columns. The ledger's sums are not among them, because they also count what came before a run.
_LAST = ["accuracy", "epsilon", *(f"epsilon.{name}" for name in EPSILONS if not name.startswith("ledger_"))]


class SweepTable:
    """The jobs as lines. Columns: the run's name, then keys of result.json with the paper's value before the measured.

    Keys are those that every sweep shows, those with a paper's value in a row, and `keys`; columns without a value are
    left out. Jobs that differ in their seed only share one line of means ± standard deviations.
    """

    def __init__(self, jobs: Sequence[Job], keys: Sequence[str] = ()) -> None:
        asked = [key for job in jobs for key in [*job.paper, *map(job.whole_key, keys)] if key not in _LAST]
        lines: dict[str, list[Job]] = {}
        for job in jobs:
            lines.setdefault(job.name if job.result else f"{job.name}: {job.failure}", []).append(job)
        self.columns: list[tuple[str, list[str]]] = []  # heading and cells
        merits = [key for key in asked if key.startswith("metrics.")]  # stand beside the student's accuracy
        others = [key for key in asked if key not in merits]
        for key in dict.fromkeys(["answered", "label_accuracy", *others, "accuracy", *merits, *_LAST]):
            paper = [_printed(key, of[0].paper.get(key)) for of in lines.values()]
            measured = [_measured(key, [job.result.get(key) for job in of if job.result]) for of in lines.values()]
            if compared := any(cell != "–" for cell in paper):
                self.columns.append((f"{heading(key)}: paper", paper))
            if any(cell != "–" for cell in measured):
                self.columns.append((f"{heading(key)}: measured" if compared else heading(key), measured))
        self.headings = ["run", *(name for name, _ in self.columns)]
        self.lines = [list(line) for line in zip(lines, *(cells for _, cells in self.columns), strict=True)]

    def rich(self, title: str) -> Table:
        """Return the table for a terminal."""
        table = Table(title=title, title_style="bold")
        for name in self.headings:
            table.add_column(name, justify="left" if name == "run" else "right")
        for line in self.lines:
            table.add_row(*line)
        return table

    def markdown(self, title: str) -> str:
        """Return the table in Markdown."""
        lines = [self.headings, ["---", *["---:"] * len(self.columns)], *self.lines]
        return f"# {title}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def write_csv(folder: Path, jobs: Sequence[Job]) -> None:
    """Write table.csv: one line per job, with its name, its own overrides, and every number of result.json."""
    from pandas import DataFrame

    lines = []
    for job in jobs:
        overrides = dict(each.partition("=")[::2] for each in job.overrides)
        result = {key: value for key, value in job.result.items() if not isinstance(value, list)}
        failure = None if job.result else job.failure
        lines.append({"job": job.folder.name, "name": job.name, "failure": failure, **overrides, **result})
    table = DataFrame(lines, dtype=object)  # of objects, so that whole numbers stay whole beside empty cells
    write_private(folder / TABLE_CSV, table.to_csv(index=False, lineterminator="\r\n"))


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
