"""GAN-SSL student: a GAN with feature matching (Salimans et al. 2016, arXiv 1606.03498), as in PATE 2017."""

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nzc import networks
from nzc.settings import NotNegative, Positive, TwoOrMore
from nzc.students.config import StudentData
from nzc.students.network import StudentConfig
from nzc.training.trainer import TrainerSettings
from nzc.validation import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from nzc.students.adversaries import Adversaries


@dataclass(frozen=True, kw_only=True)
class GANSSL(StudentConfig):
    """The classifier is also a discriminator: a generated row is one more class, whose logit is 0 (section 5).

    The discriminator's loss is the labelled cross-entropy + `unlabelled_loss`; the generator's is `feature_matching`.
    Each step moves both at once, by Adam with β₁ = 0.5, and generates as many rows as it draws from the pool. The
    learning rate is constant for the first half of the steps and then falls linearly to 0.

    lr_generator  learning rate of the generator; `lr` is the discriminator's
    entropy       weight of the entropy of class probabilities on the pool (Dai et al. 2017, arXiv 1705.09783); 0: none
    consistency   weight of KL(p ‖ q) on the pool, p held fixed; p and q are class probabilities for two draws of
                  augmentation and noise (after Wei et al. 2018, arXiv 1803.01541); 0: none
    """

    unlabelled: TwoOrMore  # the generator's batch normalisation needs two
    lr_generator: Positive
    entropy: NotNegative
    consistency: NotNegative

    step_arguments = (lambda: None,)  # the gradients of both losses are computed once

    def check(self, shape: tuple[int, ...], classes: int, trainer: TrainerSettings) -> None:
        super().check(shape, classes, trainer)
        import torch

        assert self.network is not None
        with torch.device("meta"), warnings.catch_warnings(action="ignore"):
            network = networks.build(self.network, shape, classes)
        if not (isinstance(network, torch.nn.Sequential) and isinstance(network[-1], torch.nn.Linear)):
            allowed = "must be a Sequential that ends in a Linear head: the generator matches the features below it"
            raise InputError("student.network", self.network, allowed)

    def student(self, data: StudentData, seed: int) -> "Adversaries":
        from nzc.students.adversaries import Adversaries

        return Adversaries(self, data, seed, self.lr_generator)

    def losses(self, student: "Adversaries", x: "Tensor", y: "Tensor", u: "Tensor") -> "dict[str, Tensor]":
        """Return the discriminator's losses and, as the last, the generator's. One pass gives the features of both."""
        import torch
        from torch.nn import functional as F

        from nzc.students.adversaries import feature_matching, unlabelled_loss
        from nzc.students.module import without_statistics

        assert isinstance(student.network, torch.nn.Sequential)
        body, head = student.network[:-1], student.network[-1]
        again = without_statistics(body)
        with torch.no_grad():
            p = head(again(student.augmented(u))).softmax(1)
        real, generated = body(student.augmented(u)), again(student.generated(len(u)))
        logits = head(real)
        log_q = logits.log_softmax(1)
        return {
            "labelled": student.labelled_loss(head(again(x)), y),
            "unlabelled": unlabelled_loss(logits, head(generated)),
            "entropy": self.entropy * -(log_q.exp() * log_q).sum(1).mean(),
            "consistency": self.consistency * F.kl_div(log_q, p, reduction="batchmean"),
            "generator": feature_matching(real, generated),
        }
