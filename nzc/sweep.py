"""A sweep's parent run, its table, paper beside measured, and its figures. Its rows become jobs in
hydra_plugins/nzc.py."""

import json
import math
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, ClassVar

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf
from rich.table import Table

from nzc.config import build
from nzc.errors import InputError
from nzc.report import EPSILONS, heading, is_share, number, percent, show

#: The ε that are a run's own; the ledger's total counts whatever came before it.
OF_A_RUN = [f"epsilon.{name}" for name in EPSILONS if name != "ledger_total"]
#: What a job leaves in its folder when its input was wrong: the line it printed.
ERROR = "error.txt"


@dataclass(frozen=True)
class SweepFigure:
    """An entry of `sweep.figures`: keys y of the runs by their key x, a line each; or one curve of every run.

    A key is one of result.json (`teachers.mean_accuracy`, or `mean_accuracy` for short) or of the configuration
    (`aggregator.gamma`); a curve is one of nzc/curves.py.
    """

    name: str
    x: str | None = None
    y: tuple[str, ...] = ()
    by: tuple[str, ...] = ()  # keys: a line for each of their values
    curve: str | None = None
    ylim: tuple[float, float] | None = None  # what the y axis shows, where not everything

    @classmethod
    def of(cls, at: int, entry: Any) -> "SweepFigure":
        """Entry `at` as the sweep file gives it."""
        allowed = [field.name for field in fields(cls)]
        key = f"sweep.figures.{at}"
        if not isinstance(entry, dict):
            raise InputError(key, entry, f"must have the keys {', '.join(allowed)}")
        for unknown in entry.keys() - set(allowed):
            raise InputError(f"{key}.{unknown}", entry[unknown], f"must be one of the keys {', '.join(allowed)}")
        name, lines = entry.get("name"), entry.get("x") is not None and bool(entry.get("y"))
        if not isinstance(name, str) or not re.fullmatch(r"[\w-]+", name):
            raise InputError(f"{key}.name", name, "must be a word: figures/NAME.svg is drawn")
        if lines == (entry.get("curve") is not None):
            raise InputError(key, name, "must have x and y, or else curve")
        ylim = entry.get("ylim")
        numbers = isinstance(ylim, list) and all(isinstance(end, int | float) for end in ylim)
        if ylim is not None and not (numbers and len(ylim) == 2 and ylim[0] < ylim[1]):
            raise InputError(f"{key}.ylim", ylim, "must be two numbers, the smaller first")
        lists = {key: entry.get(key) or () for key in ("y", "by")}
        keys = {key: (value,) if isinstance(value, str) else tuple(value) for key, value in lists.items()}
        return cls(**entry | keys)


def rows_of(config: DictConfig | None) -> list[dict[str, Any]]:
    """The rows of a composed configuration, each once for every point of its own grid; none without a sweep file.

    `+sweep.only=TEXT` keeps those with this in their name.
    """
    rows = [point for row in _asked(config, "rows") for point in _points(row)]
    only = "" if config is None or config.get("sweep") is None else str(config.sweep.get("only") or "")
    if rows and not (kept := [row for row in rows if only in row["name"]]):
        raise InputError("sweep.only", only, f"must be in the name of a row: {'; '.join(row['name'] for row in rows)}")
    return kept if rows else []


def _points(row: dict[str, Any]) -> list[dict[str, Any]]:
    """A row with `aggregator.gamma=0.05,0.1` among what it sets is two rows, told apart by name."""
    grid: list[list[str]] = []
    for text in map(str, row.get("set", [])):
        override = OverridesParser.create().parse_override(text)
        values = override.sweep_string_iterator() if override.is_sweep_override() else []
        grid.append([f"{override.get_key_element()}={value}" for value in values] or [text])
    points = list(product(*grid))
    own = {options[0] for options in grid if len(options) == 1}
    names = [
        ", ".join(filter(None, [row.get("name"), *(part for part in point if part not in own)])) for point in points
    ]
    return [row | {"name": name, "set": list(point)} for name, point in zip(names, points, strict=True)]


def figures_of(config: DictConfig) -> list[SweepFigure]:
    """The figures that it declares."""
    return [SweepFigure.of(at, entry) for at, entry in enumerate(_asked(config, "figures"))]


def _asked(config: DictConfig | None, what: str) -> list[Any]:
    asked: Any = None if config is None or config.get("sweep") is None else config.sweep.get(what)
    entries: Any = [] if asked is None else OmegaConf.to_container(asked)
    return list(entries)


class SweepReport(Callback):
    """Opens a parent run before the jobs of a sweep, and closes it with their table and figures after."""

    #: That of the sweep that is under way in this process.
    current: ClassVar["SweepReport | None"] = None

    def __reduce__(self) -> Any:
        """Launchers send callbacks to their workers, which have no use for this one."""
        return type(self), ()

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        try:
            self.figures = figures_of(config)
            self.tracker, self.run = build(config, "tracking"), None
            if self.tracker is not None:
                self.run = self.tracker.start(config.hydra.runtime.choices.dataset, _name(config), {}, None)
                SweepReport.current = self
        except InputError as error:  # Hydra would make a warning of it
            _stop(error)
        folder = Path(config.hydra.sweep.dir)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "parent.json").write_text(json.dumps({"run": self.run}))

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        folder, rows = Path(config.hydra.sweep.dir), rows_of(config) or [{}]
        found = sorted((path for path in folder.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
        jobs = _named([Job(path, rows[at % len(rows)]) for at, path in enumerate(found)])
        table = Results(jobs, [key for figure in self.figures for key in figure.y])
        (folder / "table.md").write_text(table.markdown(_name(config)))
        show(table.rich(_name(config)))
        wrong = [] if config.figures is False else _draw(self.figures, jobs, folder)
        if self.tracker is not None:
            SweepReport.current = None
            try:
                self.tracker.finish(self.run, folder, None)
            except Exception as error:  # nothing is lost: the table is whole
                wrong.append(f"the sweep could not be tracked ({error}); its table is in {folder}")
        if failed := sum(job.result is None for job in jobs):
            wrong.append(f"{failed} of {len(jobs)} jobs did not finish; the others are whole")
        if wrong:
            _stop(*wrong)


@contextmanager
def closing() -> Iterator[None]:
    """Closes the parent run of a sweep that did not come to its end: Hydra tells callbacks of good ends only."""
    stopped = False
    try:
        yield
    except KeyboardInterrupt:
        stopped = True
        raise
    finally:
        report, SweepReport.current = SweepReport.current, None
        if report is not None:
            with suppress(Exception):  # why the sweep ended is what must be said
                report.tracker.fail(report.run, stopped)


def _draw(figures: list[SweepFigure], jobs: "list[Job]", folder: Path) -> list[object]:
    """Draw what can be drawn; what is wrong with the others."""
    wrong: list[object] = []
    finished = [job for job in jobs if job.result is not None]
    for figure in figures if finished else []:
        from nzc.figures import FOLDER, of_sweep

        try:
            of_sweep(figure, finished, folder / FOLDER)
        except InputError as error:
            wrong.append(error)
    return wrong


def _stop(*wrong: object) -> None:
    for line in wrong:
        print(f"nzc: {line}", file=sys.stderr)
    sys.exit(2)


def parent(sweep_dir: str | None) -> str | None:
    """The parent run of a job, as the callback left it in the sweep's folder."""
    path = Path(sweep_dir or "") / "parent.json"
    if sweep_dir is None or not path.is_file():
        return None
    run: str | None = json.loads(path.read_text())["run"]
    return run


def _name(config: DictConfig) -> str:
    choices = config.hydra.runtime.choices
    return str(choices.get("sweeps") or "sweep")


@dataclass(frozen=True)
class Job:
    """One run of a sweep: its folder, the row of the sweep file that asked for it, and its name among the others."""

    folder: Path
    row: dict[str, Any]
    name: str = ""

    @cached_property
    def overrides(self) -> list[str]:
        """Of the command line, the grid and the row."""
        return [str(override) for override in OmegaConf.load(self.folder / ".hydra" / "overrides.yaml")]

    @cached_property
    def result(self) -> dict[str, Any] | None:
        """result.json with dotted keys and infinite numbers as such; None where the run did not finish."""
        path = self.folder / "result.json"
        if not path.is_file():
            return None
        return {key: float("inf") if value == "inf" else value for key, value in flat(json.loads(path.read_text()))}

    @cached_property
    def paper(self) -> dict[str, Any]:
        """The paper's values, under whole keys; none where the run did not finish."""
        return (
            {} if self.result is None else {self.whole(key): value for key, value in self.row.get("paper", {}).items()}
        )

    @cached_property
    def _config(self) -> Any:
        return OmegaConf.load(self.folder / ".hydra" / "config.yaml")

    def whole(self, key: str) -> str:
        """mean_accuracy → teachers.mean_accuracy; a key that says where it stands, or is not known, as it is."""
        known = self.result or {}
        longer = [name for name in known if name.endswith(f".{key}")]
        return key if key in known or not longer else longer[0]

    def value(self, key: str) -> Any:
        """The value of a whole key in result.json or else in the configuration; KeyError where there is none."""
        if self.result is not None and key in self.result:
            return self.result[key]
        if (value := OmegaConf.select(self._config, key)) is None or OmegaConf.is_config(value):
            raise KeyError(key)
        return value


def flat(record: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """A nested record by dotted keys."""
    return [
        pair
        for key, value in record.items()
        for pair in (flat(value, f"{prefix}{key}.") if isinstance(value, dict) else [(prefix + key, value)])
    ]


class Results:
    """The jobs of a sweep as one table: a run's name, then keys of result.json, the paper's value before the measured.

    Columns: what every sweep shows, the keys for which a row gives the paper's value, and `keys`; less the empty ones.
    Jobs that differ in their seed only are one line, of means ± standard deviations.
    """

    def __init__(self, jobs: Sequence[Job], keys: Sequence[str] = ()) -> None:
        last = ["accuracy", "epsilon", *OF_A_RUN]
        asked = [key for job in jobs for key in [*job.paper, *map(job.whole, keys)] if key not in last]
        lines: dict[str, list[Job]] = {}
        for job in jobs:
            lines.setdefault(job.name if job.result else f"{job.name}: {_said(job)}", []).append(job)
        self.columns, cells = ["run"], [list(lines)]
        for key in dict.fromkeys(["answered", "label_accuracy", *asked, *last]):
            paper = [_printed(key, of[0].paper.get(key)) for of in lines.values()]
            measured = [_measured(key, [job.result.get(key) for job in of if job.result]) for of in lines.values()]
            beside = any(cell != "–" for cell in paper)
            for whose, column in {"paper": paper, "measured": measured}.items():
                if any(cell != "–" for cell in column):
                    self.columns.append(f"{heading(key)}: {whose}" if beside else heading(key))
                    cells.append(column)
        self.lines = [list(line) for line in zip(*cells, strict=True)]

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


def _named(jobs: Sequence[Job]) -> list[Job]:
    """Each with the name of its row, and what of the grid it has to itself, but for the seed."""
    common = set.intersection(*(set(job.overrides) for job in jobs)) if len(jobs) > 1 else set()
    named = []
    for job in jobs:
        known = {*common, *job.row.get("set", [])}
        own = [override for override in job.overrides if override not in known and not override.startswith("seed=")]
        named.append(replace(job, name=", ".join(filter(None, [job.row.get("name"), " ".join(own)])) or "run"))
    return named


def _said(job: Job) -> str:
    return (job.folder / ERROR).read_text().strip() if (job.folder / ERROR).is_file() else "did not finish"


def _printed(key: str, value: Any) -> str:
    """A cell of the paper: as the sweep file gives it, but for shares."""
    if value is None:
        return "–"
    return percent(value) if is_share(key) and not isinstance(value, str) else str(value)


def _measured(key: str, values: Sequence[Any]) -> str:
    """A cell of one run, or of several that differ in their seed."""
    numbers = [value for value in values if isinstance(value, int | float)]
    if not numbers or len(numbers) < len(values):
        return str(values[0]) if values and isinstance(values[0], str) else "–"
    mean, share = fmean(numbers), is_share(key)
    whole = share or all(isinstance(value, int) for value in numbers)
    shown = percent(mean) if share else f"{mean:,.0f}" if whole else number(mean)
    if len(set(numbers)) < 2 or math.isinf(mean):
        return shown
    spread = f"{100 * stdev(numbers):.1f} %" if share else f"{stdev(numbers):,.{0 if whole else 3}f}"
    return f"{shown.removesuffix(' %')} ± {spread}"
