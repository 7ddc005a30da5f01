"""What standard error says while a run works: bars on a terminal, a line a stage elsewhere. It needs no torch."""

import sys

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class Bar:
    """A bar with a heading, what it counts, the time used and the time left. It is silent where there is no terminal.

    unit  what is counted; None: what the name says
    """

    def __init__(self, name: str, shown: bool = True, unit: str | None = None) -> None:
        counted = TextColumn("{task.completed:,.0f} of {task.total:,.0f} " + (unit or name.lower()))
        columns = (TextColumn("{task.description:9}"), BarColumn(), counted, TextColumn("·"), TimeElapsedColumn())
        left = (TextColumn("used,"), TimeRemainingColumn(), TextColumn("left"))
        console = Console(stderr=True)
        self._bar = Progress(*columns, *left, console=console, refresh_per_second=4)
        self._bar.disable = not (shown and console.is_terminal)
        self._task = self._bar.add_task(name)

    def start(self, total: float) -> None:
        self._bar.update(self._task, total=total)
        self._bar.start()

    def advance(self, by: float = 1.0) -> None:
        self._bar.advance(self._task, by)

    def close(self) -> None:
        self._bar.stop()


def say_stage(stage: str, done: str, seconds: float, timed: bool = True) -> None:
    """Print one line for a stage that ended, where there is no terminal: the log of a batch job.

    timed  whether the line may have the seconds: those of one stage depend on votes
    """
    if not Console(stderr=True).is_terminal:
        took = f" in {seconds:.1f} s" if timed else ""
        print(f"nzc: {stage}: {done}{took}", file=sys.stderr, flush=True)
