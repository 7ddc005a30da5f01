"""The interface of a tracker."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nzc.runs.layout import LABELS, LEARNING_CURVES, PREDICTIONS, STUDENT_INPUT, SWEEP

#: Files of a run or a sweep that depend on no vote, and on no ε that follows from votes.
PUBLIC_FILES = (
    LABELS,
    PREDICTIONS,
    STUDENT_INPUT,
    LEARNING_CURVES,
    SWEEP,
    "jobs.json",
    "confusion.svg",
    "confusion.png",
)


class Unreachable(Exception):
    """The tracking server does not answer. The run is sent later."""


class Tracker(ABC):
    """Records runs, and sweeps as parents of runs.

    private  whether to record also what may not be published: exact ε, accuracies of teachers, figures. curves.csv is
             never recorded.
    heard    time.monotonic() of the last answer of a server or a database, if the tracker knows
    """

    private: bool = True
    heard: float = -math.inf

    def connect(self) -> None:  # noqa: B027 - by default there is nothing to connect to
        """Raise InputError where runs cannot be recorded at all; Unreachable where the server does not answer now."""

    @abstractmethod
    def start(
        self,
        experiment: str,
        name: str,
        params: Mapping[str, Any],
        parent: str | None,
        begun: int,
        key: str,
        question: str = "",
    ) -> str:
        """Open a run that began at `begun` (milliseconds since 1970) below the run `parent`, and return its id.

        A sweep's `question` is its description. A run of the same `key` that exists already is used again.
        Unreachable: the server does not answer.
        """

    @abstractmethod
    def log_metrics(self, run: str, values: Mapping[str, float], step: int) -> None:
        """Record points of learning curves while the run is under way, or at the latest when it is closed."""

    @abstractmethod
    def finish(self, run: str, folder: Path, status: str = "FINISHED", ended: int | None = None) -> None:
        """Close the run of a run or sweep as FINISHED, FAILED, or KILLED, which is: stopped from outside.

        What a finished run, or a sweep, left in `folder` is recorded first. Nothing is recorded twice.

        ended  milliseconds since 1970; None: now
        """
