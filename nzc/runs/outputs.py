"""What a run leaves for others: the released labels and the student."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nzc.data import DataSplits
from nzc.data.files import write_private
from nzc.mechanisms import ABSTAIN
from nzc.runs.layout import LABELS, STUDENT
from nzc.types import Ints
from nzc.validation import in_a_line

if TYPE_CHECKING:
    from nzc.students.module import StudentModule


def write_labels(folder: Path, released: Ints, splits: DataSplits | None) -> None:
    """Write labels.csv from released labels [pool]: the row's number, its label, and its row number in the file."""
    rows = np.flatnonzero(released != ABSTAIN)
    columns = {"row": rows, "label": released[rows]}
    if splits is not None and splits.file_rows is not None:
        columns["origin"] = splits.file_rows[rows]
    lines = [",".join(map(str, line)) for line in (columns, *zip(*columns.values(), strict=True))]
    write_private(folder / LABELS, "\n".join(lines) + "\n")


def write_student(folder: Path, student: "StudentModule", splits: DataSplits | None) -> None:
    """Write student.pt2. A network that torch.export does not accept costs this file only."""
    if splits is None:
        return
    from nzc.students import export  # imports torch

    try:
        export.write_student(folder / STUDENT, student, splits.public.x, splits.standardizer)
    except Exception as error:
        print(f"nzc: the student could not be exported ({in_a_line(error, 200)})", file=sys.stderr)
