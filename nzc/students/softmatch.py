"""SoftMatch: the student's own predictions are pseudo-labels of the pool, weighted by its confidence."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from nzc.settings import BelowOne, Count, NotNegative, Positive
from nzc.students.config import StudentData
from nzc.students.network import StudentConfig

if TYPE_CHECKING:
    from torch import Tensor

    from nzc.students.module import StudentModule
    from nzc.students.pseudo_labels import PseudoLabels


@dataclass(frozen=True, kw_only=True)
class SoftMatch(StudentConfig):
    """Adds the cross-entropy of strongly augmented pool rows against the student's own prediction of the plain rows.

    SoftMatch (Chen et al. 2023, arXiv 2301.10921) is a variant of FixMatch (Sohn et al. 2020, arXiv 2001.07685).
    FixMatch uses predictions above 0.95 only; SoftMatch weighs all of them by `PseudoLabels`, so it has no threshold to
    choose. In the comparison of USB (microsoft/Semi-supervised-learning, results/classic_cv.csv; 40 labels, CIFAR-100:
    400) it is close to the best throughout. FlexMatch and FreeMatch, with a threshold per class, lose on SVHN, whose
    classes are unbalanced, as those of a public pool may be.

    Two things differ here, because a fit has thousands of steps instead of a million, and released labels are noisy:
    - Predictions come from the moving average of the weights (Tarvainen and Valpola 2017, arXiv 1703.01780) and from
      rows without augmentation (UDA: Xie et al. 2020, arXiv 1904.12848). More of them are right, for less work.
    - The labelled loss presumes wrong labels (`label_noise_rate`) and decays to 0 (`labeled_loss_decay`). By then the
      pseudo-labels agree with the right labels, and training goes on without the wrong ones.
    """

    unlabelled: Count
    strong: Callable[..., Any]
    weight: NotNegative
    momentum: BelowOne
    width: Positive

    def student(self, data: StudentData, seed: int) -> "StudentModule":
        from nzc.students.pseudo_labels import PseudoLabels

        student = super().student(data, seed)
        released = data.labels[data.labelled]
        student.pseudo_labels = PseudoLabels(released, data.classes, self.momentum, self.width)
        return student

    def losses(self, student: "StudentModule", x: "Tensor", y: "Tensor", u: "Tensor") -> "dict[str, Tensor]":
        import torch
        from torch.nn import functional as F

        with torch.no_grad():
            labels, weights = cast("PseudoLabels", student.pseudo_labels)(student.classifier(u))
        student.curves["weight"] = weights.mean()  # the effective share of the pool that is used
        logits = student.network(torch.cat([x, self.strong(u, student.rng)]))
        labelled, pool = logits.split([len(x), len(u)])
        return {
            "labelled": student.labelled_loss(labelled, y),
            "pool": self.weight * (weights * F.cross_entropy(pool, labels, reduction="none")).mean(),
        }
