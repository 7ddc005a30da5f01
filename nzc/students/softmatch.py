"""SoftMatch: predictions of the pool are pseudo-labels, weighted by the student's confidence."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nzc.data.augment import draws_anywhere
from nzc.ranges import BelowOne, Count, NotNegative, Positive
from nzc.students.base import StudentData
from nzc.students.moving_average import MovingAverage
from nzc.students.network import NetworkStudent, StudentModule


@dataclass(frozen=True, kw_only=True)
class SoftMatch(NetworkStudent):
    """Adds the cross-entropy of strongly augmented pool rows against predictions of the plain rows.

    SoftMatch (Chen et al. 2023, arXiv 2301.10921) weighs all predictions by `PseudoLabels`, where
    FixMatch (Sohn et al. 2020, arXiv 2001.07685) uses those above 0.95 only. Here, where fits are
    short, predictions come from the moving average of the weights (Tarvainen and Valpola 2017,
    arXiv 1703.01780) and from rows without augmentation (Xie et al. 2020, arXiv 1904.12848); and
    the labeled loss presumes wrong labels, and decays to 0 once pseudo-labels are right.
    """

    unlabeled: Count
    strong: Callable[..., Any]
    weight: NotNegative
    momentum: BelowOne
    width: Positive

    def student(self, data: StudentData, seed: int) -> StudentModule:
        student = super().student(data, seed)
        student.pseudo_labels = PseudoLabels(data, self.momentum, self.width)
        return student

    @property
    def graphable(self) -> bool:
        if getattr(self.strong, "colour", 0):  # it waits to know whether images have colour
            return False
        return super().graphable and draws_anywhere(self.strong)

    def losses(self, student: Any, x: Tensor, y: Tensor, u: Tensor) -> dict[str, Tensor]:
        with torch.no_grad():
            labels, weights = student.pseudo_labels(student.classifier(u))
        student.curves["weight"] = weights.mean()  # the effective share of the pool that is used
        logits = student.network(torch.cat([x, student.augmented(u, self.strong)]))
        labeled, pool = logits.split([len(x), len(u)])
        losses = F.cross_entropy(pool, labels, reduction="none")
        return {
            "labeled": student.labeled_loss(labeled, y),
            "pool": self.weight * (weights * losses).mean(),
        }


class PseudoLabels(nn.Module):
    """Pseudo-labels of pool rows, the likeliest of the released classes; and their weights.

    Let p be a row's largest probability, and μ and σ² mean and variance of p. The weight is 1 where
    p ≥ μ, and exp(−(width·(p − μ))²/2σ²) below (section 3.1). For the weights, probabilities are
    aligned first: divided by the mean probability of their class (section 3.3), and multiplied by
    its expected share instead of a uniform one. All means are exponential moving averages over
    batches, and start with the first batch.
    """

    def __init__(self, data: StudentData, momentum: float, width: float) -> None:
        super().__init__()
        self.width = width
        counts = torch.from_numpy(data.labels[data.labeled]).bincount(minlength=data.classes)
        self.never = nn.Buffer(counts == 0)
        self.expected = nn.Buffer(torch.from_numpy(data.shares).float())
        self.share = MovingAverage(momentum, data.classes)
        self.mean = MovingAverage(momentum)
        self.variance = MovingAverage(momentum)

    @torch.no_grad()
    def forward(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Return pseudo-labels and weights, both [rows], and update the moving averages.

        logits  [rows, classes]
        """
        probabilities = logits.masked_fill(self.never, -torch.inf).softmax(1)
        share = self.share(probabilities.mean(0))
        aligned = probabilities * self.expected / share.clamp(min=1e-12)
        p = (aligned / aligned.sum(1, keepdim=True)).amax(1)
        below = (self.mean(p.mean()) - p).clamp(min=0) * self.width
        variance = self.variance(p.var(correction=min(1, len(p) - 1)))
        weights = torch.exp(-below.square() / (2 * variance).clamp(min=1e-12))
        return probabilities.argmax(1), weights
