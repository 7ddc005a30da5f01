"""How long the stages of a run take."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

#: The stages of a run: the keys of `seconds` in result.json.
Stage = Literal["total", "representation", "teachers", "votes", "labels", "accounting", "student"]


@dataclass
class Clock:
    """Measures the seconds of each stage."""

    seconds: dict[Stage, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, stage: Stage) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[stage] = round(self.seconds.get(stage, 0.0) + time.perf_counter() - start, 3)
