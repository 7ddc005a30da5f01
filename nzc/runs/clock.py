"""How long the stages of a run take, and a line about each for the log of a batch job."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from nzc.training.progress import say_stage


@dataclass
class Clock:
    """Measures the seconds of each stage.

    speaks  whether a stage that `done` reports gets a line on standard error; on a terminal there are bars instead
    """

    speaks: bool = False
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self._last = time.perf_counter() - start
        self.seconds[stage] = round(self.seconds.get(stage, 0.0) + self._last, 3)

    def done(self, stage: str, what: str) -> None:
        """Report `what` the stage that has just ended did, and how long it took."""
        if self.speaks:
            say_stage(stage, what, self._last)
