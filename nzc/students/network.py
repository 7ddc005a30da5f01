"""A student that is a network: its settings and losses, and the LightningModule that it trains."""

import math
from abc import abstractmethod
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from pytorch_lightning import LightningModule
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.func import functional_call
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_, clip_grad_value_
from torch.optim.lr_scheduler import LRScheduler

from nzc import networks
from nzc.data.augment import draws_anywhere
from nzc.networks import as_input
from nzc.ranges import BelowOne, Count, CountOrZero, NotNegative
from nzc.students.base import FittedStudent, Student, StudentData
from nzc.students.moving_average import MovingAverage
from nzc.training.batches import Stretches, epochs
from nzc.training.graph import Graph
from nzc.training.optimizer import OptimizerSettings, each_step
from nzc.training.trainer import TrainerSettings
from nzc.training.trial import trial
from nzc.types import CurveLog, Shape
from nzc.validation import InputError, within

#: How many times a fit logs its curves.
EVALUATIONS = 50


@dataclass(frozen=True, kw_only=True)
class NetworkStudent(OptimizerSettings, Student):
    """A student that is a network: a subclass adds the losses.

    conf/student/supervised.yaml explains each setting. label_noise_rate is a forward correction
    (Patrini et al. 2017, arXiv 1609.03683). Of labeled_loss_decay: networks fit the majority of
    labels before they memorise wrong ones (Liu et al. 2020, arXiv 2007.00151). The loss of a class
    returns while the student forgets it (`StudentModule._neglected`).
    """

    #: `eval` or `train`, where `losses` learn from the moving average of the weights
    #: (`StudentModule.averaged`): the mode of that network. `average` must then not be 0.
    average_mode: ClassVar[str | None] = None

    network: networks.Network | None  # dataset=none suggests none
    steps: Count
    batch_size: Count
    average: BelowOne
    balance: NotNegative
    label_noise_rate: BelowOne
    labeled_loss_decay: BelowOne
    augment: Callable[..., Any] | None = None
    unlabeled: CountOrZero = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.average_mode is not None and self.average == 0:
            kind = type(self).__name__
            raise InputError(
                "average", 0, f"must be above 0: {kind} learns from the moving average of weights"
            )

    def check(self, shape: Shape, classes: int, trainer: TrainerSettings) -> None:
        trainer.check()
        with within("student"):
            networks.require_fit(self.network, shape, classes, unlabeled=self.unlabeled > 0)
            try:
                self._try_step(shape, classes, batch_size=2)  # which costs little
            except InputError:  # losses of one's own may need more rows
                self._try_step(shape, classes, batch_size=max(self.batch_size, self.unlabeled))

    def _try_step(self, shape: Shape, classes: int, batch_size: int) -> None:
        """Take a step on made-up rows, in batches of `batch_size` at most.

        InputError: the student cannot.
        """
        labeled = torch.arange(min(batch_size, self.batch_size)) % 2
        pool = torch.arange(min(batch_size, self.unlabeled)) % 2
        made_up = StudentData(np.zeros((2, *shape), np.float32), np.arange(2), classes)
        student = self.student(made_up, seed=0)
        step = torch.enable_grad()(partial(student.set_gradients, labeled, pool, 0.0))
        with trial("augment", self.augment, "must give rows that the network takes"):
            student.network(student.augmented(student.x))
        with trial(
            "network",
            self.network,
            f"must be trainable by the losses of {type(self).__name__} in these batches",
        ):
            step()
        with trial("optimizer", self.optimizer, "must train the student by steps with a closure"):
            optimizer, _ = student.make_optimizer(self.steps)
            optimizer.step(step)

    def fit(
        self,
        data: StudentData,
        seed: int,
        trainer: TrainerSettings,
        name: str,
        log: CurveLog | None = None,
    ) -> FittedStudent:
        module = self.student(data, seed)
        module.graphed = trainer.compile and self.graphable
        module.name = name
        module.log_curves = log
        try:
            trainer.fit(module, name, max_epochs=module.epochs)
        finally:
            module.graph = None  # and its memory is free
        return FittedStudent(module.classifier)

    def student(self, data: StudentData, seed: int) -> "StudentModule":
        """Return the LightningModule to fit."""
        return StudentModule(self, data, seed)

    @property
    def graphable(self) -> bool:
        """Whether a CUDA graph can repeat the student's steps."""
        # An optimiser of users may let go of gradients, which a graph never makes again.
        return draws_anywhere(self.augment) and self.keeps_apart

    @abstractmethod
    def losses(self, student: Any, x: Tensor, y: Tensor, u: Tensor) -> dict[str, Tensor]:
        """Return the terms of a batch's loss, by name.

        They are added up, and each is a learning curve.

        x  [rows, ...] labeled rows, augmented, with labels y [rows] or class probabilities y [rows,
           classes]
        u  [unlabeled, ...] rows of the pool, not augmented
        """


class StudentModule(LightningModule):
    """A network that learns from `data`.

    Lightning's batch is a step: numbers of labeled rows [batch_size], and of rows of the pool
    [unlabeled]. Its epoch is a stretch of `period` steps, of which the first is a point of the
    learning curves. All row numbers are on the device before the first step, and no step waits for
    the device. `rng` draws on the CPU, `draws` on the device that the student learns on.

    Lightning takes 0.6 to 1.2 ms a step on a CPU: a fit of a small network on the digits takes 1.3
    to 1.7 times the processor time of many steps in one batch, a fit of convolutions as much.
    """

    def __init__(self, config: NetworkStudent, data: StudentData, seed: int) -> None:
        super().__init__()
        assert config.network is not None
        self.config = config
        self.seed = seed
        self.rng = torch.Generator().manual_seed(seed)
        self.draws = self.rng
        self.graphed = False  # whether a CUDA graph sets the gradients on a GPU
        self.graph: Graph | None = None
        self.scaler = GradScaler(enabled=False)  # Lightning's, if it has one

        # The pool, and which of its rows have a label that the student learns from.
        self.x = nn.Buffer(torch.from_numpy(data.x), persistent=False)
        y = data.labels if data.soft is None else data.soft.astype(np.float32)
        self.y = nn.Buffer(torch.from_numpy(y), persistent=False)
        rows = torch.from_numpy(np.flatnonzero(data.labeled))
        order = torch.randperm(len(rows), generator=self.rng)
        self.labeled = rows[order]
        self.weights = torch.from_numpy(data.weights(config.balance))[order]

        # The network, and the exponential moving average of its weights, if there is one.
        self.network = self.built(
            networks.build, config.network, data.x.shape[1:], data.classes, config.unlabeled > 0
        )
        self.averaged: nn.Module | None = None
        if config.average:
            self.averaged = deepcopy(self.network).requires_grad_(False)
            self.averaged.train(config.average_mode != "eval")

        # What the labeled loss presumes of the labels.
        self.mixed = data.mixed
        share = torch.tensor(config.label_noise_rate / data.classes)
        self.log_noise = nn.Buffer(share.log(), persistent=False)
        self.shares = MovingAverage(0.99, 2, data.classes)  # of classes (`_neglected`)

        # How far the fit is.
        self.period = max(1, config.steps // EVALUATIONS)
        self.epochs = math.ceil(config.steps / self.period)
        self.progress: float | Tensor = 0.0  # the share of the steps that are done
        self.losses = dict[str, Tensor]()
        self.curves = dict[str, Tensor]()  # further points of learning curves, of a subclass
        self.name = "Student"
        self.log_curves: CurveLog | None = None  # it must lead to nothing private

    def built(self, build: Callable[..., nn.Module], *arguments: Any) -> nn.Module:
        """Return build(*arguments), with weights that the seed decides."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            return build(*arguments)

    @property
    def classifier(self) -> nn.Module:
        """The network that predicts: rows as networks take them → logits [rows, classes]."""
        return self.network if self.averaged is None else self.averaged

    # Preparing a fit

    def configure_optimizers(self) -> Any:
        """Return the optimiser, and its schedule over the steps that Lightning will take."""
        steps = min(self.config.steps, self.trainer.estimated_stepping_batches)
        return each_step(*self.make_optimizer(int(steps)))

    def make_optimizer(self, steps: int) -> tuple[Any, LRScheduler | None]:
        """Return the optimiser and its schedule over so many steps."""
        return self.config.make_optimizer(self.network.parameters(), steps)

    def train_dataloader(self) -> Stretches:
        """Return the row numbers of all steps.

        No row comes twice before all rows came once; with a balance, labeled rows are drawn.
        """
        steps = self.config.steps
        labeled = steps * self.config.batch_size
        if self.config.balance == 0:
            drawn = epochs(len(self.labeled), labeled, self.rng)
        else:
            drawn = torch.multinomial(self.weights, labeled, True, generator=self.rng)
        pool = epochs(len(self.x), steps * self.config.unlabeled, self.rng)
        of_steps = [rows.view(steps, -1).to(self.device) for rows in (self.labeled[drawn], pool)]
        return Stretches(list(zip(*of_steps, strict=True)), self.period, self)

    def transfer_batch_to_device(self, batch: Any, *_: Any) -> Any:
        return batch  # it is there

    def on_train_start(self) -> None:
        torch.manual_seed(self.seed)  # dropout uses the global generator
        if self.device.type != "cpu":
            self.draws = torch.Generator(self.device).manual_seed(self.seed + 1)
        # Lists, because to find the weights takes long; now, because they were moved to the device.
        self.now = _tensors(self.network)
        self.average = _tensors(self.classifier)
        self.scaler = getattr(self.trainer.precision_plugin, "scaler", None) or self.scaler
        if self.graphed and self.device.type == "cuda":
            self.graph = Graph(self.set_gradients, self.draws)

    # Steps

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        """Return the loss of a batch; a CUDA graph sets the gradients, too."""
        progress = self._step(batch_idx) / self.config.steps
        if self.graph is None:
            return self.loss(*batch, progress)
        return self.graph(*batch, torch.full((), progress, device=self.device))

    def _step(self, batch_idx: int) -> int:
        """Return the number of a batch of this epoch among all steps."""
        return self.current_epoch * self.period + batch_idx

    def optimizer_zero_grad(self, *arguments: Any) -> None:
        if self.graph is None:  # else it has just set them
            super().optimizer_zero_grad(*arguments)

    def backward(self, loss: Tensor, *arguments: Any, **options: Any) -> None:
        if self.graph is None:
            self.differentiate(loss)

    def set_gradients(self, labeled: Tensor, pool: Tensor, progress: float | Tensor) -> Tensor:
        """Set the gradients of a batch, and return its loss: what a graph repeats."""
        self.zero_grad()
        loss = self.loss(labeled, pool, progress)
        with torch.autocast(self.device.type, enabled=False):
            self.differentiate(self.scaler.scale(loss))
        return loss.detach()

    def differentiate(self, loss: Tensor) -> None:
        """Add the gradients of this loss to those of the weights."""
        loss.backward()

    def configure_gradient_clipping(
        self, optimizer: Any, gradient_clip_val: Any = None, gradient_clip_algorithm: Any = None
    ) -> None:
        """Limit the gradients of each group of weights apart."""
        if not gradient_clip_val:
            return
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            # Lightning leaves it to a fused optimiser to unscale gradients, and refuses to clip.
            self.scaler.unscale_(optimizer)
        clip = clip_grad_value_ if gradient_clip_algorithm == "value" else clip_grad_norm_
        for group in optimizer.param_groups:
            clip(group["params"], gradient_clip_val)

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        step = self._step(batch_idx)
        if self.averaged is not None:
            self._update_average(step)
        if batch_idx == 0:
            self._evaluate(step)

    @torch.no_grad()
    def _update_average(self, step: int) -> None:
        """Update the moving average of the weights, whose decay is smaller in its first steps."""
        share = max(1 - self.config.average, 9 / (10 + step)) if step else 1.0
        weights, buffers = self.average
        weights_now, buffers_now = self.now
        torch._foreach_lerp_(weights, weights_now, share)
        if buffers:
            torch._foreach_copy_(buffers, buffers_now)

    def _evaluate(self, step: int) -> None:
        """Log points of the learning curves."""
        values = self.losses | self.curves
        curves = {name: float(value) for name, value in values.items()}
        if len(self.trainer.callbacks) > 1:  # type: ignore[attr-defined]
            self.log_dict(curves, logger=False)  # which takes as long as half a small step
        points = {f"{self.name}/{curve}": value for curve, value in curves.items()}
        for logger in self.trainer.loggers:
            logger.log_metrics(points, step)
        if self.log_curves is not None:
            self.log_curves(self.name, curves, step)

    # Losses

    def loss(self, labeled: Tensor, pool: Tensor, progress: float | Tensor) -> Tensor:
        """Return the loss of the rows with these numbers, and keep the values of its terms."""
        self.progress = progress
        x = as_input(self.x[labeled])
        u = as_input(self.x[pool])
        losses = self.config.losses(self, self.augmented(x), self.y[labeled], u)
        self.losses = {f"loss_{name}": loss.detach() for name, loss in losses.items()}
        return self.total(list(losses.values()))

    def total(self, losses: list[Tensor]) -> Tensor:
        """Return the sum of these losses."""
        return torch.stack(losses).sum()

    def augmented(self, x: Tensor, augment: Callable[..., Any] | None = None) -> Tensor:
        """Return rows [rows, ...] with a random augmentation; None: that of the settings."""
        augment = augment or self.config.augment
        if augment is None:
            return x
        rng = self.draws if draws_anywhere(augment) else self.rng
        augmented: Tensor = augment(x, rng)
        return augmented

    def labeled_loss(self, logits: Tensor, y: Tensor) -> Tensor:
        """Return the cross-entropy of logits [rows, classes], with noise rate and decay applied.

        y  labels [rows], or class probabilities [rows, classes]: the mean loss of labels drawn from
           them
        """
        decay = self.config.labeled_loss_decay
        log_p = logits.log_softmax(1)
        seen = torch.logaddexp(log_p + math.log1p(-self.config.label_noise_rate), self.log_noise)
        seen = seen.gather(1, y[:, None])[:, 0] if y.ndim == 1 else (y * seen).sum(1)
        if not decay:
            return -seen.mean()
        shares = F.one_hot(y, logits.shape[1]).to(log_p) if y.ndim == 1 else y
        left = 1 - self.progress / decay
        weights = (shares @ self._neglected(shares, log_p)).clamp(min=self.mixed)
        return -(seen * weights.where(weights > left, left)).mean()

    @torch.no_grad()
    def _neglected(self, shares: Tensor, log_p: Tensor) -> Tensor:
        """Return 1 for each class that the student forgets, else 0, [classes], by a labeled batch.

        It forgets a class of which it expects less, on average, than is left of the labels' share
        without the presumed wrong labels. Pseudo-labels alone would not bring the class back.
        """
        batch = torch.stack([shares.mean(0), log_p.exp().mean(0)])  # by the labels, by the student
        by_labels, by_student = self.shares(batch)
        forgets: Tensor = by_student < (1 - self.config.label_noise_rate) * by_labels
        return forgets.to(log_p)


def _tensors(network: nn.Module) -> tuple[list[Tensor], list[Tensor]]:
    """Return weights and buffers of a network."""
    return [*network.parameters()], [*network.buffers()]


def without_statistics(network: nn.Module) -> Callable[[Tensor], Tensor]:
    """Return the network as a function that does not update BatchNorm's running statistics."""
    if next(network.buffers(), None) is None:
        return network

    def apply(x: Tensor) -> Tensor:
        statistics = {name: value.clone() for name, value in network.named_buffers()}
        outputs: Tensor = functional_call(network, statistics, (x,))
        return outputs

    return apply
