"""Optimiser and learning-rate schedule of a fit: AdamW and one cycle, or the user's own. torch is
imported in use.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any

from nzc.settings import NotNegative, Positive
from nzc.validation import InputError, in_a_line

if TYPE_CHECKING:
    from torch.optim import Optimizer
    from torch.optim.lr_scheduler import LRScheduler


@dataclass(frozen=True, kw_only=True)
class OptimizerSettings:
    """What teachers and students have in common."""

    lr: Positive  # of AdamW; the peak of a one-cycle schedule
    weight_decay: NotNegative  # of AdamW
    optimizer: Callable[..., Any] | None = (
        None  # makes your own from parameters; without `schedule` it keeps its rate
    )
    schedule: Callable[..., Any] | None = (
        None  # makes your own from the optimiser, and `total_steps` if it takes that
    )

    def __post_init__(self) -> None:
        """Raise InputError where the user's own optimiser, or own schedule, cannot be made. This
        needs no row.
        """
        if self.optimizer is None and self.schedule is None:
            return
        import torch

        key, weights = "optimizer", [torch.zeros(1, requires_grad=True)]
        try:
            if self.optimizer is not None:
                self.optimizer(weights)
            key = "schedule"
            self.make_optimizer(weights, 100)
        except Exception as error:  # classes of torch and of users raise many types
            own: Any = getattr(self, key)
            name = getattr(getattr(own, "func", own), "__name__", own)
            raise InputError(
                key, name, f"cannot be made with these settings ({in_a_line(error)})"
            ) from error

    @property
    def keeps_apart(self) -> bool:
        """Whether stacked teachers stay independent: the optimiser changes every number by itself."""
        from torch import optim as of

        adaptive = (
            of.Adadelta,
            of.Adagrad,
            of.Adam,
            of.AdamW,
            of.Adamax,
            of.NAdam,
            of.RAdam,
            of.RMSprop,
            of.Rprop,
        )
        return self.optimizer is None or getattr(self.optimizer, "func", self.optimizer) in (
            *adaptive,
            of.ASGD,
            of.SGD,
        )

    def make_optimizer(
        self, parameters: "Iterable[Any]", steps: int, usual: Any = None, **options: Any
    ) -> "tuple[Optimizer, LRScheduler | None]":
        """Return the optimiser and its learning-rate schedule over so many steps; None: the rate
        stays as it is.

        usual  makes AdamW's schedule where the settings name none; None: one cycle. The options are
               AdamW's
        """
        from torch.optim import AdamW
        from torch.optim.lr_scheduler import OneCycleLR

        make = self.schedule
        if self.optimizer is None:
            optimizer: Optimizer = AdamW(
                parameters, self.lr, weight_decay=self.weight_decay, fused=True, **options
            )
            make = make or usual or partial(OneCycleLR, max_lr=self.lr)
        else:
            optimizer = self.optimizer(parameters)
        if make is None:
            return optimizer, None
        takes_steps = "total_steps" in signature(make).parameters
        return optimizer, make(optimizer, total_steps=steps + 1) if takes_steps else make(optimizer)
