"""Pseudo-labels of SoftMatch (Chen et al. 2023, arXiv 2301.10921), and their weights."""

import torch
from torch import Tensor, nn

from nzc.types import Ints


class PseudoLabels(nn.Module):
    """Pseudo-labels of pool rows, and their weights.

    The pseudo-label is the likeliest class among those that were ever released. Let p be a row's largest probability,
    and μ and σ² mean and variance of p. The weight is 1 where p ≥ μ, and exp(−(width·(p − μ))²/2σ²) below (Chen et al.
    2023, section 3.1). For the weights, probabilities are aligned first (section 3.3): divided by the mean probability
    of their class, so that rarely predicted classes count as much. All means are exponential moving averages over
    batches. They start with the first batch instead of a guess that takes 1/(1 − momentum) batches to forget.
    """

    def __init__(self, released: Ints, classes: int, momentum: float, width: float) -> None:
        super().__init__()
        self.momentum, self.width = momentum, width
        self.never = nn.Buffer(torch.from_numpy(released).bincount(minlength=classes) == 0)
        self.seen, self.share, self.mean, self.variance = 0, torch.zeros(()), torch.zeros(()), torch.zeros(())

    @torch.no_grad()
    def forward(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Return pseudo-labels and weights, both [rows], of logits [rows, classes], and update the moving averages."""
        probabilities = logits.masked_fill(self.never, -torch.inf).softmax(1)
        self.seen += 1
        self.share = self._average(self.share, probabilities.mean(0))
        aligned = probabilities / self.share.clamp(min=1e-12)
        p = (aligned / aligned.sum(1, keepdim=True)).amax(1)
        self.mean = self._average(self.mean, p.mean())
        self.variance = self._average(self.variance, p.var(correction=min(1, len(p) - 1)))
        below = (self.mean - p).clamp(min=0) * self.width
        return probabilities.argmax(1), torch.exp(-below.square() / (2 * self.variance).clamp(min=1e-12))

    def _average(self, before: Tensor, now: Tensor) -> Tensor:
        return torch.lerp(before.to(now), now, max(1 - self.momentum, 1 / self.seen))
