"""What a run leaves for others: the released labels, the student, and its predictions."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from nzc.data import DataSplits
from nzc.data.images import Pixels
from nzc.data.rows import blocks
from nzc.labeling.release import LabelingSession
from nzc.mechanisms import ABSTAIN
from nzc.runs.checks import PreparedRun
from nzc.runs.formatting import optional
from nzc.runs.layout import COUNTS, LABELS, OF_PRIVATE, PREDICTIONS, STUDENT, STUDENT_INPUT
from nzc.runs.metrics import class_names
from nzc.storage.files import write_private
from nzc.students import FittedStudent
from nzc.types import AnyArray, Floats, Ints

#: The files that a student is published with.
_CODE = [
    Path(__file__).parents[1] / name for name in ("students/exported.py", "data/table_encoder.py")
]


def write_outputs(
    folder: Path, run: PreparedRun, student: FittedStudent | None, voters: str
) -> dict[str, Any]:
    """Write the files of labels and student, and return the arrays of a `RunResult` by name.

    voters  the source of released labels in predictions.csv
    """
    session, splits, predictions, probabilities = (
        run.session,
        run.splits,
        None,
        run.session.probabilities,
    )
    uncovered = (
        0 if splits is None else len(splits.public) - len(session.released)
    )  # votes may cover a part
    labels = np.pad(session.released, (0, uncovered), constant_values=ABSTAIN)
    _write_labels(folder, session, splits, class_names(splits, run.classes))
    if student is not None and splits is not None:
        probabilities = student.probabilities(splits.public.x)
        predictions = student.decide(probabilities)
        source = np.where(labels == ABSTAIN, "student", voters)
        known = np.where(labels == ABSTAIN, predictions, labels)
        _write_student(folder, student, probabilities, known, source, splits)
    elif probabilities is not None:
        probabilities = np.pad(probabilities, ((0, uncovered), (0, 0)))
    return {"labels": labels, "predictions": predictions, "probabilities": probabilities}


def _write_labels(
    folder: Path, session: LabelingSession, splits: DataSplits | None, names: Sequence[str]
) -> None:
    """Write labels.csv: a row's number, its label, and what is known of it; and counts.csv with
    noisy counts n(CLASS).

    origin: its row number in the one file of all splits; id: the user's name of it; name: its
    class; p(CLASS): how likely. Where rows have names, their number may depend on private rows, and
    so would `origin`.
    """
    rows = np.flatnonzero(session.released != ABSTAIN)
    columns: dict[str, AnyArray] = {"row": rows, "label": session.released[rows]}
    if splits is not None and splits.file_rows is not None and splits.names is None:
        columns["origin"] = splits.file_rows[rows]
    if splits is not None and splits.ids is not None:
        columns["id"] = splits.ids[rows]
    if splits is not None and splits.labels is not None:
        columns["name"] = np.array(names)[columns["label"]]
    if session.probabilities is not None and session.counts is not None:
        columns |= _by_class("p", names, np.char.mod("%.4f", session.probabilities[rows]))
        _write_csv(folder / COUNTS, {"row": session.rows} | _by_class("n", names, session.counts))
    _write_csv(folder / LABELS, columns)


def _write_student(
    folder: Path,
    student: FittedStudent,
    probs: Floats,
    labels: Ints,
    source: AnyArray,
    splits: DataSplits,
) -> None:
    """Write the student, and predictions.csv: a label for every public row, its source, and the
    classes' probabilities.

    A network that torch.export does not accept costs its own file only. Where labels alone are
    private, private records have their predictions in another file.
    """
    from nzc.students import export, exported  # import torch

    names = class_names(splits, splits.classes)
    columns = _predictions(names, labels, probs, source=source)
    rows = {"row": np.arange(len(labels))}
    if splits.ids is not None:
        name = splits.id_column or "id"
        rows = {name if name not in columns else "id": splits.ids}
    _write_csv(folder / PREDICTIONS, rows | columns)
    if splits.labels_only:
        of_private = np.concatenate(
            [student.probabilities(part) for part in blocks(splits.private.x)]
        )
        columns = _predictions(names, student.decide(of_private), of_private)
        _write_csv(folder / OF_PRIVATE, {"row": np.arange(len(of_private))} | columns)
    preparation = splits.preparation
    array = {"shape": splits.public.x.shape[1:], "dtype": splits.public.x.dtype}
    if preparation is not None:
        array = {"shape": preparation.shape, "dtype": preparation.dtype}
    if isinstance(preparation, Pixels):
        array["range"] = preparation.levels
    weights = None if student.weights is None else student.weights.tolist()
    about = exported.describe(list(names), splits.encoder, array, splits.id_column, weights)
    write_private(folder / STUDENT_INPUT, about)
    with optional(STUDENT):
        export.write_student(folder / STUDENT, student, splits.public.x, preparation)


def student_code() -> dict[str, str]:
    """Return the files that run an exported student without nzc, by name."""
    code = {path.name: path.read_text(encoding="utf-8") for path in _CODE}
    code["predict.py"] = code["predict.py"].replace(
        "from nzc.data.table_encoder", "from table_encoder"
    )
    needs = [
        f"{name}=={version(name).split('+')[0]}" for name in ("torch", "numpy", "pandas", "pyarrow")
    ]
    return code | {"requirements.txt": "\n".join(needs) + "\n"}


def _predictions(
    names: Sequence[str], labels: Ints, probs: Floats, **columns: AnyArray
) -> dict[str, AnyArray]:
    """Return the columns of predicted labels [rows], and of probabilities [rows, classes]."""
    shown = np.char.mod("%.4f", probs)
    columns = {
        "label": np.array(names)[labels],
        "probability": shown[np.arange(len(labels)), labels],
        **columns,
    }
    return columns | _by_class("p", names, shown)


def _by_class(sign: str, names: Sequence[str], values: AnyArray) -> dict[str, AnyArray]:
    return {f"{sign}({name})": values[:, at] for at, name in enumerate(names)}


def _write_csv(path: Path, columns: Mapping[str, AnyArray]) -> None:
    from pandas import DataFrame  # takes half a second to import

    write_private(path, DataFrame(columns).to_csv(index=False, lineterminator="\n"))
