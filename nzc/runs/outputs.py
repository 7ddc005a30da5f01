"""What a run leaves for others: the released labels, the student, and its predictions."""

import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from nzc.data import DataSplits
from nzc.data.images import Pixels
from nzc.data.rows import blocks
from nzc.mechanisms import ABSTAIN
from nzc.protocols import Released
from nzc.runs.formatting import optional
from nzc.runs.layout import COUNTS, LABELS, OF_PRIVATE, PREDICTIONS, STUDENT, STUDENT_INPUT
from nzc.runs.metrics import class_names
from nzc.runs.prepare import Run
from nzc.runs.result import RunResult
from nzc.storage.files import write_private
from nzc.students import FittedStudent
from nzc.types import AnyArray, Ints
from nzc.validation import Tree

_HOME = Path(__file__).parents[1]


def public_arrays(run: Run, released: Released, student: FittedStudent | None) -> Tree:
    """Return the arrays of a `RunResult`, by name: labels, predictions and probabilities."""
    probabilities = released.probabilities
    rows = max(len(run.splits.public), len(released.labels))  # votes may cover a part of them
    predictions = None
    if student is not None:
        probabilities = student.probabilities(run.splits.public.x)
        predictions = student.decide(probabilities)
    elif probabilities is not None:
        probabilities = padded(probabilities, rows, 0)
    labels = padded(released.labels, rows, ABSTAIN)
    return {"labels": labels, "predictions": predictions, "probabilities": probabilities}


def padded(array: AnyArray, rows: int, fill: int) -> AnyArray:
    """Return the array with so many rows; what is new is filled."""
    missing = [(0, rows - len(array))] + [(0, 0)] * (array.ndim - 1)
    return np.pad(array, missing, constant_values=fill)


def write_outputs(
    folder: Path,
    run: Run,
    released: Released,
    student: FittedStudent | None,
    result: RunResult,
) -> None:
    """Write the files of labels and student: public, but for `OF_PRIVATE`."""
    _write_labels(folder, run, released)
    if student is not None:
        _write_predictions(folder, run.splits, result)
        if run.splits.labels_only:
            _write_of_private(folder, run.splits, student)
        _write_student(folder, run.splits, student)


def _write_labels(folder: Path, run: Run, released: Released) -> None:
    """Write labels.csv, and counts.csv with noisy counts n(CLASS).

    row: its number; origin: that in the one file of all splits; id: the user's name of it; label
    and name: of its class; p(CLASS): how likely. Where rows have names, their number may depend on
    private rows, and so would `origin`.
    """
    session = run.session
    splits = run.splits
    names = class_names(splits, run.classes)
    rows = np.flatnonzero(released.labels != ABSTAIN)
    columns: dict[str, AnyArray] = {"row": rows, "label": released.labels[rows]}
    if splits.file_rows is not None and splits.units.names is None:
        columns["origin"] = splits.file_rows[rows]
    if splits.ids is not None:
        columns["id"] = splits.ids[rows]
    if splits.labels is not None:
        columns["name"] = np.array(names)[columns["label"]]
    if released.probabilities is not None and session.counts is not None:
        columns |= _by_class("p", names, np.char.mod("%.4f", released.probabilities[rows]))
        _write_csv(folder / COUNTS, {"row": session.rows} | _by_class("n", names, session.counts))
    _write_csv(folder / LABELS, columns)


def _write_predictions(folder: Path, splits: DataSplits, result: RunResult) -> None:
    """Write predictions.csv: a label for every public row, its source, and probabilities."""
    assert result.labels is not None and result.predictions is not None
    assert result.probabilities is not None
    unlabeled = result.labels == ABSTAIN
    labels = np.where(unlabeled, result.predictions, result.labels)
    source = np.where(unlabeled, "student", result.voters)
    columns = _predictions(splits, labels, result.probabilities, source=source)
    rows = {"row": np.arange(len(labels))}
    if splits.ids is not None:
        name = splits.id_column or "id"
        rows = {"id" if name in columns else name: splits.ids}
    _write_csv(folder / PREDICTIONS, rows | columns)


def _write_of_private(folder: Path, splits: DataSplits, student: FittedStudent) -> None:
    """Write predictions for private records, whose labels alone are private."""
    probs = np.concatenate([student.probabilities(part) for part in blocks(splits.private.x)])
    columns = _predictions(splits, student.decide(probs), probs)
    _write_csv(folder / OF_PRIVATE, {"row": np.arange(len(probs))} | columns)


def _write_student(folder: Path, splits: DataSplits, student: FittedStudent) -> None:
    """Write the student, and what it takes.

    A network that torch.export does not accept costs its own file only.
    """
    from nzc.students import export, exported  # import torch

    preparation = splits.preparation
    rows = splits.public.x
    space = splits.space
    if space is not None:  # it takes images, too
        preparation = space.preparation
        rows = space.image[None]
        student = export.behind(space.network, student)
    row = preparation or rows[0]  # either has shape and type
    array = {"shape": row.shape, "dtype": row.dtype}
    if isinstance(preparation, Pixels):
        array["range"] = preparation.levels
    names = list(class_names(splits, splits.classes))
    weights = None if student.weights is None else student.weights.tolist()
    about = exported.describe(names, splits.encoder, array, splits.id_column, weights)
    write_private(folder / STUDENT_INPUT, about)
    with optional(STUDENT):
        export.write_student(folder / STUDENT, student, rows, preparation)


def student_code(about: Tree) -> dict[str, str]:
    """Return the files that run an exported student without nzc, by name.

    about  its student.json, which says whether it needs a model that others trained
    """
    files = {"predict.py": "students/exported.py", "table_encoder.py": "data/table_encoder.py"}
    packages = ["torch", "numpy", "pandas", "pyarrow"]
    columns = about["columns"] or {"columns": []}
    if any(column["kind"] == "vectors" for column in columns["columns"]):
        files["sentences.py"] = "data/sentences.py"
        if find_spec("sentence_transformers"):  # a function of one's own needs none
            packages.append("sentence-transformers")
    needs = [f"{name}=={version(name).partition('+')[0]}\n" for name in packages]
    texts = {name: (_HOME / path).read_text(encoding="utf-8") for name, path in files.items()}
    code = {
        name: re.sub(r"from nzc\.(data|students)\.", "from ", text) for name, text in texts.items()
    }
    return code | {"requirements.txt": "".join(needs)}


def _predictions(
    splits: DataSplits, labels: Ints, probs: AnyArray, **columns: AnyArray
) -> dict[str, AnyArray]:
    """Return the columns of predicted labels [rows], and of probabilities [rows, classes]."""
    names = class_names(splits, splits.classes)
    shown = np.char.mod("%.4f", probs)
    likely = shown[np.arange(len(labels)), labels]
    columns = {"label": np.array(names)[labels], "probability": likely, **columns}
    return columns | _by_class("p", names, shown)


def _by_class(sign: str, names: Sequence[str], values: AnyArray) -> dict[str, AnyArray]:
    """Return the columns of values [rows, classes]: SIGN(CLASS)."""
    return {f"{sign}({name})": column for name, column in zip(names, values.T, strict=True)}


def _write_csv(path: Path, columns: Mapping[str, AnyArray]) -> None:
    from pandas import DataFrame  # takes half a second to import

    write_private(path, DataFrame(columns).to_csv(index=False, lineterminator="\n"))
