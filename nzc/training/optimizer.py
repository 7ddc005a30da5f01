"""Optimiser and learning-rate schedule of a fit: AdamW and one cycle, or the user's own."""

from collections.abc import Callable, Iterable
from functools import partial
from inspect import signature
from typing import Any

import torch
from pytorch_lightning.utilities.types import OptimizerLRSchedulerConfig
from torch import Tensor, optim
from torch.optim import AdamW, Optimizer
from torch.optim.lr_scheduler import LRScheduler, OneCycleLR

from nzc.validation import InputError, in_a_line

#: Optimisers that change every number by itself. Others let the parameters that they get influence each other.
_ELEMENTWISE = (
    optim.Adadelta, optim.Adagrad, optim.Adam, optim.AdamW, optim.Adamax, optim.ASGD, optim.NAdam, optim.RAdam,
    optim.RMSprop, optim.Rprop, optim.SGD,
)  # fmt: skip


def keeps_apart(own: Callable[..., Optimizer] | None) -> bool:
    """Return whether teachers with stacked weights stay independent under this optimiser, as privacy requires."""
    return own is None or getattr(own, "func", own) in _ELEMENTWISE


def make_optimizer(
    parameters: Iterable[Tensor],
    steps: int,
    lr: float,
    weight_decay: float,
    own: Callable[..., Optimizer] | None = None,
    schedule: Callable[..., LRScheduler] | None = None,
    usual: Callable[..., LRScheduler] | None = None,
    **options: Any,
) -> tuple[Optimizer, LRScheduler | None]:
    """Return an optimiser and its learning-rate schedule over so many steps; None: the rate stays as it is.

    own       makes the user's own optimiser from the parameters, and keeps its rate unless there is a `schedule`;
              None: AdamW with `lr`, `weight_decay` and `options`
    schedule  makes the user's own schedule from the optimiser, and `total_steps` where it takes that
    usual     the schedule of AdamW where the user names none; None: one cycle with peak `lr`
    """
    if own is not None:
        optimizer = own(parameters)
    else:
        optimizer = AdamW(parameters, lr, weight_decay=weight_decay, fused=True, **options)
        schedule = schedule or usual or partial(OneCycleLR, max_lr=lr)
    if schedule is None:
        return optimizer, None
    takes_steps = "total_steps" in signature(schedule).parameters
    return optimizer, schedule(optimizer, total_steps=steps + 1) if takes_steps else schedule(optimizer)


def as_lightning(optimizer: Optimizer, schedule: LRScheduler | None) -> OptimizerLRSchedulerConfig:
    """Return both as Lightning's configure_optimizers does; the schedule steps after every batch."""
    if schedule is None:
        return {"optimizer": optimizer}  # type: ignore[typeddict-item]
    return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def check_optimizer(
    lr: float,
    weight_decay: float,
    own: Callable[..., Optimizer] | None,
    schedule: Callable[..., LRScheduler] | None,
    **step: Any,
) -> None:
    """Raise InputError where the user's own optimiser, or own schedule, cannot take a step. No row is needed for it.

    step  the arguments of the optimiser's step in a fit
    """
    for key, tried in {"optimizer": None, "schedule": schedule}.items():
        weights = [torch.zeros(2, 2, requires_grad=True), torch.zeros(2, requires_grad=True)]
        for each in weights:
            each.grad = torch.zeros_like(each)
        try:
            optimizer, made = make_optimizer(weights, 100, lr, weight_decay, own, tried)
            optimizer.step(**step)
            if made is not None:
                made.step()
        except Exception as error:  # classes of torch and of users raise many types
            kind: Any = own if key == "optimizer" else schedule
            allowed = f"must be able to take a step with these settings ({in_a_line(error)})"
            raise InputError(key, getattr(getattr(kind, "func", kind), "__name__", kind), allowed) from error
