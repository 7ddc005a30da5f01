"""VAT student: virtual adversarial training (Miyato et al. 2017, arXiv 1704.03976), as in Scalable PATE 2018."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from nzc.students.config import StudentConfig
from nzc.validation import not_negative, positive, whole

if TYPE_CHECKING:
    from torch import Tensor

    from nzc.students.module import StudentModule


@dataclass(frozen=True, kw_only=True)
class VAT(StudentConfig):
    """Learns from labels, and to predict confidently and smoothly around every row of the pool.

    The loss is the labelled cross-entropy + alpha · LDS + entropy · H. Both terms are means over `unlabelled` rows u of
    the pool, which may be labelled too:

        LDS   KL(p(·|u) ‖ p(·|v + r)), with p(·|u) held fixed and r the virtual adversarial perturbation
        H     the entropy of p(·|u)

    r has the L2 norm `radius`. Its direction is found by `power` iterations, with finite differences of step `xi` (an
    L2 norm: small against radius, large against float32's rounding). The weight of H grows linearly to `entropy` over
    the fit. At full weight from the start, it would assign all rows to one class before the labels separate them.

    u and v are one row: identical as in the paper, or two draws of `augment`. BatchNorm's running statistics come from
    u only: not from v + r, and not from the labelled rows, which a screen may have selected. All passes of a step use
    the same dropout, because otherwise p would change without any r.
    """

    alpha: float
    entropy: float
    radius: float
    xi: float
    power: int

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(1, unlabelled=self.unlabelled, power=self.power)
        not_negative(alpha=self.alpha, entropy=self.entropy)
        positive(radius=self.radius, xi=self.xi)

    def losses(self, student: "StudentModule", x: "Tensor", y: "Tensor", u: "Tensor") -> "dict[str, Tensor]":
        import torch

        from nzc.students.module import without_statistics
        from nzc.students.virtual_adversarial import direction, divergence, with_seed

        u, v = student.augmented(u), student.augmented(u)
        seed = int(torch.randint(2**62, (), generator=student.rng))
        start = torch.randn(v.shape, generator=student.rng).to(v)
        log_p = with_seed(student.network, seed, u).log_softmax(1)
        network = partial(with_seed, without_statistics(student.network), seed)
        r = self.radius * direction(network, v, log_p.detach(), start, self.xi, self.power)
        return {
            "labelled": student.labelled_loss(network(x), y),
            "virtual_adversarial": self.alpha * divergence(network, v + r, log_p.detach()).mean(),
            "entropy": self.entropy * student.progress * -(log_p.exp() * log_p).sum(1).mean(),
        }
