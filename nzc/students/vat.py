"""VAT student of Scalable PATE 2018: virtual adversarial training (Miyato et al. 2017).

arXiv 1704.03976.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from nzc.ranges import Count, NotNegative, Positive
from nzc.students.network import NetworkStudent, StudentModule, without_statistics

_Function = Callable[[Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class VAT(NetworkStudent):
    """Learns from labels, and to predict confidently and smoothly around every row of the pool.

    The loss is the labeled cross-entropy + alpha · LDS + entropy · H. Both are means over
    `unlabeled` pool rows u:

        LDS  KL(p(·|u) ‖ p(·|v + r)), p(·|u) held fixed; v is u, or another draw of its augmentation
        H    the entropy of p(·|u); its weight grows linearly over the fit, or all rows would get
             one class at first

    r has the L2 norm `radius`; `direction` finds it. BatchNorm's running statistics come from u
    only: not from v + r, nor from the labeled rows, which a screen may have selected. All passes of
    a step use the same dropout, or p would change without any r.
    """

    unlabeled: Count
    alpha: NotNegative
    entropy: NotNegative
    radius: Positive
    xi: Positive
    power: Count

    @property
    def graphable(self) -> bool:
        return False  # it cannot repeat the network's draws within a step, as all passes need

    def losses(self, student: StudentModule, x: Tensor, y: Tensor, u: Tensor) -> dict[str, Tensor]:
        first = student.augmented(u)
        v = student.augmented(u)
        seed = int(torch.randint(2**62, (), generator=student.rng))
        start = torch.randn(v.shape, generator=student.draws, device=student.draws.device).to(v)
        log_p = with_seed(student.network, seed, first).log_softmax(1)
        network = partial(with_seed, without_statistics(student.network), seed)
        r = self.radius * direction(network, v, log_p.detach(), start, self.xi, self.power)
        return {
            "labeled": student.labeled_loss(network(x), y),
            "virtual_adversarial": self.alpha * divergence(network, v + r, log_p.detach()).mean(),
            "entropy": self.entropy * student.progress * -(log_p.exp() * log_p).sum(1).mean(),
        }


def divergence(network: _Function, x: Tensor, log_p: Tensor) -> Tensor:
    """Return KL(p ‖ prediction at x), [rows]; x [rows, ...], log_p [rows, classes]."""
    return F.kl_div(network(x).log_softmax(1), log_p, reduction="none", log_target=True).sum(1)


def direction(
    network: _Function, x: Tensor, log_p: Tensor, start: Tensor, xi: float, power: int
) -> Tensor:
    """Return the unit vectors along which the divergence from p grows fastest, or 0: [rows, ...].

    For p = p(·|x) it is the dominant eigenvector of the divergence's Hessian at x, by power
    iteration from `start` (section 3.3): the Hessian times d is the gradient at x + xi · d. For
    another p it is the gradient at x.
    """
    d = _unit(start)
    for _ in range(power):
        point = (x + xi * d).requires_grad_()
        (gradient,) = torch.autograd.grad(divergence(network, point, log_p).sum(), point)
        d = _unit(gradient)
    return d


def _unit(x: Tensor) -> Tensor:
    """Return each row of x [rows, ...] scaled to L2 norm 1; 0 stays 0."""
    flat = x.flatten(1)
    largest = flat.abs().amax(1, keepdim=True)  # to scale it first avoids underflow
    return F.normalize(flat / largest.clamp_min(torch.finfo(x.dtype).tiny)).view_as(x)


def with_seed(network: _Function, seed: int, x: Tensor) -> Tensor:
    """Return network(x), with the same dropout in every call with this seed."""
    rng = _dropout_generator(x.device)
    before = rng.get_state()
    rng.manual_seed(seed)
    try:
        return network(x)
    finally:
        rng.set_state(before)


def _dropout_generator(device: torch.device) -> torch.Generator:
    if device.type == "cpu":
        return torch.default_generator
    if device.type == "mps":
        return torch.mps._get_default_mps_generator()
    generator: torch.Generator = torch.get_device_module(device).default_generators[device.index]
    return generator
