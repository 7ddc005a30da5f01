"""Optimiser and learning-rate schedule of a fit: AdamW and one cycle, or the user's own.

torch is imported in use.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any

from nzc.ranges import NotNegative, Positive
from nzc.training.trial import trial

if TYPE_CHECKING:
    from torch.optim import Optimizer
    from torch.optim.lr_scheduler import LRScheduler

#: Optimisers of torch.optim that change every number by itself.
_ELEMENTWISE = (
    *("ASGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax"),
    *("NAdam", "RAdam", "RMSprop", "Rprop", "SGD"),
)


@dataclass(frozen=True, kw_only=True)
class OptimizerSettings:
    """What teachers and students have in common.

    lr            of AdamW: the peak of a one-cycle schedule
    weight_decay  of AdamW
    optimizer     makes your own from parameters; without `schedule` it keeps its rate
    schedule      makes your own from the optimiser, and `total_steps` if it takes that
    """

    lr: Positive
    weight_decay: NotNegative
    optimizer: Callable[..., Any] | None = None
    schedule: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        """Raise InputError where the user's own optimiser, or schedule, cannot be made."""
        if self.optimizer is None and self.schedule is None:
            return
        import torch

        weights = [torch.zeros(1, requires_grad=True)]
        if self.optimizer is not None:
            with trial("optimizer", self.optimizer, "cannot be made with these settings"):
                self.optimizer(weights)
        with trial("schedule", self.schedule, "cannot be made with these settings"):
            self.make_optimizer(weights, 100)

    @property
    def keeps_apart(self) -> bool:
        """Whether stacked teachers stay independent: each number changes by itself."""
        if self.optimizer is None:
            return True
        import torch

        kind = getattr(self.optimizer, "func", self.optimizer)
        return kind in [getattr(torch.optim, name) for name in _ELEMENTWISE]

    def make_optimizer(
        self, parameters: "Iterable[Any]", steps: int, usual: Any = None, **options: Any
    ) -> "tuple[Optimizer, LRScheduler | None]":
        """Return the optimiser and its schedule over so many steps; None: the rate stays.

        usual  makes AdamW's schedule where the settings name none; None: one cycle. The options are
               AdamW's
        """
        from torch.optim import AdamW
        from torch.optim.lr_scheduler import OneCycleLR

        make = self.schedule
        if self.optimizer is not None:
            optimizer: Optimizer = self.optimizer(parameters)
        else:
            optimizer = AdamW(
                parameters, self.lr, weight_decay=self.weight_decay, fused=True, **options
            )
            make = make or usual or partial(OneCycleLR, max_lr=self.lr)
        if make is None:
            return optimizer, None
        if "total_steps" in signature(make).parameters:
            return optimizer, make(optimizer, total_steps=steps + 1)
        return optimizer, make(optimizer)


def each_step(optimizer: "Optimizer", schedule: "LRScheduler | None") -> Any:
    """Return them as Lightning takes them, with a schedule that moves at each step."""
    if schedule is None:
        return optimizer
    return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}
