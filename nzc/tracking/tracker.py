"""The interface of a tracker."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nzc.pipeline import Outcome
from nzc.report.results import ASKED, LABELS, SWEEP

#: Of what lies in the folder of a run or a sweep, what carries no vote and no ε that follows from votes.
PUBLIC = (LABELS, "student.csv", SWEEP, ASKED, "confusion.svg", "confusion.png")


class Tracker(ABC):
    """Records runs, and sweeps as parents of runs.

    What it records is public, but for ε, what is said of the teachers, and the figures: these not where it is told so
    (`tracking.private=false`). Never curves.csv.
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
