"""A sweep: its checks and its parent run in the tracker, and its table, figures and page at the end."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from nzc.app.config import shows_private
from nzc.app.errors import reported, stop
from nzc.app.jobs import SweepJob, compose_jobs, plan_jobs
from nzc.app.run import build_tracker
from nzc.runs import layout
from nzc.runs.formatting import optional, show
from nzc.storage.claim import OwnFolder, require_own
from nzc.sweeps.frame import JOBS, write_jobs
from nzc.sweeps.spec import check_keys, header_of, name_of, spec_of
from nzc.tracking import TrackedRun, tracked_name
from nzc.tracking.record import RECORD

if TYPE_CHECKING:
    from pandas import DataFrame

_SWEEP_FILES = (layout.SWEEP, JOBS, layout.TABLE, layout.TABLE_CSV, layout.PAGE)


class SweepHooks(Callback):
    """Opens a parent run before the jobs of a sweep, and answers its question after them."""

    current: ClassVar["SweepHooks | None"] = None  # the sweep that is under way in this process

    def __reduce__(self) -> Any:
        """Launchers send callbacks to their workers, which do not need this one's state."""
        return type(self), ()

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        self.config, self.folder = config, Path(config.hydra.sweep.dir)
        self.own = OwnFolder("hydra.sweep.dir", self.folder)
        with reported(), ExitStack() as undo:  # Hydra would make a warning of an error
            undo.callback(self.own.undo)
            require_own("hydra.sweep.dir", self.folder)
            jobs = _checked_jobs(config)
            header, earlier = header_of(config), self.folder / layout.SWEEP
            self.tracked = TrackedRun(
                build_tracker(config),
                self.folder,
                experiment=config.hydra.runtime.choices.dataset,
                name=tracked_name([name_of(config)], layout.as_typed(config.hydra.overrides.task)),
                question=header.get("Question") or next(iter(header.values()), ""),
            )
            before = spec_of(OmegaConf.load(earlier)).figures if earlier.is_file() else None
            if self.tracked.tracker is not None:
                self.tracked.tracker.check(self.tracked.experiment)
            self.own.take()
            self.tracked.open()
            undo.pop_all()
        if before is not None:
            layout.clear(self.folder, _SWEEP_FILES, [figure.name for figure in before])
            for job in _begun(self.folder):
                layout.write_error(job, layout.NOT_STARTED)
        OmegaConf.save(config, self.folder / layout.SWEEP)  # not every sweeper writes it
        if jobs:
            write_jobs(self.folder, [vars(job) | {"row": job.row.model_dump()} for job in jobs])
        SweepHooks.current = self

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        jobs = self.answer()
        failed = int(jobs["error"].notna().sum())
        SweepHooks.current = None
        self.tracked.close("FAILED" if failed else "FINISHED")
        self.own.close()
        if failed:
            from nzc.sweeps.table import failure_lines

            stop(2, *failure_lines(jobs), f"{failed} of {len(jobs)} jobs did not finish; the others are whole")

    def answer(self) -> "DataFrame":
        """Write table, figures and page of the finished jobs, and return all jobs."""
        from nzc.sweeps.page import write_page
        from nzc.sweeps.table import Sweep, write_csv

        sweep = Sweep(self.folder)
        table = sweep.table(sweep.jobs)
        with optional("table"):
            (self.folder / layout.TABLE).write_text(table.markdown(), encoding="utf-8")
            write_csv(self.folder, sweep.jobs)
        if shows_private(self.config):
            show(table)
        with optional("figures"):
            for drawing in sweep.drawings if self.config.figures is not False else []:
                drawing.plot(self.folder)
        with optional("page"):
            show(str(write_page(self.folder, sweep)), "dim")
        return sweep.jobs

    def close(self, stopped: bool) -> None:
        """Answer with what is finished, and close the parent run. Why the sweep ended is said elsewhere."""
        with suppress(Exception):
            if any(self.folder.glob(f"*/{layout.RESULT}")):
                self.answer()
        self.tracked.close("KILLED" if stopped else "FAILED")
        if not (_begun(self.folder) or (self.folder / RECORD).is_file()):  # as with a row that cannot be composed
            layout.clear(self.folder, _SWEEP_FILES, ())
            self.own.undo()
        self.own.close()


def _begun(folder: Path) -> list[Path]:
    """Return the folders of the jobs that have begun."""
    return [path for path in folder.iterdir() if path.name.isdigit() and path.is_dir()]


def _checked_jobs(config: DictConfig) -> list[SweepJob]:
    """Return the jobs of the sweeper `rows`; another makes its own. Wrong keys end the command, a line for each."""
    spec = spec_of(config)
    jobs = plan_jobs(config) if config.hydra.runtime.choices["hydra/sweeper"] == "rows" else []
    configs, mistakes = compose_jobs(config, jobs) if jobs else ([config], [])
    if mistakes := [*mistakes, *map(str, check_keys(spec, configs))]:
        stop(2, *mistakes)
    return jobs


@contextmanager
def answer_interrupted() -> Iterator[None]:
    """Answer an interrupted sweep with what is finished, and close its parent run. Hydra only reports good ends."""
    try:
        yield
    except BaseException as error:
        sweep, SweepHooks.current = SweepHooks.current, None
        if sweep is not None:
            sweep.close(stopped=isinstance(error, KeyboardInterrupt))
            with reported():
                raise
        raise
