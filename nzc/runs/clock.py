"""How long the stages of a run take."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from nzc.types import StageLog

#: The stages of a run: the keys of `seconds` in result.json.
Stage = Literal["total", "representation", "teachers", "votes", "labels", "accounting", "student"]


class Clock:
    """Measures the seconds of each stage. `say` receives those that `done` reports; None: nobody does."""

    def __init__(self, say: StageLog | None = None) -> None:
        self.say, self.seconds, self._last = say, dict[Stage, float](), dict[Stage, float]()

    @contextmanager
    def __call__(self, stage: Stage) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self._last[stage] = time.perf_counter() - start
        self.seconds[stage] = round(self.seconds.get(stage, 0.0) + self._last[stage], 3)

    def done(self, stage: Stage, what: str) -> None:
        """Report `what` a stage did, and how long it took the last time."""
        if self.say is not None:
            self.say(stage, what, self._last[stage])
