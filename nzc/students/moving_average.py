"""A moving average over batches."""

import torch
from torch import Tensor, nn


class MovingAverage(nn.Module):
    """The exponential moving average of tensors of `shape`; of the first ones, their mean.

    It changes in place, as a CUDA graph needs.
    """

    def __init__(self, momentum: float, *shape: int) -> None:
        super().__init__()
        self.least = 1 - momentum
        self.batches = nn.Buffer(torch.zeros(()), persistent=False)
        self.value = nn.Buffer(torch.zeros(shape), persistent=False)

    @torch.no_grad()
    def forward(self, now: Tensor) -> Tensor:
        """Return the average, which now includes this batch's."""
        self.batches.add_(1)
        share = self.batches.reciprocal().clamp(min=self.least)
        return self.value.lerp_(now.to(self.value), share)
