"""Which rows the steps of a fit see."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from pytorch_lightning import LightningModule
from torch import Tensor


def epochs(rows: int, total: int, rng: torch.Generator) -> Tensor:
    """Return `total` row numbers, in random order: every row once before any row twice."""
    passes = [torch.randperm(rows, generator=rng) for _ in range(-(-total // rows))]
    return torch.cat([torch.empty(0, dtype=torch.int64), *passes])[:total]


@dataclass(frozen=True)
class Stretches:
    """The batches of a fit, of which each epoch of the module takes the next `length`."""

    batches: list[Any]
    length: int
    module: LightningModule

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[Any]:
        start = self.module.current_epoch * self.length % len(self.batches)
        return iter(self.batches[start : start + self.length])
