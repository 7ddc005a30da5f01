"""A student that is a network: its settings, and the LightningModule that learns them."""

import math
from abc import abstractmethod
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from pytorch_lightning import LightningModule
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.func import functional_call
from torch.nn import functional as F
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import DataLoader

from nzc import networks
from nzc.data.augment import draws_anywhere
from nzc.networks import as_input
from nzc.settings import BelowOne, Count, CountOrZero, NotNegative
from nzc.students.base import FittedStudent, Student, StudentData
from nzc.students.moving_average import MovingAverage
from nzc.training.batches import epochs
from nzc.training.graph import Graph
from nzc.training.optimizer import OptimizerSettings
from nzc.training.trainer import TrainerSettings
from nzc.training.trial import trial
from nzc.types import CurveLog, Shape
from nzc.validation import InputError, within

#: How many times a fit logs its curves.
EVALUATIONS = 50


@dataclass(frozen=True, kw_only=True)
class StudentConfig(OptimizerSettings, Student):
    """Settings of a student that is a network. A subclass adds the loss.

    conf/student/supervised.yaml explains each. label_noise_rate is a forward correction (Patrini et
    al. 2017, arXiv 1609.03683). Of labeled_loss_decay: networks fit the majority of labels before
    they memorise wrong ones (Liu et al. 2020, arXiv 2007.00151). The loss of a class returns while
    the student forgets it (`StudentModule._neglected`).
    """

    network: networks.Network | None  # dataset=none suggests none
    steps: Count
    batch_size: Count
    average: BelowOne
    balance: NotNegative
    label_noise_rate: BelowOne
    labeled_loss_decay: BelowOne
    augment: Callable[..., Any] | None = None
    unlabelled: CountOrZero = 0

    def check(self, shape: Shape, classes: int, trainer: TrainerSettings) -> None:
        trainer.check()
        with within("student"):
            networks.require_fit(self.network, shape, classes, unlabeled=self.unlabelled > 0)
            try:
                self._try_step(shape, classes, batch_size=2)  # which costs little
            except InputError:  # losses of one's own may need more rows
                self._try_step(shape, classes, batch_size=max(self.batch_size, self.unlabelled))

    def _try_step(self, shape: Shape, classes: int, batch_size: int) -> None:
        """Take a step on made-up rows, in batches of `batch_size` at most.

        InputError: the student cannot.
        """
        labeled = torch.arange(min(batch_size, self.batch_size)) % 2
        pool = torch.arange(min(batch_size, self.unlabelled)) % 2
        made_up = StudentData(np.zeros((2, *shape), np.float32), np.arange(2), classes)
        student = self.student(made_up, seed=0)
        with trial("augment", self.augment, "must give rows that the network takes"):
            student.network(student.augmented(student.x))
        with trial(
            "network",
            self.network,
            f"must be trainable by the losses of {type(self).__name__} in these batches",
        ):
            torch.stack(list(student.batch_losses(labeled, pool).values())).sum().backward()
        with trial("optimizer", self.optimizer, "must train the student by steps with a closure"):
            student.on_train_start()
            student.step(labeled, pool, 0.0)

    def fit(
        self,
        data: StudentData,
        seed: int,
        trainer: TrainerSettings,
        name: str,
        log: CurveLog | None = None,
    ) -> FittedStudent:
        module = self.student(data, seed)
        module.clip = trainer.clip
        module.graphed = trainer.compile and self.graphable
        module.name = name
        module.log_curves = log
        try:
            trainer.fit(module, name, total=self.steps, max_epochs=1, use_distributed_sampler=False)
        finally:
            module.gradients = module.set_gradients  # and the memory of a graph is free
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
        u  [unlabelled, ...] rows of the pool, not augmented
        """


class StudentModule(LightningModule):
    """A network that learns from `data`.

    Lightning's batch is a chunk of steps, because its loop takes as long as a small step. Within a
    chunk nothing is copied to a GPU, and nothing waits for it. `rng` draws on the CPU, `draws` on
    the device that the student learns on.
    """

    def __init__(self, config: StudentConfig, data: StudentData, seed: int) -> None:
        super().__init__()
        assert config.network is not None
        self.automatic_optimization = False
        self.config = config
        self.seed = seed
        self.rng = torch.Generator().manual_seed(seed)
        self.draws = self.rng
        self.clip: Callable[[list[Tensor]], object] | None = None  # limits the gradients of weights
        self.graphed = False  # whether a CUDA graph sets the gradients on a GPU
        self.scaler = GradScaler(enabled=False)

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
            networks.build, config.network, data.x.shape[1:], data.classes, config.unlabelled > 0
        )
        self.averaged = deepcopy(self.network).requires_grad_(False) if config.average else None

        # What the labeled loss presumes of the labels.
        self.mixed = data.mixed
        share = torch.tensor(config.label_noise_rate / data.classes)
        self.log_noise = nn.Buffer(share.log(), persistent=False)
        self.shares = MovingAverage(0.99, 2, data.classes)  # of classes (`_neglected`)

        # How far the fit is.
        self.period = max(1, config.steps // EVALUATIONS)  # steps from one evaluation to the next
        self.steps_done = 0
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

    def configure_optimizers(self) -> None:
        """Return no optimiser: `on_train_start` makes it."""

    def train_dataloader(self) -> DataLoader[tuple[Tensor, Tensor]]:
        """Return all row numbers, labeled and of the pool, in chunks of steps.

        No row comes twice before all rows came once; with a balance, labeled rows are drawn.
        """
        steps = self.config.steps
        labeled = steps * self.config.batch_size
        if self.config.balance == 0:
            drawn = epochs(len(self.labeled), labeled, self.rng)
        else:
            drawn = torch.multinomial(self.weights, labeled, True, generator=self.rng)
        pool = epochs(len(self.x), steps * self.config.unlabelled, self.rng)
        ends = list(range(1, steps, self.period))
        chunks = zip(
            self.labeled[drawn].view(steps, -1).tensor_split(ends),
            pool.view(steps, self.config.unlabelled).tensor_split(ends),
            strict=True,
        )
        return DataLoader(list(chunks), batch_size=None)  # type: ignore[arg-type]

    def on_train_start(self) -> None:
        torch.manual_seed(self.seed)  # dropout uses the global generator
        if self.device.type != "cpu":
            self.draws = torch.Generator(self.device).manual_seed(self.seed + 1)
        self.optimizer, self.schedule = self.make_optimizer()
        # Lists, because to find the weights takes long; now, because they were moved to the device.
        self.now = _tensors(self.network)
        self.average = _tensors(self.classifier)
        self.gradients: Callable[..., Tensor] = self.set_gradients
        if self.graphed and self.device.type == "cuda":
            self.gradients = Graph(self.set_gradients, self.draws)

    def make_optimizer(self) -> tuple[Any, LRScheduler | None]:
        """Return the optimiser and its schedule."""
        return self.config.make_optimizer(self.network.parameters(), self.config.steps)

    # Steps

    def training_step(self, chunk: tuple[Tensor, Tensor], batch_idx: int) -> None:
        """Take the steps of a chunk: numbers of labeled rows [steps, rows], and of pool rows."""
        # Lightning's own count of steps, for callbacks and loggers
        counted = self.trainer.fit_loop.epoch_loop.manual_optimization.optim_step_progress
        self.scaler = getattr(self.trainer.precision_plugin, "scaler", None) or self.scaler
        for labeled, pool in zip(*chunk, strict=True):
            self.step(labeled, pool, self.steps_done / self.config.steps)
            self.scaler.update()
            if self.schedule is not None:
                self.schedule.step()
            if self.averaged is not None:
                self._update_average()
            self.steps_done += 1
            counted.increment_completed()
        if (self.steps_done - 1) % self.period == 0:
            self.evaluate()

    def step(self, labeled: Tensor, pool: Tensor, progress: float) -> None:
        """Move the weights by the gradient of a batch, whose rows have these numbers."""
        done: float | Tensor = progress
        if isinstance(self.gradients, Graph):
            done = torch.full((), progress, device=self.device)

        @torch.enable_grad()
        def loss() -> Tensor:
            total = self.gradients(labeled, pool, done)
            self._clip_all()
            return total

        if self.scaler.is_enabled():
            loss()
            self.scaler.step(self.optimizer)
        else:
            self.optimizer.step(loss)

    def set_gradients(self, labeled: Tensor, pool: Tensor, progress: float | Tensor) -> Tensor:
        """Set the gradients of a batch, and return its loss."""
        self.progress = progress
        torch.clear_autocast_cache()  # its copies are of the weights before
        self.optimizer.zero_grad()
        return self.differentiate(list(self.batch_losses(labeled, pool).values()))

    def differentiate(self, losses: list[Tensor]) -> Tensor:
        """Add the gradients of the sum of these losses to the weights', and return the sum."""
        total = torch.stack(losses).sum()
        self.scaler.scale(total).backward()
        return total

    def _clip_all(self) -> None:
        """Limit the gradients of each group of weights, as trainer.gradient_clip_val says."""
        if self.clip is not None:
            self.scaler.unscale_(self.optimizer)
            for group in self.optimizer.param_groups:
                self.clip(group["params"])

    @torch.no_grad()
    def _update_average(self) -> None:
        """Update the moving average of the weights, whose decay is smaller in its first steps."""
        share = 1.0
        if self.steps_done:
            share = max(1 - self.config.average, 9 / (10 + self.steps_done))
        weights, buffers = self.average
        weights_now, buffers_now = self.now
        torch._foreach_lerp_(weights, weights_now, share)
        if buffers:
            torch._foreach_copy_(buffers, buffers_now)

    # Losses

    def batch_losses(self, labeled: Tensor, pool: Tensor) -> dict[str, Tensor]:
        """Return the terms of the loss of a batch, and keep their values."""
        x = as_input(self.x[labeled])
        u = as_input(self.x[pool])
        losses = self.config.losses(self, self.augmented(x), self.y[labeled], u)
        self.losses = {f"loss_{name}": loss.detach() for name, loss in losses.items()}
        return losses

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

    def evaluate(self) -> None:
        """Log points of the learning curves."""
        values = self.losses | self.curves
        curves = {name: float(value.detach()) for name, value in values.items()}
        self.log_dict(curves, logger=False)  # for the user's callbacks
        step = self.steps_done - 1
        points = {f"{self.name}/{curve}": value for curve, value in curves.items()}
        for logger in self.trainer.loggers:
            logger.log_metrics(points, step)
        if self.log_curves is not None:
            self.log_curves(self.name, curves, step)


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
