"""The stages of a run, and the clock that measures them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from nzc.types import StageLog

#: The keys of `seconds` in result.json: what the user waited for these numbers in all; before the
#: first stage, for imports and data; and for each stage.
Stage = Literal[
    "total", "preparation", "representation", "teachers", "votes", "labels", "accounting", "student"
]


class Clock:
    """Measures the seconds of each stage of a run, whose preparation began at `begun`."""

    def __init__(self, begun: float, say: StageLog | None = None) -> None:
        self.begun = begun
        self.say = say
        self.seconds: dict[Stage, float] = {}
        self._last: dict[Stage, float] = {}
        self.since_begun("preparation")

    def since_begun(self, stage: Stage) -> None:
        """Let a stage have begun with the preparation, and end now."""
        self.seconds[stage] = round(time.time() - self.begun, 3)

    @contextmanager
    def __call__(self, stage: Stage) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self._last[stage] = time.perf_counter() - start
        self.seconds[stage] = round(self.seconds.get(stage, 0.0) + self._last[stage], 3)

    def done(self, stage: Stage, what: str, name: str = "") -> None:
        """Report `what` a stage did the last time, and how long it took; `name`: its other name."""
        if self.say is not None:
            self.say(name or stage, what, self._last[stage])
