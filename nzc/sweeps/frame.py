"""The jobs of a sweep as one DataFrame: a row a job, a column for each of its results and settings."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import OmegaConf

from nzc.runs.layout import ERROR, NOT_STARTED, RESULT, SWEEP, flatten, read_config, read_overrides, with_infinity
from nzc.runs.result import result_types
from nzc.validation import masked, masked_tree

if TYPE_CHECKING:
    from pandas import DataFrame

#: The jobs of a sweep with their rows and overrides.
JOBS = "jobs.json"


def write_jobs(folder: Path, jobs: Iterable[Mapping[str, Any]]) -> None:
    """Write a sweep's jobs, in order, before they run: the row of the sweep file, and the overrides of each."""
    (folder / JOBS).write_text(json.dumps([masked_tree(dict(job)) for job in jobs]), encoding="utf-8")


def read_jobs(folder: Path, keys: Sequence[str] = ()) -> "DataFrame":
    """Return a row for each job of a sweep, also for those that never began; a search leaves only those that did.

    Columns: `folder`; `job`, its number; `run`, counted from 1; `name`, what sets it apart from the others; `row`, the
    name of its row; `overrides`; `error`, why it has no result, or None; the keys of result.json, dotted; `paper.KEY`,
    the paper's values; and those of `keys` that are settings.
    """
    from pandas import DataFrame  # takes half a second

    jobs = _written(folder)
    if not jobs:
        started = sorted((path for path in folder.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
        jobs = [{"folder": path, "overrides": read_overrides(path)} for path in started]
        jobs = [job for job in jobs if _error(job["folder"]) != NOT_STARTED]
    common = set.intersection(*(set(job["overrides"]) for job in jobs)) if jobs else set()
    rows = []
    for at, job in enumerate(jobs):
        row, own = job.get("row") or {}, [text for text in job["overrides"] if not text.startswith("seed=")]
        rows.append(read_job(job.get("folder", folder / str(at)), _name(row, own, common) or "run", keys, row))
        rows[-1]["overrides"] = job["overrides"]
    return DataFrame(rows, columns=None if rows else ["name", "error"], dtype=object)  # whole numbers stay whole


def read_job(folder: Path, name: str, keys: Sequence[str] = (), row: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return one job as a row of `read_jobs`."""
    row, error, number = row or {}, _error(folder), int(folder.name) if folder.name.isdigit() else 0
    job: dict[str, Any] = {"folder": folder, "job": number, "run": number + 1, "name": name, "error": error}
    job["row"] = re.sub(r"(, [^ =,]+=[^ =]+)+$", "", row.get("name") or "") or None  # without the values of a grid
    if error is not None:
        return job
    result = flatten(json.loads((folder / RESULT).read_text(encoding="utf-8"), object_hook=with_infinity))
    paper = {f"paper.{whole_key(key)}": value for key, value in (row.get("paper") or {}).items()}
    unknown = [key for key in map(whole_key, keys) if key not in job | result]
    config = read_config(folder / ".hydra" / "config.yaml") if unknown else None
    return job | {key: setting(config, key) for key in unknown} | result | paper


def job_name(folder: Path, at: int, overrides: Sequence[str]) -> str:
    """Return what distinguishes job `at` of a running sweep: the name of its row, and its own overrides."""
    overrides = [masked(text) for text in overrides]  # as in jobs.json
    if jobs := _written(folder):
        return _name(jobs[at]["row"], overrides, set.intersection(*(set(job["overrides"]) for job in jobs)))
    return _name({}, overrides, set(sweep_overrides(folder)["task"]))


def sweep_overrides(folder: Path) -> dict[str, list[str]]:
    """Return the overrides that Hydra recorded for a sweep: `hydra` and `task`, with interpolations as they are."""
    tree: Any = OmegaConf.to_container(OmegaConf.load(folder / SWEEP), resolve=False)
    overrides = tree["hydra"]["overrides"]
    return {kind: [str(text) for text in overrides.get(kind, [])] for kind in ("hydra", "task")}


@cache
def whole_key(key: str) -> str:
    """Return the whole key of result.json that `key` is, or ends: mean_accuracy → teachers.mean_accuracy."""
    names = result_types()
    return key if key in names else next((name for name in names if name.endswith(f".{key}")), key)


def setting(config: Any, key: str) -> Any:
    """Return the value of a key of a composed configuration; None for none, for null, and for a section or a list."""
    value = OmegaConf.select(config, key)
    return None if OmegaConf.is_config(value) else value


def _error(folder: Path) -> str | None:
    """Return why a job has no result, in a line; None: it has one. A result beside an error is an earlier sweep's."""
    if (folder / ERROR).is_file():
        return (folder / ERROR).read_text(encoding="utf-8").strip()
    if (folder / RESULT).is_file():
        return None
    return "did not finish" if folder.is_dir() else NOT_STARTED


def _written(folder: Path) -> list[dict[str, Any]]:
    jobs: list[dict[str, Any]] = (
        json.loads((folder / JOBS).read_text(encoding="utf-8")) if (folder / JOBS).is_file() else []
    )
    return jobs


def _name(row: Mapping[str, Any], overrides: Iterable[str], common: set[str]) -> str:
    known = {*common, *row.get("set", [])}
    return ", ".join(filter(None, [row.get("name"), " ".join(text for text in overrides if text not in known)]))
