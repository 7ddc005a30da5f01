"""The interface of a tracker."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nzc.pipeline import Outcome


class Tracker(ABC):
    """Records runs, and sweeps as parents of runs.

    What it records is public, but for ε, what is said of the teachers, and the figures. Never curves.csv.
    """

    @abstractmethod
    def start(self, experiment: str, name: str, params: dict[str, Any], parent: str | None) -> str:
        """Open a run, below the run `parent` if given; its id."""

    @abstractmethod
    def draw(self, run: str, values: Mapping[str, float], step: int) -> None:
        """Points of a run's curves, by name, while it runs."""

    @abstractmethod
    def finish(self, run: str, folder: Path, outcome: Outcome | None) -> None:
        """Record the files of `folder`, its figures and, but for a sweep, the run's outcome; close it as finished."""

    @abstractmethod
    def fail(self, run: str, stopped: bool) -> None:
        """Close the run as failed, or as killed where it was stopped from outside."""
