"""What standard error says while a command works: bars on a terminal, lines elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Event, Thread

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from nzc.saying import say

#: Seconds from one line to the next.
EVERY = 10.0


def duration(seconds: float) -> str:
    """Return a number of seconds as a person says it: 40 s, 6 min, 3 h."""
    for length, unit in ((1, "s"), (60, "min")):
        if seconds < 100 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds / 3600:.0f} h"


@contextmanager
def lines(text: Callable[[], str]) -> Iterator[None]:
    """Print a line every ten seconds within this context: the command is not dead."""
    ended = Event()

    def tell() -> None:
        while not ended.wait(EVERY):
            say(text())

    Thread(target=tell, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


class Bar(Progress):
    """A bar with what is done, the time used and the time left; without a terminal: lines."""

    def __init__(self, shown: bool) -> None:
        console = Console(stderr=True)
        self._prints_lines = shown and not console.is_terminal
        self._lines = ExitStack()
        super().__init__(
            TextColumn("{task.description:9}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not shown or not console.is_terminal,
            speed_estimate_period=3600,  # seconds; a step may take minutes
        )

    def start(self) -> None:
        super().start()
        if self._prints_lines:
            self._lines.enter_context(lines(self._state))

    def stop(self) -> None:
        super().stop()
        self._lines.close()

    def _state(self) -> str:
        task = self.tasks[-1]
        done = f"{task.description.lower()}: {task.completed:,.0f} of {task.total or 0:,.0f} done"
        left = task.time_remaining
        return done if left is None else f"{done}, about {duration(left)} left"


def say_stage(stage: str, done: str, seconds: float, timed: bool = True) -> None:
    """Print one line for a stage that ended, where there is no terminal: the log of a batch job.

    timed  whether the line may have the seconds: those of one stage depend on votes
    """
    if not Console(stderr=True).is_terminal:
        took = f" in {seconds:.1f} s" if timed else ""
        say(f"{stage}: {done}{took}")
