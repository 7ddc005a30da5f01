"""A sweep as a whole: its parent run, table, figures and page. Its rows become jobs in hydra_plugins/nzc.py."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from nzc._files import take_back
from nzc.complaints import TRACEBACK, complaint, stop
from nzc.config import build, shows_private
from nzc.errors import InputError
from nzc.question import SweepFigure, figures_of, name_of, rows_of
from nzc.report import page, show
from nzc.report.folder import ASKED, ERROR, FIGURES, NOT_STARTED, RESULT, SWEEP, TABLE, Job, clear, jobs_of
from nzc.report.results import Results
from nzc.tracking import Tracker
from nzc.tracking.tracked import NOTE, PARENT, fail, leave_parent, send, start


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
            rows_of(config)
            _check_sweeper(config)
            self.tracker, self.run = build(config, "tracking", Tracker), None
            folder = Path(config.hydra.sweep.dir)
            if self.tracker is not None:
                self.run = start(self.tracker, folder, config.hydra.runtime.choices.dataset, name_of(config), {}, None)
        except Exception as error:  # Hydra would make a warning of it
            if TRACEBACK:
                raise
            stop(*complaint(error))
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / SWEEP).is_file():
            before: Any = OmegaConf.load(folder / SWEEP)
            clear(folder, (ASKED, TABLE, page.FILE), [figure.name for figure in figures_of(before)])
            for job in [path for path in folder.iterdir() if path.name.isdigit() and path.is_dir()]:
                (job / ERROR).write_text(f"{NOT_STARTED}\n")
        leave_parent(folder, self.run)
        OmegaConf.save(config, folder / SWEEP)  # not every sweeper leaves it
        self.config, SweepReport.current = config, self

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        SweepReport.current = None
        folder = Path(config.hydra.sweep.dir)
        jobs, wrong = self.answer()
        if self.tracker is not None:
            send(folder, self.run, "FINISHED", partial(self.tracker.finish, folder=folder))
        if failed := sum(job.result is None for job in jobs):
            wrong.append(f"{failed} of {len(jobs)} jobs did not finish; the others are whole")
        if wrong:
            stop(2, *wrong)

    def answer(self) -> tuple[list[Job], list[object]]:
        """The table, figures and page of what has finished; the jobs, and what was wrong with the figures."""
        config, folder = self.config, Path(self.config.hydra.sweep.dir)
        jobs = jobs_of(folder, rows_of(config))
        table = Results(jobs, [key for figure in self.figures for key in figure.y])
        (folder / TABLE).write_text(table.markdown(name_of(config)))
        if shows_private(config):
            show(table.rich(name_of(config)))
        wrong = [] if config.figures is False else _draw(self.figures, jobs, folder)
        show(str(page.write(folder)), "dim")
        return jobs, wrong


def _check_sweeper(config: DictConfig) -> None:
    """InputError where a search is set up, but the sweeper is the one of rows, which cannot search."""
    search = [key for key in config.hydra.sweeper if key not in ("_target_", "max_batch_size", "params")]
    if search and config.hydra.runtime.choices["hydra/sweeper"] == "rows":
        allowed = f"must be optuna, of the extra `search`, where hydra.sweeper.{search[0]} is set"
        raise InputError("hydra/sweeper", "rows", allowed)


@contextmanager
def closing() -> Iterator[None]:
    """Where a sweep does not come to its end, answers with what there is and closes the parent run: Hydra tells
    callbacks of good ends only."""
    stopped = False
    try:
        yield
    except KeyboardInterrupt:
        stopped = True
        raise
    finally:
        report, SweepReport.current = SweepReport.current, None
        if report is not None:
            folder = Path(report.config.hydra.sweep.dir)
            with suppress(Exception):  # why the sweep ended is what must be said
                if any(folder.glob(f"*/{RESULT}")):
                    report.answer()
            if report.tracker is not None:
                fail(folder, report.run, report.tracker, stopped)
            left = {path.name for path in folder.iterdir()}
            if NOTE not in left and not any(map(str.isdigit, left)):  # no job began: a row that cannot be composed
                clear(folder, (SWEEP, ASKED, PARENT), ())
                take_back(folder, 4, Path(report.config.hydra.runtime.cwd))


def _draw(figures: list[SweepFigure], jobs: list[Job], folder: Path) -> list[object]:
    """Draw what can be drawn; what is wrong with the others."""
    wrong: list[object] = []
    finished = [job for job in jobs if job.result is not None]
    for figure in figures if finished else []:
        from nzc.figures import of_sweep

        try:
            of_sweep(figure, finished, folder / FIGURES)
        except InputError as error:
            wrong.append(error)
    return wrong
