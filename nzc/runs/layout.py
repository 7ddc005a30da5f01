"""The files in the folder of a run or a sweep."""

import math
import re
from collections.abc import Iterable
from itertools import filterfalse
from pathlib import Path
from textwrap import shorten
from typing import Any

from omegaconf import OmegaConf

from nzc.runs import resolvers  # noqa: F401 - stored configurations contain them
from nzc.storage.files import digest_of, make_own
from nzc.validation import Tree, masked, masked_tree

#: The folder in that of a run with the configuration that Hydra composed.
RECORDED = ".hydra"
#: A run: its result.
RESULT = "result.json"
#: Its released labels, and the noisy counts that they follow from.
LABELS = "labels.csv"
COUNTS = "counts.csv"
#: Its exported student, what that takes, its predictions for public rows, and its learning curves.
STUDENT = "student.pt2"
STUDENT_INPUT = "student.json"
PREDICTIONS = "predictions.csv"
LEARNING_CURVES = "student.csv"
#: Predictions for private records, where labels alone are private: never published.
OF_PRIVATE = "private_predictions.csv"
#: Curves that depend on votes.
CURVES = "curves.csv"
#: The folder of the figures of a run or a sweep.
FIGURES = "figures"
#: The file with the line that a job printed when it failed; the line of one that has not begun.
ERROR = "error.txt"
NOT_STARTED = "was not started"
#: A sweep: its configuration; its table, for people and for programs; its page.
SWEEP = "multirun.yaml"
TABLE = "table.md"
TABLE_CSV = "table.csv"
PAGE = "report.html"
#: The tracker's record of a run or sweep; the lock that its process holds, or one that sends it.
RECORD, LOCK = "tracking.json", ".tracking.lock"
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
#: Overrides that the name of a run leaves out. A sweep file's name is the title already.
_UNNAMED = re.compile(r"[+~]*(sweeps|tracking|trainer|paths|hydra)([./@=]|$)")
_GREEK = {"sigma": "σ", "gamma": "γ", "epsilon": "ε", "delta": "δ"}


def with_infinity(record: Tree) -> Tree:
    """Return a JSON object with "inf" as a float."""
    return {key: math.inf if value == "inf" else value for key, value in record.items()}


def flatten(record: Tree, prefix: str = "") -> Tree:
    """Return a nested record by dotted keys."""
    flat: Tree = {}
    for key, value in record.items():
        if isinstance(value, dict):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def masked_file(path: Path) -> str:
    """Return the text of a stored JSON or YAML file, with *** in place of secrets."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return masked(text)
    tree = OmegaConf.to_container(OmegaConf.create(text))
    hidden = masked_tree(tree)
    if hidden == tree:
        return text
    return OmegaConf.to_yaml(OmegaConf.create(hidden))


def read_overrides(folder: Path) -> list[str]:
    """Return the overrides that Hydra recorded for the run in `folder`, if it began."""
    path = folder / RECORDED / "overrides.yaml"
    if not path.is_file():
        return []
    return list(map(masked, as_typed(OmegaConf.load(path))))


def unresolved(node: Any) -> Any:
    """Return a node as dictionaries and lists, with interpolations as they are written."""
    return OmegaConf.to_container(node, resolve=False)


def as_typed(overrides: Any) -> list[str]:
    """Return a list of overrides with their interpolations: ${oc.env:NAME} may be a secret."""
    return list(map(str, unresolved(overrides)))


def short_name(overrides: Iterable[str], *title: str) -> str:
    """Return the name of a run or a sweep: what sets it apart, and then its title.

    A key is named by its last part, as MLflow's table shows 15 letters: "σ=5 · Confident".
    Overrides that say only where it is recorded or how it is launched are left out, and so are
    passwords.
    """
    typed = []
    for override in filterfalse(_UNNAMED.match, overrides):
        key, sign, value = masked(override).partition("=")
        last = key.lstrip("+").rpartition(".")[2]
        typed.append(f"{_GREEK.get(last, last)}{sign}{value}")
    words = [shorten(" ".join(typed), 80, placeholder=" …"), *title]
    return " · ".join(filter(None, words))


def write_error(job: Path, line: str) -> None:
    """Say in the folder of a job that could not do so itself why it has no result."""
    make_own(job)
    (job / ERROR).write_text(f"{line}\n", encoding="utf-8")


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a run in `folder`, and of its configuration, by name."""
    paths = [folder / name for name in RUN_FILES] + sorted(folder.glob(".hydra/*.yaml"))
    return {str(path.relative_to(folder)): digest_of(path) for path in paths if path.is_file()}


def clear(folder: Path, names: Iterable[str], figures: Iterable[str] = ()) -> None:
    """Remove the files of an earlier run or sweep in this folder, so that the two are not mixed."""
    for name in names:
        (folder / name).unlink(missing_ok=True)
    for name in figures:
        for kind in ("svg", "png"):
            (folder / FIGURES / f"{name}.{kind}").unlink(missing_ok=True)
