"""Virtual adversarial directions (Miyato et al. 2017, arXiv 1704.03976): where a network's prediction changes most."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

_Function = Callable[[Tensor], Tensor]


def divergence(network: _Function, x: Tensor, log_p: Tensor) -> Tensor:
    """Return KL(p ‖ the network's prediction at x) of each row, [rows]; x [rows, ...], log_p [rows, classes]."""
    return F.kl_div(network(x).log_softmax(1), log_p, reduction="none", log_target=True).sum(1)


def direction(network: _Function, x: Tensor, log_p: Tensor, start: Tensor, xi: float, power: int) -> Tensor:
    """Return, for each row of x, the unit vector along which the divergence from p grows fastest, [rows, ...]; or 0.

    For p = p(·|x) it is the dominant eigenvector of the divergence's Hessian at x, found by power iteration from
    `start` (section 3.3): the Hessian times d is the gradient at x + xi · d, because the gradient at x is 0. For
    another p the gradient at x is not 0, and is itself the direction. Parameters get no gradients.
    """
    d = _unit(start)
    for _ in range(power):
        at = (x + xi * d).requires_grad_()
        (gradient,) = torch.autograd.grad(divergence(network, at, log_p).sum(), at)
        d = _unit(gradient)
    return d


def _unit(x: Tensor) -> Tensor:
    """Return each row of x [rows, ...] scaled to L2 norm 1; 0 stays 0. Scaling the maximum first avoids underflow."""
    flat = x.flatten(1)
    return F.normalize(flat / flat.abs().amax(1, keepdim=True).clamp_min(torch.finfo(x.dtype).tiny)).view_as(x)


def with_seed(network: _Function, seed: int, x: Tensor) -> Tensor:
    """Return network(x), with the same dropout in every call with this seed."""
    with torch.random.fork_rng(devices=[] if x.device.type == "cpu" else [x.device], device_type=x.device.type):
        torch.manual_seed(seed)
        return network(x)
