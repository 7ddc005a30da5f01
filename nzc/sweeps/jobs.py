"""The jobs of a sweep: what is written of them before they run, and their results afterwards."""

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import filterfalse
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import OmegaConf

from nzc.progress import duration
from nzc.runs.layout import (
    ERROR,
    NOT_STARTED,
    RECORDED,
    RESULT,
    SWEEP,
    as_typed,
    flatten,
    read_overrides,
    short_name,
    with_infinity,
)
from nzc.runs.quantities import NOBODY, protects_nobody
from nzc.sweeps.spec import SweepRow
from nzc.validation import Tree, masked, masked_tree

if TYPE_CHECKING:
    from pandas import DataFrame

#: The jobs of a sweep with their rows, overrides and folders.
JOBS = "jobs.json"
#: Why a job that has begun has no result, where it left no line.
UNFINISHED = "did not finish"


def write_jobs(folder: Path, jobs: Iterable[Tree]) -> None:
    """Write a sweep's jobs, in order, before they run: row, overrides and folder of each."""
    planned = [masked_tree(job) | {"folder": job["folder"]} for job in jobs]
    (folder / JOBS).write_text(json.dumps(planned), encoding="utf-8")


def _planned(folder: Path) -> list[Tree]:
    path = folder / JOBS
    if not path.is_file():
        return []
    return json.loads(path.read_text(encoding="utf-8"))


def job_folders(folder: Path) -> list[Path]:
    """Return the folders of a sweep's jobs, in order.

    They are those of all planned jobs, or of the jobs of a search that have begun.
    """
    planned = enumerate(_planned(folder))
    folders = [folder / job.get("folder", str(number)) for number, job in planned]
    if folders:  # older sweeps named them by number
        return folders
    begun = {path.parent for path in (*folder.rglob(RECORDED), *folder.rglob(ERROR))}
    return sorted(begun - {folder}, key=lambda path: (len(path.name), path.name))


def read_jobs(folder: Path, keys: Sequence[str] = ()) -> "DataFrame":
    """Return a row for each job of a sweep, also for those that never began.

    A search leaves only those that did. Columns: `folder`; `job`, its number; `run`, counted from
    1; `name`, what sets it apart; `row`, its row's name; `overrides`; `error`, why it has no
    result, or None; the keys of result.json; `paper.KEY`; settings among `keys`.
    """
    from pandas import DataFrame  # takes half a second

    folders = job_folders(folder)
    jobs = _planned(folder)
    if not jobs:
        folders = [path for path in folders if _error(path) != NOT_STARTED]
        jobs = [{"row": {}, "overrides": read_overrides(path)} for path in folders]
    common = _common(jobs)
    records = []
    for number, job in enumerate(jobs):
        row = SweepRow.model_validate(job["row"])
        own = _own(row, filterfalse(is_seed, job["overrides"]), common)
        record = {
            "folder": folders[number],
            "job": number,
            "run": number + 1,
            "row": row.name,
            "error": _error(folders[number]),
            "name": ", ".join(filter(None, [row.title, " ".join(own)])) or "run",
            "overrides": job["overrides"],
        }
        if record["error"] is None:
            record = _result(folders[number], row, keys) | record
        records.append(record)
    if not records:
        return DataFrame(columns=["name", "error", "overrides"])
    return DataFrame(records, dtype=object)  # whole numbers stay whole


def _result(folder: Path, row: SweepRow, keys: Sequence[str]) -> Tree:
    """Return the result of a job, the paper's values, and settings among `keys`.

    In place of an ε that protects nobody stands a text.
    """
    text = (folder / RESULT).read_text(encoding="utf-8")
    result = flatten(json.loads(text, object_hook=with_infinity))
    config = OmegaConf.load(folder / ".hydra" / "config.yaml")
    for key in keys:
        if key not in result:
            value = OmegaConf.select(config, key)
            if not OmegaConf.is_config(value):
                result[key] = value
    for key, value in row.paper.items():
        result[f"paper.{key}"] = value
    for key in result:
        if protects_nobody(key, result[key], result["epsilon.published"]):
            result[key] = NOBODY
    return result


def is_seed(override: str) -> bool:
    """Return whether an override sets the seed.

    Runs that differ in it only are one line, mean ± deviation.
    """
    return override.startswith("seed=")


def job_name(folder: Path, number: int, overrides: Sequence[str]) -> str:
    """Return the name of a job of a running sweep: its own overrides, and its row."""
    overrides = list(map(masked, overrides))  # as in jobs.json
    planned = _planned(folder)
    if planned:
        row = SweepRow.model_validate(planned[number]["row"])
        own = [*row.point, *_own(row, overrides, _common(planned))]
        return short_name(own, row.name or "")
    common = set(as_typed(OmegaConf.load(folder / SWEEP).hydra.overrides.task))
    return short_name(_own(SweepRow(), overrides, common))


def jobs_left(folder: Path) -> Iterator[str]:
    """Yield a line: how many jobs of a running sweep have ended, and what time the others take.

    Yield none where all have ended, or where only the sweeper knows how many there will be.
    """
    planned = [folder / job["folder"] for job in _planned(folder)]
    running = [job for job in planned if _error(job) in (NOT_STARTED, UNFINISHED)]
    ended = len(planned) - len(running)
    if running:
        passed = time.time() - (folder / JOBS).stat().st_mtime
        left = duration(passed / ended * len(running))
        yield f"{ended} of {len(planned)} jobs done, about {left} left"


def _error(folder: Path) -> str | None:
    """Return why a job has no result, in a line; None: it has one.

    A result beside an error is an earlier sweep's.
    """
    if (folder / ERROR).is_file():
        return (folder / ERROR).read_text(encoding="utf-8").strip()
    if (folder / RESULT).is_file():
        return None
    return UNFINISHED if folder.is_dir() else NOT_STARTED


def _common(jobs: Iterable[Tree]) -> set[str]:
    """Return the overrides that all jobs have."""
    overrides = [set(job["overrides"]) for job in jobs]
    return set.intersection(*overrides or [set()])


def _own(row: SweepRow, overrides: Iterable[str], common: set[str]) -> list[str]:
    """Return the overrides of a job that neither its row nor all jobs have."""
    shared = common.union(filterfalse(is_seed, row.set))
    return [override for override in overrides if override not in shared]
