"""SoftMatch: the student's own predictions are the labels of the pool, weighted by how sure it is of them."""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nzc._types import Ints
from nzc.datasets.strong import Strong
from nzc.errors import fraction, not_negative, positive, whole
from nzc.students.learner import Learner, Material
from nzc.students.student import Student


@dataclass(frozen=True, kw_only=True)
class SoftMatch(Learner):
    """Cross-entropy on strongly augmented rows of the pool against the student's own prediction of them as they are.

    SoftMatch (Chen et al. 2023, arXiv 2301.10921), of FixMatch's family (Sohn et al. 2020, arXiv 2001.07685). Where
    FixMatch takes a prediction above 0.95 and drops the rest, SoftMatch weighs all by `PseudoLabels`. Chosen from the
    comparison of USB (microsoft/Semi-supervised-learning, results/classic_cv.csv), errors with 40 labels in %:

                  FixMatch   FlexMatch   FreeMatch   AdaMatch   SoftMatch
        CIFAR-10      8.33        5.21        4.97       5.05        5.06
        SVHN          2.08        3.36        3.79       2.32        2.31
        CIFAR-100    53.37       50.15       49.24      47.82       49.64    (400 labels)

    It is close to the best throughout, and has no threshold to choose; those that adapt a threshold a class lose on
    SVHN, whose classes are unbalanced, as a public pool's may be.

    What differs here, because a fit is thousands of steps and not a million, and released labels are noisy:
    - predictions are those of the moving average of the weights (Tarvainen and Valpola 2017, arXiv 1703.01780) for
      rows that are not augmented (as in UDA: Xie et al. 2020, arXiv 1904.12848): more are right, and for less work;
    - the labelled term presumes wrong labels (`wrong`) and fades to nothing over the first part of the steps (`fade`):
      by then the pool says the same as the right ones, and without the wrong ones. The last predictions need not agree
      with the labels.

    Tables need nothing else: their strong augmentation is that of `Strong` for features.

    strong     what the pool's rows go through
    weight     of the pool's term; the labelled term's begins at 1
    momentum   of `PseudoLabels`
    width      of `PseudoLabels`
    """

    strong: Strong
    weight: float
    momentum: float
    width: float

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(1, unlabelled=self.unlabelled)
        not_negative(weight=self.weight)
        positive(width=self.width)
        fraction(momentum=self.momentum)

    def student(self, material: Material, seed: int) -> Student:
        student = super().student(material, seed)
        released = material.labels[material.answered]
        student.pseudo_labels = PseudoLabels(released, material.classes, self.momentum, self.width)
        return student

    def losses(self, student: Student, x: Tensor, y: Tensor, u: Tensor) -> dict[str, Tensor]:
        with torch.no_grad():
            labels, weights = cast(PseudoLabels, student.pseudo_labels)(student.classifier(u))
        student.curves["weight"] = weights.mean()  # the share of the pool that is learned from
        logits = student.network(torch.cat([x, self.strong(u, student.rng)]))
        labelled, pool = logits.split([len(x), len(u)])
        return {
            "labelled": student.labelled_loss(labelled, y),
            "pool": self.weight * (weights * F.cross_entropy(pool, labels, reduction="none")).mean(),
        }


class PseudoLabels(nn.Module):
    """What the student takes rows of the pool to be, and how much that weighs: the surer it is, the more.

    Labels are the likeliest of the classes that were ever released. With p a row's largest probability, μ and σ² their
    mean and variance, its weight is 1 where p ≥ μ, and exp(−(width·(p − μ))²/2σ²) below (Chen et al. 2023, section
    3.1). For the weights alone, probabilities are aligned first (section 3.3): divided by the mean probability of
    their class, so that classes predicted seldom count as much. All means are moving averages over batches; they begin
    with the first batch, not at a guess that takes 1/(1 − momentum) batches to forget.
    """

    def __init__(self, released: Ints, classes: int, momentum: float, width: float) -> None:
        super().__init__()
        self.momentum, self.width = momentum, width
        self.never: Tensor
        self.register_buffer("never", torch.from_numpy(released).bincount(minlength=classes) == 0)
        self.seen, self.share, self.mean, self.variance = 0, torch.zeros(()), torch.zeros(()), torch.zeros(())

    @torch.no_grad()
    def forward(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Takes note of a batch's logits [rows, classes], and gives labels and weights, [rows] both."""
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
