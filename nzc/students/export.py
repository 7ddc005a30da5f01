"""The student as one file that anybody can load without this package, and without running a pickle."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from nzc._files import written
from nzc._types import AnyArray
from nzc.datasets.roles import Standard
from nzc.networks import as_input

if TYPE_CHECKING:
    from nzc.students.student import Student


class Rows(nn.Module):
    """The student for rows as the file has them: whoever asks it need not know what networks take."""

    def __init__(self, student: "Student", standard: Standard | None) -> None:
        super().__init__()
        self.classifier = student.classifier
        for name in ("mean", "spread"):
            self.register_buffer(name, None if standard is None else torch.from_numpy(getattr(standard, name)).double())
        self.mean: Tensor | None
        self.spread: Tensor
        self.cpu().eval()

    def forward(self, x: Tensor) -> Tensor:
        """x [rows, ...] → logits [rows, classes]."""
        # the mean is a double, and so is the difference, of whatever type x is; a cast would fix that type for good
        seen = as_input(x) if self.mean is None else ((x - self.mean) / self.spread).float()
        logits: Tensor = self.classifier(seen)
        return logits


def write(path: Path, student: "Student", rows: AnyArray, standard: Standard | None) -> None:
    """A file by which `torch.export.load(path).module()` takes rows like `rows` [rows, ...], and gives logits.

    With `standard`: rows as the file has them, in numbers of any type. It holds the graph and the weights; no example,
    and nothing of where it was made.
    """
    example = torch.from_numpy(np.zeros((2, *rows.shape[1:]), rows.dtype if standard is None else standard.dtype))
    with forgotten(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(Rows(student, standard), (example,), dynamic_shapes=({0: torch.export.Dim.AUTO},))
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


@contextmanager
def forgotten() -> Iterator[None]:
    """Empties at its end what was traced within, a graph read from a file included; none of it can be traced again.

    The symbols of a graph's shapes hold each other by way of C++, where Python's collector does not see them: PyTorch
    keeps them for good, and a sweep of thousands of students would grow with each.
    """
    made: list[ShapeEnv] = []
    begin = ShapeEnv.__init__

    def noted(self: ShapeEnv, *args: Any, **kwargs: Any) -> None:
        made.append(self)
        begin(self, *args, **kwargs)

    ShapeEnv.__init__ = noted  # type: ignore[method-assign]
    try:
        yield
    finally:
        ShapeEnv.__init__ = begin  # type: ignore[method-assign]
        for each in made:
            vars(each).clear()
