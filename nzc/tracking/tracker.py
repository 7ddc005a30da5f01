"""The interface of a tracker."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nzc.report.folder import ASKED, LABELS, PROGRESS, SWEEP

#: Of what lies in the folder of a run or a sweep, what carries no vote and no ε that follows from votes.
PUBLIC = (LABELS, PROGRESS, SWEEP, ASKED, "confusion.svg", "confusion.png")


class Unreachable(Exception):
    """Nobody answers where runs are recorded; later perhaps."""


class Tracker(ABC):
    """Records runs, and sweeps as parents of runs.

    What it records is public, but for ε, what is said of the teachers, and the figures; with `tracking.private=false`
    these are left out. curves.csv is never recorded.
    """

    @abstractmethod
    def start(
        self, experiment: str, name: str, params: dict[str, Any], parent: str | None, begun: int, key: str
    ) -> str:
        """Open a run that began at `begun`, in milliseconds since 1970, below the run `parent` if given; its id.

        If there is a run of the same `key` already, it is that one. Unreachable where nobody answers, InputError where
        it cannot be opened.
        """

    @abstractmethod
    def draw(self, run: str, values: Mapping[str, float], step: int) -> None:
        """Points of a run's curves, by name, while it runs."""

    @abstractmethod
    def finish(self, run: str, folder: Path, ended: int | None = None) -> None:
        """Record what the finished run, or sweep, left in its folder, and close it.

        `ended`: when it ended, in milliseconds since 1970; None: now.

        What is recorded already is not recorded twice.
        """

    @abstractmethod
    def fail(self, run: str, stopped: bool, ended: int | None = None) -> None:
        """Close the run as failed, or as killed where it was stopped from outside; `ended` as in `finish`."""
