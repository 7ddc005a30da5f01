"""A sweep's parent run, its table, figures and page. Its rows become jobs in hydra_plugins/nzc.py."""

import json
import re
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from nzc.config import build
from nzc.errors import InputError
from nzc.report import show
from nzc.report.results import SWEEP, Job, Results, jobs_of


@dataclass(frozen=True)
class SweepFigure:
    """An entry of `sweep.figures`: keys y of the runs by their key x, a line each; or one curve of every run.

    A key is one of result.json (`teachers.mean_accuracy`, or `mean_accuracy` for short) or of the configuration
    (`aggregator.gamma`); a curve is one of nzc/curves.py.
    """

    name: str
    x: str | None = None
    y: tuple[str, ...] = ()
    by: str | None = None  # a key: a line for each of its values
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
        y = entry.get("y", ())
        return cls(**entry | {"y": (y,) if isinstance(y, str) else tuple(y)})


def rows_of(config: DictConfig | None) -> list[dict[str, Any]]:
    """The rows of a composed configuration; none where no sweep file was asked for."""
    return _asked(config, "rows")


def figures_of(config: DictConfig) -> list[SweepFigure]:
    """The figures that it declares."""
    return [SweepFigure.of(at, entry) for at, entry in enumerate(_asked(config, "figures"))]


def _asked(config: DictConfig | None, what: str) -> list[Any]:
    asked: Any = None if config is None or config.get("sweep") is None else config.sweep.get(what)
    entries: Any = [] if asked is None else OmegaConf.to_container(asked)
    return list(entries)


class SweepReport(Callback):
    """Opens a parent run before the jobs of a sweep, and closes it with their table and figures after."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        try:
            self.figures = figures_of(config)
        except InputError as error:  # Hydra would make a warning of it
            _stop(error)
        folder = Path(config.hydra.sweep.dir)
        folder.mkdir(parents=True, exist_ok=True)
        self.tracker, self.run = build(config, "tracking"), None
        if self.tracker is not None:
            choices = config.hydra.runtime.choices
            self.run = self.tracker.start(choices.dataset, name_of(config), {}, None)
        (folder / "parent.json").write_text(json.dumps({"run": self.run}))
        OmegaConf.save(config, folder / SWEEP)  # not every sweeper leaves it

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        folder = Path(config.hydra.sweep.dir)
        jobs = jobs_of(folder, rows_of(config))
        table = Results(jobs, [key for figure in self.figures for key in figure.y])
        (folder / "table.md").write_text(table.markdown(name_of(config)))
        show(table.rich(name_of(config)))
        wrong = [] if config.figures is False else _draw(self.figures, jobs, folder)
        from nzc.report import page  # which imports this module

        show(f"[dim]{page.write(folder)}[/dim]")
        if self.tracker is not None and self.run is not None:
            self.tracker.finish(self.run, folder, None)
        if failed := sum(job.result is None for job in jobs):
            wrong.append(f"{failed} of {len(jobs)} jobs did not finish; the others are whole")
        if wrong:
            _stop(*wrong)


def _draw(figures: list[SweepFigure], jobs: list[Job], folder: Path) -> list[object]:
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


def name_of(config: DictConfig) -> str:
    """What a sweep is called: its file, where there is one."""
    choices = config.hydra.runtime.choices
    return str(choices.get("sweeps") or "sweep")
