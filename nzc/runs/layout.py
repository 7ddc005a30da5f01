"""The files in the folder of a run or a sweep, and how the jobs of a sweep are read back from it."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from nzc.data.files import digest_of
from nzc.validation import masked, masked_tree

#: A run: its result; its released labels, exported student, what that takes, its predictions for all public rows, and
#: its learning curves, all public; curve data that depend on votes. A run or a sweep: its folder of figures, its page.
RESULT, LABELS, STUDENT, STUDENT_INPUT = "result.json", "labels.csv", "student.pt2", "student.json"
PREDICTIONS, LEARNING_CURVES = "predictions.csv", "student.csv"
CURVES, FIGURES, PAGE = "curves.csv", "figures", "report.html"
#: A job of a sweep that failed: the file of the line that it printed; the line of a job that has not begun.
ERROR, NOT_STARTED = "error.txt", "was not started"
#: A sweep: its configuration; its jobs with their rows and overrides; its table, for people and for programs.
SWEEP, JOBS, TABLE, TABLE_CSV = "multirun.yaml", "jobs.json", "table.md", "table.csv"
#: All files that a run may leave, and the figures that it may draw.
RUN_FILES = (RESULT, ERROR, LABELS, STUDENT, STUDENT_INPUT, PREDICTIONS, LEARNING_CURVES, CURVES, PAGE)
RUN_FIGURES = {
    "gaps": "How many queries have which gap between first and second count; dark: those answered",
    "cost": "ε from label to label",
    "confusion": "The released labels against the true classes",
}


@dataclass(frozen=True)
class Job:
    """One run of a sweep.

    row        name and paper's values of its row in the sweep file
    name       what distinguishes it from the other jobs
    overrides  of the command line, the grid and the row
    replaced   those of the command line that change the experiment of the sweep file: its paper values do not hold
    """

    folder: Path
    row: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    overrides: Sequence[str] = ()
    replaced: Sequence[str] = ()

    @property
    def failure(self) -> str:
        """Why there is no result."""
        if (self.folder / ERROR).is_file():
            return (self.folder / ERROR).read_text(encoding="utf-8").strip()
        return "did not finish" if self.folder.is_dir() else NOT_STARTED

    @cached_property
    def result(self) -> dict[str, Any]:
        """result.json with dotted keys and infinite numbers as float; empty where the run did not finish."""
        path = self.folder / RESULT
        if not path.is_file() or (self.folder / ERROR).is_file():  # it may be an earlier sweep's
            return {}
        return flatten(json.loads(path.read_text(encoding="utf-8"), object_hook=with_infinity))

    @cached_property
    def paper(self) -> dict[str, Any]:
        """The paper's values by whole keys; empty where the run did not finish, or is another experiment."""
        printed = (self.row.get("paper") or {}) if self.result and not self.replaced else {}
        return {self.whole_key(key): value for key, value in printed.items()}

    @cached_property
    def _config(self) -> Any:
        return read_config(self.folder / ".hydra" / "config.yaml")

    def whole_key(self, key: str) -> str:
        """Return mean_accuracy as teachers.mean_accuracy; a whole or an unknown key as it is."""
        return whole_key(key, self.result)

    def value(self, key: str) -> Any:
        """Return the value of a whole key in result.json or the configuration, its number or row; None: no value."""
        if key == "run":
            return int(self.folder.name) + 1
        if key == "row" and self.row.get("name"):
            return re.sub(r"(, [^ =,]+=[^ =]+)+$", "", self.row["name"])  # without the values that expand_rows adds
        return self.result[key] if key in self.result else setting(self._config, key)

    def is_setting(self, key: str) -> bool:
        """Return whether a whole key is set before the run; otherwise the run measures its value."""
        return key in ("run", "row") or setting(self._config, key) is not None


def whole_key(key: str, known: Iterable[str]) -> str:
    """Return the first of the known dotted keys that `key` is, or ends; otherwise `key`."""
    names = list(known)
    return key if key in names else next((name for name in names if name.endswith(f".{key}")), key)


def setting(config: Any, key: str) -> Any:
    """Return the value of a key of a composed configuration; None for none, for null, and for a section or a list."""
    value = OmegaConf.select(config, key)
    return None if OmegaConf.is_config(value) else value


def with_infinity(record: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON object with "inf" as a float."""
    return {key: float("inf") if value == "inf" else value for key, value in record.items()}


def flatten(record: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a nested record by dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in record.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + str(key): value}
    return flat


def read_config(path: Path) -> Any:
    """Return a stored configuration, which may be a stranger's (`parse_config`)."""
    return parse_config(path.read_text(encoding="utf-8"))


def parse_config(text: str) -> Any:
    """Return the configuration in a text, which may be a stranger's.

    References to other keys are resolved. Any other interpolation stays as text: ${oc.env:NAME} may be a secret.
    """
    return OmegaConf.create(_inert(OmegaConf.to_container(OmegaConf.create(text), resolve=False)))


def masked_file(path: Path) -> str:
    """Return the text of a stored JSON or YAML file, with *** in place of secrets."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return masked(text)
    tree = OmegaConf.to_container(OmegaConf.create(text), resolve=False)
    return text if (hidden := masked_tree(tree)) == tree else OmegaConf.to_yaml(OmegaConf.create(hidden))


def _inert(tree: Any) -> Any:
    """Return nested mappings and lists with an escape before every interpolation that is no reference to a key."""
    if isinstance(tree, dict):
        return {_inert(key): _inert(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_inert(value) for value in tree]
    if not isinstance(tree, str):
        return tree
    left, before = tree, ""
    while left != before:  # from the innermost outwards
        left, before = re.sub(r"\$\{([\w.\[\]]+|oc\.select:[^${}]*)\}", "_", left), left
    return re.sub(r"\\*\$\{", r"\\${", tree) if "${" in left else tree


def write_jobs(folder: Path, jobs: Iterable[Mapping[str, Any]]) -> None:
    """Write a sweep's jobs, in order, before they run: row, overrides and replaced of each `Job`."""
    (folder / JOBS).write_text(json.dumps([masked_tree(dict(job)) for job in jobs]), encoding="utf-8")


def read_overrides(folder: Path) -> list[str]:
    """Return the overrides that Hydra recorded for the run in `folder`; none where it did not begin."""
    path = folder / ".hydra" / "overrides.yaml"
    return [masked(each) for each in as_typed(OmegaConf.load(path))] if path.is_file() else []


def sweep_overrides(folder: Path) -> dict[str, list[str]]:
    """Return the overrides that Hydra recorded for a sweep: `hydra` and `task`, with interpolations as they are."""
    tree: Any = OmegaConf.to_container(OmegaConf.load(folder / SWEEP), resolve=False)
    overrides = tree["hydra"]["overrides"]
    return {kind: [str(each) for each in overrides.get(kind, [])] for kind in ("hydra", "task")}


def as_typed(overrides: Any) -> list[str]:
    """Return a configuration's list of overrides with interpolations as they are: ${oc.env:NAME} may be a secret."""
    typed: Any = OmegaConf.to_container(overrides, resolve=False)
    return [str(override) for override in typed]


def read_jobs(folder: Path) -> list[Job]:
    """Return the jobs of a sweep's folder, also those that never began. A search leaves only those that did."""
    jobs = [Job(folder / str(at), **each) for at, each in enumerate(_asked(folder))]
    if not jobs:
        folders = sorted((path for path in folder.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
        jobs = [job for path in folders if (job := Job(path, overrides=read_overrides(path))).failure != NOT_STARTED]
    common = set.intersection(*(set(job.overrides) for job in jobs)) if jobs else set()
    seedless = [[each for each in job.overrides if not each.startswith("seed=")] for job in jobs]
    return [replace(job, name=_name(job.row, own, common) or "run") for job, own in zip(jobs, seedless, strict=True)]


def job_name(folder: Path, at: int, overrides: Sequence[str]) -> str:
    """Return what distinguishes job `at` of a running sweep: the name of its row, and its own overrides."""
    overrides = [masked(each) for each in overrides]  # as in jobs.json
    if asked := _asked(folder):
        return _name(asked[at]["row"], overrides, set.intersection(*(set(each["overrides"]) for each in asked)))
    return _name({}, overrides, set(sweep_overrides(folder)["task"]))


def write_error(job: Path, line: str) -> None:
    """Say in the folder of a job that could not do so itself why it has no result."""
    job.mkdir(exist_ok=True)
    (job / ERROR).write_text(f"{line}\n", encoding="utf-8")


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a run in `folder`, and of its configuration, by name."""
    paths = [folder / name for name in RUN_FILES] + sorted(folder.glob(".hydra/*.yaml"))
    return {str(path.relative_to(folder)): digest_of(path) for path in paths if path.is_file()}


def clear(folder: Path, names: Iterable[str], figures: Iterable[str]) -> None:
    """Remove the files of an earlier run or sweep of nzc in this folder, so that the two are not mixed."""
    drawn = [folder / FIGURES / f"{name}.{kind}" for name in figures for kind in ("svg", "png")]
    for path in [*(folder / name for name in names), *drawn]:
        path.unlink(missing_ok=True)


def _asked(folder: Path) -> list[dict[str, Any]]:
    asked: list[dict[str, Any]] = (
        json.loads((folder / JOBS).read_text(encoding="utf-8")) if (folder / JOBS).is_file() else []
    )
    return asked


def _name(row: dict[str, Any], overrides: Iterable[str], common: set[str]) -> str:
    known = {*common, *row.get("set", [])}
    return ", ".join(filter(None, [row.get("name"), " ".join(each for each in overrides if each not in known)]))
