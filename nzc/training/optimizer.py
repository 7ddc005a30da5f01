"""Optimiser and learning-rate schedule of a fit: AdamW and one cycle, or the user's own."""

from collections.abc import Callable, Iterable
from inspect import signature
from typing import Any

from torch import Tensor, optim
from torch.optim import AdamW, Optimizer
from torch.optim.lr_scheduler import LRScheduler, OneCycleLR

#: Optimisers that change every number by itself. Others let the parameters that they get influence each other.
_ELEMENTWISE = (
    optim.Adadelta, optim.Adagrad, optim.Adam, optim.AdamW, optim.Adamax, optim.ASGD, optim.NAdam, optim.RAdam,
    optim.RMSprop, optim.Rprop, optim.SGD,
)  # fmt: skip


def keeps_apart(own: Callable[..., Optimizer] | None) -> bool:
    """Return whether teachers with stacked weights stay independent under this optimiser, as privacy requires."""
    return own is None or getattr(own, "func", own) in _ELEMENTWISE


def make_optimizer(
    parameters: Iterable[Tensor], lr: float, weight_decay: float, own: Callable[..., Optimizer] | None, **options: Any
) -> Optimizer:
    """Return `own(parameters)`; without `own`, AdamW with these settings."""
    if own is not None:
        return own(parameters)
    return AdamW(parameters, lr, weight_decay=weight_decay, fused=True, **options)


def make_schedule(optimizer: Optimizer, lr: float, steps: int, own: Callable[..., LRScheduler] | None) -> LRScheduler:
    """Return `own(optimizer)`, with `total_steps` where it takes that; without `own`, one cycle with peak `lr`."""
    if own is None:
        return OneCycleLR(optimizer, lr, total_steps=steps + 1)
    takes_steps = "total_steps" in signature(own).parameters
    return own(optimizer, total_steps=steps + 1) if takes_steps else own(optimizer)
