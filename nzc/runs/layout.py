"""The files in the folder of a run or a sweep."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from nzc.storage.files import digest_of, make_own
from nzc.validation import masked, masked_tree

#: The folder in that of a run with the configuration that Hydra composed.
RECORDED = ".hydra"
#: A run: its result; its released labels and noisy counts, exported student, what that takes, its
#: predictions for all public rows, and its learning curves, all public; curve data that depend on
#: votes; where labels alone are private, its predictions for private records, which are never
#: published. A run or a sweep: its figures.
RESULT, LABELS, COUNTS = "result.json", "labels.csv", "counts.csv"
STUDENT, STUDENT_INPUT = "student.pt2", "student.json"
PREDICTIONS, LEARNING_CURVES, OF_PRIVATE = (
    "predictions.csv",
    "student.csv",
    "private_predictions.csv",
)
CURVES, FIGURES = "curves.csv", "figures"
#: A job of a sweep that failed: the file of the line that it printed; the line of a job that has
#: not begun.
ERROR, NOT_STARTED = "error.txt", "was not started"
#: A sweep: its configuration; its table, for people and for programs; its page.
SWEEP, TABLE, TABLE_CSV, PAGE = "multirun.yaml", "table.md", "table.csv", "report.html"
#: All files that a run may leave, and the figures that it may draw.
RUN_FILES = (
    RESULT,
    ERROR,
    LABELS,
    COUNTS,
    STUDENT,
    STUDENT_INPUT,
    PREDICTIONS,
    OF_PRIVATE,
    LEARNING_CURVES,
    CURVES,
)
RUN_FIGURES = ("gaps", "cost", "confusion")


def with_infinity(record: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON object with "inf" as a float."""
    return {key: float("inf") if value == "inf" else value for key, value in record.items()}


def flatten(record: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a nested record by dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in record.items():
        flat |= (
            flatten(value, f"{prefix}{key}.")
            if isinstance(value, dict)
            else {prefix + str(key): value}
        )
    return flat


def masked_file(path: Path) -> str:
    """Return the text of a stored JSON or YAML file, with *** in place of secrets."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return masked(text)
    tree = OmegaConf.to_container(OmegaConf.create(text))
    return (
        text
        if (hidden := masked_tree(tree)) == tree
        else OmegaConf.to_yaml(OmegaConf.create(hidden))
    )


def read_overrides(folder: Path) -> list[str]:
    """Return the overrides that Hydra recorded for the run in `folder`; none where it did not
    begin.
    """
    path = folder / RECORDED / "overrides.yaml"
    return [masked(text) for text in as_typed(OmegaConf.load(path))] if path.is_file() else []


def as_typed(overrides: Any) -> list[str]:
    """Return a configuration's list of overrides with interpolations as they are: ${oc.env:NAME}
    may be a secret.
    """
    return [str(override) for override in OmegaConf.to_container(overrides, resolve=False)]  # type: ignore[union-attr]


def write_error(job: Path, line: str) -> None:
    """Say in the folder of a job that could not do so itself why it has no result."""
    make_own(job)
    (job / ERROR).write_text(f"{line}\n", encoding="utf-8")


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a run in `folder`, and of its configuration, by name."""
    paths = [folder / name for name in RUN_FILES] + sorted(folder.glob(".hydra/*.yaml"))
    return {str(path.relative_to(folder)): digest_of(path) for path in paths if path.is_file()}


def clear(folder: Path, names: Iterable[str], figures: Iterable[str] = ()) -> None:
    """Remove the files of an earlier run or sweep of nzc in this folder, so that the two are not
    mixed.
    """
    drawn = [f"{FIGURES}/{name}.{kind}" for name in figures for kind in ("svg", "png")]
    for name in [*names, *drawn]:
        (folder / name).unlink(missing_ok=True)


def _without_budget(noise: float, *, _root_: Any) -> float | None:
    """Return the noise of a preset; None where a budget is given, which then decides it."""
    return noise if OmegaConf.select(_root_, "budget.epsilon") is None else None


def _in_proportion(value: float, noise: float | None, usual: float, *, _root_: Any) -> float | None:
    """Return a preset's value; where a budget decides the `noise` beside it, as much more as that
    is than usual.
    """
    if OmegaConf.select(_root_, "budget.epsilon") is None:
        return value
    return None if noise is None else value * noise / usual


# Stored configurations contain them, so every program that reads one needs them: not only a run.
OmegaConf.register_new_resolver("without_budget", _without_budget, replace=True)
OmegaConf.register_new_resolver("in_proportion", _in_proportion, replace=True)
