"""Export the student to one file that loads without nzc, and without running a pickle."""

import warnings
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from nzc.data import Standardizer
from nzc.data.images import Pixels
from nzc.networks import as_input
from nzc.storage.files import write_private
from nzc.students.base import FittedStudent
from nzc.types import AnyArray


class RawInput(nn.Module):
    """The student for rows [rows, ...] of the user's file, before their preparation → logits.

    As in nzc.data.Standardizer, a missing value (NaN) counts as the public mean, and absurd values
    are limited.
    """

    def __init__(self, student: FittedStudent, preparation: Standardizer | Pixels | None) -> None:
        super().__init__()
        self.classifier = student.classifier
        self.preparation = preparation
        limit = np.array(1e18)
        if isinstance(preparation, Standardizer):
            limit = preparation.limit
            # A buffer has a dimension, so the product with rows of any type, also bool and float16,
            # is float64.
            self.one_half = nn.Buffer(torch.full((1,), 0.5, dtype=torch.float64))
            self.mean = nn.Buffer(torch.from_numpy(preparation.mean) / 2)
            self.spread = nn.Buffer(torch.from_numpy(preparation.spread) / 2)
        self.limit = nn.Buffer(torch.from_numpy(limit).float())
        self.cpu().eval()

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(self.preparation, Standardizer):  # as it computes, to the last digit
            x = ((x * self.one_half - self.mean) / self.spread).float()
        elif isinstance(self.preparation, Pixels):
            x = self.preparation.grey_levels(x.double()).float() / 255
        else:
            x = as_input(x)
        logits: Tensor = self.classifier(x.nan_to_num(0).clamp(-self.limit, self.limit))
        return logits


def behind(network: nn.Module, student: FittedStudent) -> FittedStudent:
    """Return the student for rows that this network turns into those that it has learned from."""
    return replace(student, classifier=nn.Sequential(network, student.classifier))


def write_student(
    path: Path, student: FittedStudent, rows: AnyArray, preparation: Standardizer | Pixels | None
) -> None:
    """Write the student so that `torch.export.load(path).module()` maps rows to logits.

    It takes rows like `rows` [rows, ...]; with a preparation, as the user's file has them. The
    written file holds graph and weights, but no example row and no path of this machine.
    """
    row = preparation or rows[0]  # either has shape and type
    example = torch.from_numpy(np.zeros((2, *row.shape), row.dtype))
    file = BytesIO()
    with warnings.catch_warnings(action="ignore"):
        program = torch.export.export(
            RawInput(student, preparation),
            (example,),
            dynamic_shapes=({0: torch.export.Dim.AUTO},),
        )
        for node in program.graph.nodes:
            node.meta.pop("stack_trace", None)
        program.example_inputs = None
        torch.export.save(program, file)
    write_private(path, file.getvalue())
