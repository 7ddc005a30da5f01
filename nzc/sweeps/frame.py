"""A sweep as it is in its folder: its jobs are one DataFrame, a row a job, a column for each result and setting."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import OmegaConf

from nzc.runs.layout import ERROR, NOT_STARTED, RESULT, SWEEP, as_typed, flatten, read_overrides, with_infinity
from nzc.runs.result import result_keys
from nzc.validation import masked, masked_tree

if TYPE_CHECKING:
    from pandas import DataFrame

#: The jobs of a sweep with their rows and overrides.
JOBS = "jobs.json"


def write_jobs(folder: Path, jobs: Iterable[Mapping[str, Any]]) -> None:
    """Write a sweep's jobs, in order, before they run: the row of the sweep file, and the overrides of each."""
    (folder / JOBS).write_text(json.dumps([masked_tree(dict(job)) for job in jobs]), encoding="utf-8")


def numbered(folder: Path) -> list[Path]:
    """Return the folders of the jobs of a sweep that have begun, in order."""
    begun = [path for path in folder.iterdir() if path.name.isdigit() and path.is_dir()]
    return sorted(begun, key=lambda path: int(path.name))


def read_jobs(folder: Path, keys: Sequence[str] = ()) -> "DataFrame":
    """Return a row for each job of a sweep, also for those that never began; a search leaves only those that did.

    Columns: `folder`; `job`, its number; `run`, counted from 1; `name`, what sets it apart from the others; `row`, the
    name of its row; `overrides`; `error`, why it has no result, or None; the keys of result.json, dotted; `paper.KEY`,
    the paper's values; and those of `keys` that are settings.
    """
    from pandas import DataFrame  # takes half a second

    jobs = dict(enumerate(_written(folder))) or {
        int(job.name): {"row": {}, "overrides": read_overrides(job)}
        for job in numbered(folder)
        if _error(job) != NOT_STARTED
    }
    common, rows = _common(jobs.values()), []
    for at, job in jobs.items():
        own = [text for text in job["overrides"] if not is_seed(text)]
        facts = _job(folder / str(at), job["row"], keys)
        rows.append(facts | {"name": _name(job["row"], own, common) or "run", "overrides": job["overrides"]})
    return DataFrame(rows, columns=None if rows else ["name", "error"], dtype=object)  # whole numbers stay whole


def _job(folder: Path, row: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """Return what is known of one job, which may have a row of the sweep file."""
    error, number = _error(folder), int(folder.name)
    job: dict[str, Any] = {"folder": folder, "job": number, "run": number + 1, "error": error}
    job["row"] = re.sub(r"(, [^ =,]+=[^ =]+)+$", "", row.get("name") or "") or None  # without the values of a grid
    if error is not None:
        return job
    result = flatten(json.loads((folder / RESULT).read_text(encoding="utf-8"), object_hook=with_infinity))
    paper = {f"paper.{whole_key(key)}": value for key, value in row.get("paper", {}).items()}
    unknown = [key for key in map(whole_key, keys) if key not in job | result]
    config = OmegaConf.load(folder / ".hydra" / "config.yaml") if unknown else None
    return job | {key: setting(config, key) for key in unknown} | result | paper


def is_seed(override: str) -> bool:
    """Return whether an override sets the seed: runs that differ in it only are one line, mean ± deviation."""
    return override.startswith("seed=")


def job_name(folder: Path, at: int, overrides: Sequence[str]) -> str:
    """Return what distinguishes job `at` of a running sweep: the name of its row, and its own overrides."""
    overrides = [masked(text) for text in overrides]  # as in jobs.json
    if jobs := _written(folder):
        return _name(jobs[at]["row"], overrides, _common(jobs))
    return _name({}, overrides, set(as_typed(OmegaConf.load(folder / SWEEP).hydra.overrides.task)))


@cache
def whole_key(key: str) -> str:
    """Return the whole key of result.json that `key` is, or ends: mean_accuracy → teachers.mean_accuracy."""
    keys = result_keys()
    return key if key in keys else next((name for name in keys if name.endswith(f".{key}")), key)


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
    path = folder / JOBS
    return list(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else []


def _common(jobs: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the overrides that all jobs have."""
    overrides = [set(job["overrides"]) for job in jobs]
    return set.intersection(*overrides) if overrides else set()


def _name(row: Mapping[str, Any], overrides: Iterable[str], common: set[str]) -> str:
    known = {*common, *(text for text in row.get("set", []) if not is_seed(text))}
    return ", ".join(filter(None, [row.get("name"), " ".join(text for text in overrides if text not in known)]))
