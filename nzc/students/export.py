"""The student as one file that anybody can load without this package, and without running a pickle."""

import warnings
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from nzc._types import AnyArray
from nzc.networks import as_input
from nzc.store.store import written

if TYPE_CHECKING:
    from nzc.students.student import Student


class Rows(nn.Module):
    """The student for rows as the dataset has them: whoever asks it need not know what networks take."""

    def __init__(self, student: "Student") -> None:
        super().__init__()
        self.classifier = student.classifier
        self.cpu().eval()

    def forward(self, x: Tensor) -> Tensor:
        """x [rows, ...] → logits [rows, classes]."""
        logits: Tensor = self.classifier(as_input(x))
        return logits


def write(path: Path, student: "Student", rows: AnyArray) -> None:
    """A file by which `torch.export.load(path).module()` takes rows like `rows` [rows, ...], and gives logits.

    It holds the graph and the weights; no example, and nothing of where it was made.
    """
    example = torch.zeros((2, *rows.shape[1:]), dtype=torch.from_numpy(rows[:0]).dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(Rows(student), (example,), dynamic_shapes=({0: torch.export.Dim.AUTO},))
        for node in program.graph.nodes:
            node.meta.pop("stack_trace", None)
        program.example_inputs = None
        file = BytesIO()
        torch.export.save(program, file)
    written(path, file.getvalue())


def read(path: Path) -> tuple[nn.Module, Tensor]:
    """The student of a file that `write` wrote, and two empty rows such as it takes."""
    program = torch.export.load(path)
    (rows,) = (node.meta["val"] for node in program.graph.nodes if node.name in program.graph_signature.user_inputs)
    return program.module(), torch.zeros((2, *map(int, rows.shape[1:])), dtype=rows.dtype)
