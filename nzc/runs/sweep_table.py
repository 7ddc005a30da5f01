"""The jobs of a sweep as one table: for people (paper's values beside the measured) and for programs (CSV)."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from nzc.data.files import write_private
from nzc.runs.formatting import EPSILONS, heading, is_share, number, percent, some
from nzc.runs.layout import TABLE_CSV, Job
from nzc.runs.metrics import unequal_classes
from nzc.validation import InputError

if TYPE_CHECKING:
    from pandas import DataFrame

#: The last columns. The ledger's sums are not among them, because they also count what came before a run.
_LAST = ["accuracy", "epsilon", *(f"epsilon.{name}" for name in EPSILONS if not name.startswith("ledger_"))]

#: A line about failed jobs names up to so many.
_NAMED = 3
#: What a column of a table on a terminal takes beside its text.
_BORDER = 3


class SweepTable:
    """The finished jobs as lines. Columns: the run's name, then keys of result.json with the paper's value before the
    measured.

    Keys are those that every sweep shows, those with a paper's value in a row, and `keys`; columns without a value are
    left out. Jobs that differ in their seed only share one line of means ± standard deviations. Below the table stand
    notes, and a line for each different error of the other jobs.
    """

    def __init__(self, jobs: Sequence[Job], keys: Sequence[str] = (), title: str = "") -> None:
        self.title, self.jobs = title, jobs
        asked = [key for job in jobs for key in [*job.paper, *map(job.whole_key, keys)] if key not in _LAST]
        runs: dict[str, list[Job]] = {}
        for job in jobs:
            if job.result:
                runs.setdefault(job.name, []).append(job)
        self.columns: list[tuple[str, list[str]]] = []  # heading and cells
        self.notes = _spread(runs)
        merits = [key for key in asked if key.startswith("metrics.")]  # stand beside the student's accuracy
        if any(unequal_classes(job.result) for job in jobs):
            merits = ["metrics.balanced_accuracy", *merits]
        others = [key for key in asked if key not in merits]
        for key in dict.fromkeys(["answered", "label_accuracy", *others, "accuracy", *merits, *_LAST]):
            paper = [_printed(key, of[0].paper.get(key)) for of in runs.values()]
            values = {name: [job.result.get(key) for job in of] for name, of in runs.items()}
            measured = [_measured(key, each) for each in values.values()]
            if compared := any(cell != "–" for cell in paper):
                self.columns.append((f"{heading(key)}: paper", paper))
            if any(cell != "–" for cell in measured):
                self.columns.append((f"{heading(key)}: measured" if compared else heading(key), measured))
                self.notes += _incomplete(key, values)
        self.notes += _not_compared(jobs)
        self.headings = ["run", *(name for name, _ in self.columns)]
        self.lines = [list(line) for line in zip(runs, *(cells for _, cells in self.columns), strict=True)]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table for a terminal: in parts, one below the other, where it is too wide. No number is broken."""
        names = [line[0] for line in self.lines]
        room = options.max_width - 1 - _BORDER
        widths = [_longest([*cells, *name.split()]) + _BORDER for name, cells in self.columns]
        word = _longest(" ".join(["run", *names]).split())
        left = room - sum(widths)  # for the names of the runs; they may be broken between words
        run = min(_longest(["run", *names]), max(word, left if left >= word else room // 3))
        parts: list[list[tuple[str, int, list[str]]]] = []
        left = 0
        for (name, cells), width in zip(self.columns, widths, strict=True):
            if width > left:
                parts.append([("run", run, names)])
                left = room - run
            parts[-1].append((name, width - _BORDER, cells))
            left -= width
        for at, part in enumerate(parts):
            table = Table(title=None if at else self.title, title_style="bold")
            for name, width, _ in part:
                table.add_column(name, justify="left" if name == "run" else "right", width=width)
            for line in zip(*(cells for _, _, cells in part), strict=True):
                table.add_row(*line)
            yield table
        for note in self.notes:
            yield Text(note, style="dim")

    def markdown(self) -> str:
        """Return the table in Markdown."""
        lines = [self.headings, ["---", *["---:"] * len(self.columns)], *self.lines]
        table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
        failed = "".join(f"- {line}\n" for line in failures(self.jobs))
        return "\n".join([f"# {self.title}\n", table, *(f"{note}\n" for note in self.notes), failed]).rstrip() + "\n"


def failures(jobs: Sequence[Job]) -> list[str]:
    """Return a line for each different error of the jobs that did not finish: how many, why, and which."""
    return [f"{count}: {why} ({which})" for count, why, which in grouped_failures(jobs)]


def grouped_failures(jobs: Sequence[Job]) -> list[tuple[str, str, str]]:
    """Return the jobs that did not finish as (how many, why, which), one entry for each different error."""
    groups: dict[str, list[Job]] = {}
    for job in jobs:
        if not job.result:
            groups.setdefault(job.failure, []).append(job)
    found = []
    for why, of in groups.items():
        noun = "job" if len(of) == 1 else "jobs"
        numbers, names = _ranges([int(job.folder.name) for job in of]), some((job.name for job in of), _NAMED)
        found.append((f"{len(of)} {noun}", why, f"{noun} {numbers}: {names}"))
    return found


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
    shown = percent(mean) if share else f"{mean:,.0f}" if whole else number(mean, key)
    if len(set(values)) < 2 or math.isinf(mean):
        return shown
    spread = f"{100 * stdev(values):.1f} %" if share else f"{stdev(values):,.{0 if whole else 3}f}"
    return f"{shown.removesuffix(' %')} ± {spread}"


def _spread(runs: Mapping[str, Sequence[Job]]) -> list[str]:
    """Return the note on lines of several seeds, if there are any."""
    counts = {len(of) for of in runs.values()}
    several = f"{'up to ' if len(counts) > 1 else ''}{max(counts, default=0)}"
    return [f"Mean ± standard deviation over {several} seeds."] if counts - {1} else []


def _incomplete(key: str, values: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return notes on lines whose runs do not all have a value, or of which only some are infinite."""
    lacking, infinite = [], []
    for name, each in values.items():
        none, endless = each.count(None), each.count(math.inf)
        if 0 < none < len(each) or (none and key == "accuracy"):
            lacking.append(name if none == len(each) else f"{name} ({none} of {len(each)} runs)")
        if 0 < endless < len(each):
            infinite.append(f"{name} ({endless} of {len(each)} runs)")
    notes = {"without a value": lacking, "∞ in some runs only": infinite}
    return [f"{heading(key)}, {what}: {some(names)}." for what, names in notes.items() if names]


def _not_compared(jobs: Sequence[Job]) -> list[str]:
    """Return the note on the paper's values that the command line has made another experiment's, if there are any."""
    compared = [job for job in jobs if job.result and job.row.get("paper")]
    if not (hidden := [job for job in compared if job.replaced]):
        return []
    replaced = ", ".join(dict.fromkeys(each for job in hidden for each in job.replaced))
    whose = "" if len(hidden) == len(compared) else f" of {some(job.name for job in hidden)}"
    return [f"The paper's values{whose} are not shown: they hold for the sweep file's settings, not for {replaced}."]


def _longest(texts: Iterable[str]) -> int:
    return max(map(cell_len, texts), default=0)


def _ranges(numbers: Sequence[int]) -> str:
    """Return 0 to 3, 7 for [0, 1, 2, 3, 7]."""
    runs: list[list[int]] = []
    for each in sorted(numbers):
        if runs and each == runs[-1][-1] + 1:
            runs[-1].append(each)
        else:
            runs.append([each])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)
