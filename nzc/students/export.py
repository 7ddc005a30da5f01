"""Export the student to one file that loads without nzc, and without running a pickle."""

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

from nzc.data import Standardizer
from nzc.data.standardizer import LIMIT
from nzc.networks import as_input
from nzc.storage.files import write_private
from nzc.types import AnyArray

if TYPE_CHECKING:
    from nzc.students.config import FittedStudent

#: Features that nzc has not standardised stay within ± this: only absurd values are changed.
_UNSCALED_LIMIT = 1e18


class RawInput(nn.Module):
    """The student for rows as they are in the user's file, before standardisation.

    As in nzc.data.Standardizer, a missing value (NaN) counts as the public mean, and absurd values are limited: no row
    gets logits that are not numbers.
    """

    def __init__(self, student: "FittedStudent", standardizer: Standardizer | None) -> None:
        super().__init__()
        self.classifier = student.classifier
        self.limit = LIMIT if standardizer is not None else _UNSCALED_LIMIT
        self.scaled = standardizer is not None
        if standardizer is not None:
            # A buffer has a dimension, so the product with rows of any type, also bool and float16, is float64.
            self.register_buffer("one_half", torch.full((1,), 0.5, dtype=torch.float64))
            self.register_buffer("mean", torch.from_numpy(standardizer.mean) / 2)
            self.register_buffer("spread", torch.from_numpy(standardizer.spread) / 2)
        self.one_half: Tensor
        self.mean: Tensor
        self.spread: Tensor
        self.cpu().eval()

    def forward(self, x: Tensor) -> Tensor:
        """Return logits [rows, classes] of x [rows, ...]."""
        # As Standardizer computes it, to the last digit.
        seen = ((x * self.one_half - self.mean) / self.spread).float() if self.scaled else as_input(x)
        logits: Tensor = self.classifier(seen.nan_to_num(0).clamp(-self.limit, self.limit))
        return logits


def write_student(path: Path, student: "FittedStudent", rows: AnyArray, standardizer: Standardizer | None) -> None:
    """Write the student so that `torch.export.load(path).module()` maps rows like `rows` [rows, ...] to logits.

    With a standardizer it takes rows as the user's file has them, in numbers of any type. The written file holds graph
    and weights, but no example row and no path of this machine.
    """
    dtype = rows.dtype if standardizer is None else standardizer.dtype
    example = torch.from_numpy(np.zeros((2, *rows.shape[1:]), dtype))
    with forget_shapes(), warnings.catch_warnings(action="ignore"):
        program = torch.export.export(
            RawInput(student, standardizer), (example,), dynamic_shapes=({0: torch.export.Dim.AUTO},)
        )
        for node in program.graph.nodes:
            node.meta.pop("stack_trace", None)
        program.example_inputs = None
        file = BytesIO()
        torch.export.save(program, file)
    write_private(path, file.getvalue())


@contextmanager
def forget_shapes() -> Iterator[None]:
    """Free the shape symbols of every graph that is traced or read in this context. None can be traced again.

    These symbols refer to each other through C++, where Python's garbage collector does not see them. PyTorch would
    keep them forever, and a sweep would use more memory with each student.
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
