"""How long the stages of a run take."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from nzc.types import StageLog


@dataclass
class Clock:
    """Measures the seconds of each stage.

    say  receives every stage that is reported by `done`; None: nobody does
    """

    say: StageLog | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    _last: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self._last[stage] = time.perf_counter() - start
        self.seconds[stage] = round(self.seconds.get(stage, 0.0) + self._last[stage], 3)

    def done(self, stage: str, what: str) -> None:
        """Report `what` a stage did, and how long it took the last time."""
        if self.say is not None:
            self.say(stage, what, self._last[stage])
