"""Which rows the steps of a fit see."""

import torch
from torch import Tensor


def epochs(rows: int, total: int, rng: torch.Generator) -> Tensor:
    """Return `total` row numbers, in random order: every row once before any row twice."""
    passes = [torch.randperm(rows, generator=rng) for _ in range(-(-total // rows))]
    return torch.cat([torch.empty(0, dtype=torch.int64), *passes])[:total]
