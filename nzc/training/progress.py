"""One progress bar, on a terminal's standard error; it needs no torch."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class Bar:
    """A bar with a name, a count, the time used and the time left. It is silent where there is no terminal."""

    def __init__(self, name: str, shown: bool = True) -> None:
        columns = (TextColumn("{task.description:9}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        console = Console(stderr=True)
        self._bar = Progress(*columns, TextColumn("·"), TimeRemainingColumn(), console=console, refresh_per_second=4)
        self._bar.disable = not (shown and console.is_terminal)
        self._task = self._bar.add_task(name)

    def start(self, total: float) -> None:
        self._bar.update(self._task, total=total)
        self._bar.start()

    def advance(self) -> None:
        self._bar.advance(self._task)

    def stop(self) -> None:
        self._bar.stop()
