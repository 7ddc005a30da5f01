"""A sweep: its parent run in the tracker, its rows as jobs, and its table, figures and page at the end."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from nzc.app.components import build
from nzc.app.config import shows_private
from nzc.app.error_messages import report, stop
from nzc.data.files import remove_empty
from nzc.runs import layout
from nzc.runs.formatting import show
from nzc.runs.sweep_spec import SweepRow, figures_of, header_of, name_of, rows_of
from nzc.tracking.outbox import RECORD, TrackedRun, tracked_name
from nzc.validation import InputError

_SWEEP_FILES = (layout.SWEEP, layout.JOBS, layout.TABLE, layout.TABLE_CSV, layout.PAGE)


class SweepHooks(Callback):
    """Opens a parent run before the jobs of a sweep, and answers its question after them."""

    current: ClassVar["SweepHooks | None"] = None  # the sweep that is under way in this process

    def __reduce__(self) -> Any:
        """Launchers send callbacks to their workers, which do not need this one's state."""
        return type(self), ()

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        self.config, self.folder, self.cwd = config, Path(config.hydra.sweep.dir), Path(config.hydra.runtime.cwd)
        try:
            self.figures = figures_of(config)
            expand_rows(config)
            _check_sweeper(config.hydra)
            tracker, header = build(config, "tracking"), header_of(config)
            self.tracked = TrackedRun(
                tracker,
                self.folder,
                experiment=config.hydra.runtime.choices.dataset,
                name=tracked_name([name_of(config)], layout.as_typed(config.hydra.overrides.task)),
                question=header.get("Question") or next(iter(header.values()), ""),
            )
            earlier: Any = self.folder / layout.SWEEP
            before = figures_of(OmegaConf.load(earlier)) if earlier.is_file() else None  # type: ignore[arg-type]
            self.tracked.start()
        except Exception as error:  # Hydra would make a warning of it
            report(error)
        if before is not None:
            layout.clear(self.folder, _SWEEP_FILES, [figure.name for figure in before])
            for job in [path for path in self.folder.iterdir() if path.name.isdigit() and path.is_dir()]:
                (job / layout.ERROR).write_text(f"{layout.NOT_STARTED}\n")
        OmegaConf.save(config, self.folder / layout.SWEEP)  # not every sweeper writes it
        SweepHooks.current = self

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        SweepHooks.current = None
        jobs, problems = self.answer()
        failed = sum(not job.result for job in jobs)
        self.tracked.finish(failed=failed > 0)
        if failed:
            problems.append(f"{failed} of {len(jobs)} jobs did not finish; the others are whole")
        if problems:
            stop(2, *problems)

    def answer(self) -> tuple[list[layout.Job], list[object]]:
        """Write table, figures and page of the finished jobs; return all jobs, and what is wrong with the figures."""
        from nzc.runs.page import write_page
        from nzc.runs.sweep_table import SweepTable, write_csv

        jobs, title = layout.read_jobs(self.folder), name_of(self.config)
        table = SweepTable(jobs, [key for figure in self.figures for key in figure.y])
        (self.folder / layout.TABLE).write_text(table.markdown(title))
        write_csv(self.folder, jobs)
        if shows_private(self.config):
            show(table.rich(title))
        problems: list[object] = []
        finished = [job for job in jobs if job.result]
        for figure in self.figures if finished and self.config.figures is not False else []:
            from nzc.runs.sweep_plots import plot_sweep  # only here: it imports matplotlib

            try:
                plot_sweep(self.folder, figure, finished)
            except InputError as error:
                problems.append(error)
        show(str(write_page(self.folder)), "dim")
        return jobs, problems


@contextmanager
def answer_interrupted() -> Iterator[None]:
    """Answer an interrupted sweep with what is finished, and close its parent run. Hydra only reports good ends."""
    try:
        yield
    except BaseException as error:
        sweep, SweepHooks.current = SweepHooks.current, None
        if sweep is not None:
            with suppress(Exception):  # why the sweep ended must be said instead
                if any(sweep.folder.glob(f"*/{layout.RESULT}")):
                    sweep.answer()
            sweep.tracked.fail(stopped=isinstance(error, KeyboardInterrupt))
            begun = any(path.name.isdigit() for path in sweep.folder.iterdir())
            if not begun and not (sweep.folder / RECORD).is_file():  # as with a row that cannot be composed
                layout.clear(sweep.folder, _SWEEP_FILES, ())
                remove_empty(sweep.folder, 4, sweep.cwd)
        raise


def expand_rows(config: DictConfig) -> list[SweepRow]:
    """Return the rows of a sweep file, each once for every combination of the values that it sets.

    `+sweep.only=TEXT` keeps the rows whose name contains TEXT.
    """
    rows = [point for at, row in enumerate(rows_of(config)) for point in _points(row, at)]
    only = str(OmegaConf.select(config, "sweep.only") or "")
    kept = [row for row in rows if only in (row.name or "")]
    if rows and not kept:
        names = "; ".join(row.name or "" for row in rows)
        raise InputError("sweep.only", only, f"must be in the name of a row: {names}")
    return kept


def plan_jobs(config: DictConfig, grid: Sequence[Override]) -> list[list[str]]:
    """Return the overrides of each job: every row with every point of the grid. They are written to jobs.json too.

    A row's value of a key replaces the grid's.
    """
    rows = expand_rows(config) or [SweepRow()]
    jobs = []
    for point, row in product(_combinations(grid), rows):
        taken = {each.split("=", 1)[0] for each in row.set}
        overrides = [*(each for each in point if each.split("=", 1)[0] not in taken), *row.set]
        jobs.append((row.model_dump(), overrides))
    layout.write_jobs(Path(config.hydra.sweep.dir), jobs)
    return [overrides for _, overrides in jobs]


def _points(row: SweepRow, at: int) -> list[SweepRow]:
    overrides = []
    for text in row.set:
        try:
            overrides.append(OverridesParser.create().parse_override(text))
        except HydraException as error:
            raise InputError(f"sweep.rows.{at}.set", text, "must read key=value") from error
    swept, found = [each.is_sweep_override() for each in overrides], []
    for point in _combinations(overrides):
        own = [each for each, several in zip(point, swept, strict=True) if several]
        values = [each if several else text for text, each, several in zip(row.set, point, swept, strict=True)]
        found.append(SweepRow(name=", ".join(filter(None, [row.name, *own])), set=values, paper=row.paper))
    return found


def _combinations(overrides: Sequence[Override]) -> list[list[str]]:
    """Return every combination of the overrides' values, as KEY=VALUE; the last override of a key counts."""
    values: dict[str, list[str]] = {}
    for override in overrides:
        key = override.get_key_element()
        if not override.is_sweep_override():
            values[key] = [f"{key}={override.get_value_element_as_str()}"]
        elif override.is_discrete_sweep():
            values[key] = [f"{key}={value}" for value in override.sweep_string_iterator()]
        else:
            raise InputError(key, override.value(), "must list its values; a search needs hydra/sweeper=optuna")
    return [list(point) for point in product(*values.values())]


def _check_sweeper(hydra: DictConfig) -> None:
    """Raise InputError where a search is configured, but the sweeper cannot search."""
    search = [key for key in hydra.sweeper if key not in ("_target_", "max_batch_size", "params")]
    if search and hydra.runtime.choices["hydra/sweeper"] == "rows":
        wanted = f"must be optuna, of the extra `search`, where hydra.sweeper.{search[0]} is set"
        raise InputError("hydra/sweeper", "rows", wanted)
