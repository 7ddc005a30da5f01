"""Optimiser and learning-rate schedule of a fit: AdamW and one cycle, or the user's own. torch is imported in use."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar

from nzc.settings import NotNegative, Positive
from nzc.validation import InputError, in_a_line

if TYPE_CHECKING:
    from pytorch_lightning.utilities.types import OptimizerLRSchedulerConfig
    from torch import Tensor
    from torch.optim import Optimizer
    from torch.optim.lr_scheduler import LRScheduler


@dataclass(frozen=True, kw_only=True)
class OptimizerSettings:
    """What teachers and students have in common.

    lr, weight_decay  of AdamW; `lr` is the peak of a one-cycle schedule
    optimizer         makes your own optimiser from the parameters; it keeps its learning rate without a `schedule`
    schedule          makes your own schedule from the optimiser, and from `total_steps` where it takes that
    """

    lr: Positive
    weight_decay: NotNegative
    optimizer: Callable[..., Any] | None = None
    schedule: Callable[..., Any] | None = None

    #: The arguments of the optimiser's step in a fit: a closure where there is one.
    step_arguments: ClassVar[tuple[Any, ...]] = ()

    def __post_init__(self) -> None:
        """Raise InputError where the user's own optimiser, or own schedule, cannot take a step. This needs no row."""
        if self.optimizer is None and self.schedule is None:
            return
        import torch

        weights = [torch.zeros(2, 2, requires_grad=True), torch.zeros(2, requires_grad=True)]
        for weight in weights:
            weight.grad = torch.zeros_like(weight)
        key = "optimizer"
        try:
            optimizer = self._optimizer(weights, self.lr)
            optimizer.step(*self.step_arguments)
            key = "schedule"
            schedule = self._schedule(optimizer, 100, self.lr)
            optimizer.step(*self.step_arguments)  # before the schedule's, as torch asks for
            if schedule is not None:
                schedule.step()
        except Exception as error:  # classes of torch and of users raise many types
            own: Any = getattr(self, key)
            allowed = f"must be able to take a step with these settings ({in_a_line(error)})"
            raise InputError(key, getattr(getattr(own, "func", own), "__name__", own), allowed) from error

    @property
    def keeps_apart(self) -> bool:
        """Whether teachers with stacked weights stay independent under this optimiser, as privacy requires.

        It does if it changes every number by itself. Others let the parameters that they get influence each other.
        """
        from torch import optim as of

        adaptive = (of.Adadelta, of.Adagrad, of.Adam, of.AdamW, of.Adamax, of.NAdam, of.RAdam, of.RMSprop, of.Rprop)
        return self.optimizer is None or getattr(self.optimizer, "func", self.optimizer) in (*adaptive, of.ASGD, of.SGD)

    def make_optimizer(
        self, parameters: "Iterable[Tensor]", steps: int, lr: float | None = None, usual: Any = None, **options: Any
    ) -> "tuple[Optimizer, LRScheduler | None]":
        """Return the optimiser and its learning-rate schedule over so many steps; None: the rate stays as it is.

        lr       instead of that of the settings
        usual    makes AdamW's schedule where the settings name none; None: one cycle
        options  of AdamW
        """
        lr = self.lr if lr is None else lr
        optimizer = self._optimizer(parameters, lr, **options)
        return optimizer, self._schedule(optimizer, steps, lr, usual)

    def _optimizer(self, parameters: "Iterable[Tensor]", lr: float, **options: Any) -> "Optimizer":
        from torch.optim import AdamW

        if self.optimizer is None:
            return AdamW(parameters, lr, weight_decay=self.weight_decay, fused=True, **options)
        own: Optimizer = self.optimizer(parameters)
        return own

    def _schedule(self, optimizer: "Optimizer", steps: int, lr: float, usual: Any = None) -> "LRScheduler | None":
        from torch.optim.lr_scheduler import OneCycleLR

        make = self.schedule or (None if self.optimizer else usual or partial(OneCycleLR, max_lr=lr))
        if make is None:
            return None
        takes_steps = "total_steps" in signature(make).parameters
        schedule: LRScheduler = make(optimizer, total_steps=steps + 1) if takes_steps else make(optimizer)
        return schedule


def as_lightning(optimizer: "Optimizer", schedule: "LRScheduler | None") -> "OptimizerLRSchedulerConfig":
    """Return both as Lightning's configure_optimizers does; the schedule steps after every batch."""
    if schedule is None:
        return {"optimizer": optimizer}  # type: ignore[typeddict-item]
    return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}
