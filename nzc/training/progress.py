"""What standard error says while a run works: bars on a terminal, a line a stage elsewhere. It needs no torch."""

import sys

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


def bar(shown: bool) -> Progress:
    """Return a bar with its heading, what is done, the time used and the time left; silent without a terminal."""
    columns = TextColumn("{task.description:9}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    console = Console(stderr=True)
    return Progress(*columns, TimeRemainingColumn(), console=console, disable=not (shown and console.is_terminal))


def say_stage(stage: str, done: str, seconds: float, timed: bool = True) -> None:
    """Print one line for a stage that ended, without a terminal; `timed`: its seconds do not depend on votes."""
    if not Console(stderr=True).is_terminal:
        took = f" in {seconds:.1f} s" if timed else ""
        print(f"nzc: {stage}: {done}{took}", file=sys.stderr, flush=True)
