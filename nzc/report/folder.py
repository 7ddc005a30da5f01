"""What lies in the folder of a run, or of a sweep and its jobs: the names of the files, and the jobs read back."""

import json
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

#: What a run leaves in its folder: the report; the labels and the student, which may be published; its curves.
RESULT, LABELS, STUDENT, PROGRESS = "result.json", "labels.csv", "student.pt2", "student.csv"
#: The folder of its figures there, and of a sweep's: votes can be read off some, so only the owner may look into it.
FIGURES = "figures"
#: What a job leaves in its folder when its input was wrong: the line it printed.
ERROR = "error.txt"
#: The line instead, in the folder of an earlier sweep's job, until the new sweep begins its own there.
NOT_STARTED = "was not started"
#: What a sweep leaves in its folder: its configuration; the overrides of all the jobs that it was to run; its table.
SWEEP, ASKED, TABLE = "multirun.yaml", "jobs.json", "table.md"


@dataclass(frozen=True)
class Job:
    """One run of a sweep: its folder, the row of the sweep file that asked for it, its name among the others, and
    its overrides as they were asked for."""

    folder: Path
    row: dict[str, Any]
    name: str = ""
    asked: tuple[str, ...] = ()

    @cached_property
    def overrides(self) -> list[str]:
        """Of the command line, the grid and the row."""
        path = self.folder / ".hydra" / "overrides.yaml"
        if self.failure == NOT_STARTED or not path.is_file():
            return list(self.asked)
        return [str(override) for override in OmegaConf.load(path)]

    @property
    def failure(self) -> str:
        """Why there is no result: the line of a wrong input, where there is one."""
        if (self.folder / ERROR).is_file():
            return (self.folder / ERROR).read_text().strip()
        return "did not finish" if self.folder.is_dir() else NOT_STARTED

    @cached_property
    def result(self) -> dict[str, Any] | None:
        """result.json with dotted keys and infinite numbers as such; None where the run did not finish."""
        path = self.folder / RESULT
        if not path.is_file() or (self.folder / ERROR).is_file():  # it may be an earlier sweep's
            return None
        return dict(flat(json.loads(path.read_text(), object_hook=numbers)))

    @cached_property
    def paper(self) -> dict[str, Any]:
        """The paper's values, under whole keys; none where the run did not finish."""
        return (
            {} if self.result is None else {self.whole(key): value for key, value in self.row.get("paper", {}).items()}
        )

    @cached_property
    def _config(self) -> Any:
        return OmegaConf.load(self.folder / ".hydra" / "config.yaml")

    def whole(self, key: str) -> str:
        """mean_accuracy → teachers.mean_accuracy; a key that says where it stands, or is not known, as it is."""
        known = self.result or {}
        longer = [name for name in known if name.endswith(f".{key}")]
        return key if key in known or not longer else longer[0]

    def value(self, key: str) -> Any:
        """The value of a whole key in result.json or else in the configuration, or the number of the `run`, from 1;
        KeyError where there is none."""
        if key == "run":
            return int(self.folder.name) + 1
        if self.result is not None and key in self.result:
            return self.result[key]
        if (value := OmegaConf.select(self._config, key)) is None or OmegaConf.is_config(value):
            raise KeyError(key)
        return value


def numbers(record: dict[str, Any]) -> dict[str, Any]:
    """A JSON object with "inf" as the number that it stands for."""
    return {key: float("inf") if value == "inf" else value for key, value in record.items()}


def flat(record: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """A nested record by dotted keys."""
    return [
        pair
        for key, value in record.items()
        for pair in (flat(value, f"{prefix}{key}.") if isinstance(value, dict) else [(prefix + key, value)])
    ]


def jobs_of(folder: Path, rows: Sequence[dict[str, Any]]) -> list[Job]:
    """The jobs that a sweep's folder holds, and those that were asked for and never begun."""
    rows, overrides = rows or [{}], dict(enumerate(map(tuple, _asked(folder))))
    there = (Job(path, {}) for path in folder.iterdir() if path.name.isdigit())
    numbers = overrides.keys() or {int(job.folder.name) for job in there if job.failure != NOT_STARTED}
    return _named([Job(folder / str(at), rows[at % len(rows)], asked=overrides.get(at, ())) for at in sorted(numbers)])


def called(folder: Path, rows: Sequence[dict[str, Any]], at: int, overrides: Sequence[str]) -> str:
    """What tells job `at` of a sweep under way from the others: the name of its row, and what it has to itself."""
    asked, row = [set(each) for each in _asked(folder)], rows[at % len(rows)] if rows else {}
    if asked:
        return _called(row, overrides, set.intersection(*asked))
    typed = OmegaConf.load(folder / SWEEP).hydra.overrides.task  # a search asks one job after another
    return _called(row, overrides, set(typed))


def _asked(folder: Path) -> list[list[str]]:
    """The overrides of all jobs of a sweep, where its sweeper left them."""
    asked: list[list[str]] = json.loads((folder / ASKED).read_text()) if (folder / ASKED).is_file() else []
    return asked


def _called(row: dict[str, Any], overrides: Iterable[str], common: Set[str]) -> str:
    known = {*common, *row.get("set", [])}
    return ", ".join(filter(None, [row.get("name"), " ".join(each for each in overrides if each not in known)]))


def clear(folder: Path, names: Iterable[str], figures: Iterable[str]) -> None:
    """Take away what an earlier run, or sweep, left in this folder by these names: two are not to be mixed."""
    drawn = [folder / FIGURES / f"{name}.{kind}" for name in figures for kind in ("svg", "png")]
    for path in [*(folder / name for name in names), *drawn]:
        if path.is_file():
            path.unlink()


def _named(jobs: Sequence[Job]) -> list[Job]:
    """Each with the name of its row, and what of the grid it has to itself, but for the seed."""
    alone = len(jobs) == 1 and not jobs[0].row.get("name")
    common = set.intersection(*(set(job.overrides) for job in jobs)) if jobs and not alone else set()
    return [
        replace(job, name=_called(job.row, (o for o in job.overrides if not o.startswith("seed=")), common) or "run")
        for job in jobs
    ]
