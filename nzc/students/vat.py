"""Virtual adversarial training (Miyato et al. 2017, arXiv 1704.03976): the student of Scalable PATE 2018 on Glyph."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from nzc.errors import not_negative, positive, whole
from nzc.students.learner import Learner
from nzc.students.student import Student, aside

_Function = Callable[[Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class VAT(Learner):
    """Learns from labels, and to answer surely, and alike around every row of the pool.

    The loss is the labelled rows' cross-entropy + alpha · LDS + entropy · H, where, as means over `unlabelled` rows u
    of the pool, labelled ones among them,

        LDS   KL(p(·|u) ‖ p(·|v + r)), with p(·|u) held fixed and r the virtual adversarial perturbation
        H     the entropy of p(·|u)

    radius    L2 norm of r (the paper's ε, which has nothing to do with privacy's)
    power     iterations by which r's direction is found
    xi        step of their finite differences, an L2 norm too: small beside radius, large beside float32's rounding

    The weight of H grows to `entropy` in proportion to the steps: from the first on, it would make all rows surely of
    one class before the labels have told them apart, and settle the first errors.

    u and v are one row: the same, as in the paper, or, where there is `augment`, two draws of it.
    Running statistics of batch normalisation come from u alone: not from v + r, nor from the labelled rows, which a
    screen may have chosen. Dropout is the same in all passes of a step, or p would change without any r.
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

    def losses(self, student: Student, x: Tensor, y: Tensor, u: Tensor) -> dict[str, Tensor]:
        u, v = student.augmented(u), student.augmented(u)
        seed = int(torch.randint(2**62, (), generator=student.rng))
        start = torch.randn(v.shape, generator=student.rng).to(v)
        log_p = _drawn(student.network, seed)(u).log_softmax(1)
        network = _drawn(aside(student.network), seed)
        r = self.radius * direction(network, v, log_p.detach(), start, self.xi, self.power)
        return {
            "labelled": student.labelled_loss(network(x), y),
            "virtual_adversarial": self.alpha * divergence(network, v + r, log_p.detach()).mean(),
            "entropy": self.entropy * student.progress * -(log_p.exp() * log_p).sum(1).mean(),
        }


def divergence(network: _Function, x: Tensor, log_p: Tensor) -> Tensor:
    """KL(p ‖ what the network says at x) of each row, [rows]; x [rows, ...], log_p [rows, classes]."""
    return F.kl_div(network(x).log_softmax(1), log_p, reduction="none", log_target=True).sum(1)


def direction(network: _Function, x: Tensor, log_p: Tensor, start: Tensor, xi: float, power: int) -> Tensor:
    """The unit vector of each row of x along which the divergence from p grows fastest, [rows, ...]; 0 where none does.

    With p = p(·|x) that is the dominant eigenvector of the divergence's Hessian at x, found by power iteration from
    `start` (section 3.3): the Hessian times d is the gradient at x + xi · d, for at x it vanishes. With another p it
    does not, and is the direction itself. Parameters get no gradients.
    """
    d = _unit(start)
    for _ in range(power):
        at = (x + xi * d).requires_grad_()
        (gradient,) = torch.autograd.grad(divergence(network, at, log_p).sum(), at)
        d = _unit(gradient)
    return d


def _unit(x: Tensor) -> Tensor:
    """Each row of x [rows, ...] at L2 norm 1; 0 where it is 0. First at largest entry 1, lest small squares vanish."""
    flat = x.flatten(1)
    return F.normalize(flat / flat.abs().amax(1, keepdim=True).clamp_min(torch.finfo(x.dtype).tiny)).view_as(x)


def _drawn(network: _Function, seed: int) -> _Function:
    """The network as a function that draws the same dropout in every pass."""

    def run(x: Tensor) -> Tensor:
        with torch.random.fork_rng(devices=[] if x.device.type == "cpu" else [x.device], device_type=x.device.type):
            torch.manual_seed(seed)
            return network(x)

    return run
