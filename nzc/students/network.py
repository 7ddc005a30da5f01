"""A student that is a network: its settings, and the LightningModule that learns them."""

import math
import sys
from abc import abstractmethod
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.func import functional_call
from torch.nn import functional as F
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import DataLoader

from nzc import networks
from nzc.networks import as_input
from nzc.settings import BelowOne, Count, CountOrZero, NotNegative, Share
from nzc.students.base import FittedStudent, Student, StudentData, Threshold
from nzc.training.optimizer import OptimizerSettings
from nzc.training.trainer import TrainerSettings
from nzc.training.trial import trial
from nzc.types import CurveLog
from nzc.validation import InputError, within

#: How many times a fit logs its curves and evaluates the held-out rows.
EVALUATIONS = 50


@dataclass(frozen=True, kw_only=True)
class StudentConfig(OptimizerSettings, Student):
    """Settings of a student that is a network; conf/student/supervised.yaml explains each. A
    subclass adds the loss.

    label_noise_rate is a forward correction (Patrini et al. 2017, arXiv 1609.03683). Of
    labeled_loss_decay: networks fit the majority of labels before they memorise wrong ones (Liu et
    al. 2020, arXiv 2007.00151). The loss of a class returns while the student forgets it
    (`StudentModule._neglected`).
    """

    network: networks.Network | None  # dataset=none suggests none
    steps: Count
    batch_size: Count
    average: BelowOne
    balance: NotNegative
    validation: BelowOne
    patience: Count
    label_noise_rate: BelowOne
    labeled_loss_decay: BelowOne
    folds: Count
    spread: Share = 0.0
    threshold: Threshold = None
    augment: Callable[..., Any] | None = None
    unlabelled: CountOrZero = 0

    def check(self, shape: tuple[int, ...], classes: int, trainer: TrainerSettings) -> None:
        trainer.check()
        with within("student"):
            networks.require_fit(self.network, shape, classes, unlabeled=self.unlabelled > 0)
            self.try_step(shape, classes)

    def try_step(self, shape: tuple[int, ...], classes: int) -> None:
        """Raise InputError where the student cannot take a step on made-up rows, in batches of its
        sizes.
        """
        try:
            self._take_step(shape, classes, at_most=2)  # which costs little
        except InputError:
            self._take_step(
                shape, classes, at_most=max(self.batch_size, self.unlabelled)
            )  # own losses may need more

    def _take_step(self, shape: tuple[int, ...], classes: int, at_most: int) -> None:
        labeled = torch.arange(min(at_most, self.batch_size)) % 2
        pool = torch.arange(min(at_most, self.unlabelled)) % 2
        made_up = StudentData(np.zeros((2, *shape), np.float32), np.arange(2), classes)
        trainable = f"must be trainable by the losses of {type(self).__name__}"
        single = [
            f"student.{key}=1" for key in ("batch_size", "unlabelled") if getattr(self, key) == 1
        ]
        if single:
            trainable += f" at {' and '.join(single)}; GroupNorm takes one row, BatchNorm does not"

        with trial("network", self.network, trainable):
            student = self.student(made_up, seed=0)
            student.network(student.x).sum().backward()
        for key in ("augment", "strong"):
            augment = getattr(self, key, None)
            with trial(key, augment, "must give rows that the network takes"):
                student.network(student.augmented(student.x, augment))
        with trial("network", self.network, trainable):
            torch.stack(list(student.batch_losses(labeled, pool).values())).sum().backward()
        with trial(
            "optimizer",
            self.optimizer,
            "must be able to train the student, by steps with a closure",
        ):
            student.on_train_start()
            student.step(labeled, pool, GradScaler(enabled=False))

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
        curves = [Curves(name, log)]
        trainer.fit(
            module,
            name,
            total=self.steps,
            callbacks=curves,
            max_epochs=1,
            use_distributed_sampler=False,
        )
        if (
            module.steps_done < self.steps and module.evaluations_left
        ):  # else no evaluation was better for long
            steps = f"{module.steps_done:,} of {self.steps:,} steps"
            print(
                f"nzc: {name}: trainer.max_time, or a callback, ended it after {steps}",
                file=sys.stderr,
            )
        return FittedStudent(module.classifier)

    def student(self, data: StudentData, seed: int) -> "StudentModule":
        """Return the LightningModule to fit."""
        return StudentModule(self, data, seed)

    @abstractmethod
    def losses(self, student: Any, x: Tensor, y: Tensor, u: Tensor) -> dict[str, Tensor]:
        """Return the terms of a batch's loss, by name. They are added up, and each is a learning
        curve.

        x  [rows, ...] labeled rows, augmented, with labels y [rows] or class probabilities y [rows,
           classes]
        u  [unlabelled, ...] rows of the pool, not augmented
        """


class StudentModule(LightningModule):
    """A network that learns from `data`. `averaged` is the exponential moving average of its
    weights, if there is one.

    Lightning's batch is a chunk of steps, because its loop takes as long as a small step. Within a
    chunk nothing is copied to a GPU, and nothing waits for it. `rng` draws on the CPU, `draws` on
    the device that the student learns on.
    """

    def __init__(self, config: StudentConfig, data: StudentData, seed: int) -> None:
        super().__init__()
        assert config.network is not None
        self.automatic_optimization = False
        self.config, self.mixed, self.seed = config, data.mixed, seed
        self.period = max(1, config.steps // EVALUATIONS)  # steps from one evaluation to the next
        self.rng = self.draws = torch.Generator().manual_seed(seed)
        self.x = nn.Buffer(torch.from_numpy(data.x), persistent=False)
        y = data.labels if data.soft is None else data.soft.astype(np.float32)
        self.labels, self.y = (
            torch.from_numpy(data.labels),
            nn.Buffer(torch.from_numpy(y), persistent=False),
        )
        rows = torch.from_numpy(np.flatnonzero(data.labeled))
        order, held_out = (
            torch.randperm(len(rows), generator=self.rng),
            round(config.validation * (len(rows) - 1)),
        )
        self.held_out, self.labeled = rows[order].tensor_split([held_out])
        self.weights = torch.from_numpy(data.weights(config.balance))[order[held_out:]]
        self.network = self.built(
            networks.build, config.network, data.x.shape[1:], data.classes, config.unlabelled > 0
        )
        self.averaged = deepcopy(self.network).requires_grad_(False) if config.average else None
        self.log_noise = nn.Buffer(
            torch.tensor(config.label_noise_rate / data.classes).log(), persistent=False
        )
        self.expected = torch.zeros(
            2, data.classes
        )  # moving averages of each class's share (`_neglected`)
        self.steps_done, self.progress = 0, 0.0  # the share of the steps that are done
        self.losses, self.curves = (
            dict[str, Tensor](),
            dict[str, Tensor](),
        )  # curves: further ones, of a subclass
        self.evaluated: dict[str, float] | None = (
            None  # points of the learning curves after this chunk of steps
        )
        self.clip: Callable[[list[Tensor]], object] | None = None  # limits the gradients of weights
        self.evaluations_left, self.best, self.best_weights = (
            config.patience,
            -1.0,
            self.classifier.state_dict(),
        )

    def built(self, build: Callable[..., nn.Module], *arguments: Any) -> nn.Module:
        """Return build(*arguments), with weights that the seed decides."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            return build(*arguments)

    @property
    def classifier(self) -> nn.Module:
        """The network that predicts: rows as networks take them → logits [rows, classes]."""
        return self.network if self.averaged is None else self.averaged

    def augmented(self, x: Tensor, augment: Callable[..., Any] | None = None) -> Tensor:
        """Return rows [rows, ...] with a random augmentation; None: that of the settings."""
        augment = augment or self.config.augment
        if augment is None:
            return x
        augmented: Tensor = augment(
            x, self.draws if getattr(augment, "any_device", False) else self.rng
        )
        return augmented

    def labeled_loss(self, logits: Tensor, y: Tensor) -> Tensor:
        """Return the cross-entropy of logits [rows, classes], with noise rate and decay applied.

        y  labels [rows], or class probabilities [rows, classes]: the mean loss of labels drawn from
           them
        """
        noise, decay = self.config.label_noise_rate, self.config.labeled_loss_decay
        log_p = logits.log_softmax(1)
        seen = torch.logaddexp(log_p + math.log1p(-noise), self.log_noise)
        seen = seen.gather(1, y[:, None])[:, 0] if y.ndim == 1 else (y * seen).sum(1)
        if not decay:
            return -seen.mean()
        shares = F.one_hot(y, logits.shape[1]).to(log_p) if y.ndim == 1 else y
        kept = max(self.mixed, 1 - self.progress / decay)
        return -(seen * (shares @ self._neglected(shares, log_p)).clamp(min=kept)).mean()

    @torch.no_grad()
    def _neglected(self, shares: Tensor, log_p: Tensor) -> Tensor:
        """Return 1 for each class that the student forgets, else 0, [classes], from a batch of
        labeled rows.

        It forgets a class of which it expects less, on average, than is left of the labels' share
        without the presumed wrong labels. Pseudo-labels alone would not bring the class back.
        """
        batch = torch.stack(
            [shares.mean(0), log_p.exp().mean(0)]
        )  # what the labels say, and the student
        self.expected = torch.lerp(
            self.expected.to(batch), batch, max(0.01, 1 / (self.steps_done + 1))
        )
        of_labels, of_student = self.expected
        forgets: Tensor = of_student < (1 - self.config.label_noise_rate) * of_labels
        return forgets.to(log_p)

    def on_train_start(self) -> None:
        torch.manual_seed(self.seed)  # dropout uses the global generator
        if self.device.type != "cpu":
            self.draws = torch.Generator(self.device).manual_seed(self.seed)
        self.optimizer, self.schedule = self.make_optimizer()
        averaged, network = self.classifier, self.network
        parts: Any = (
            averaged.parameters(),
            network.parameters(),
            averaged.buffers(),
            network.buffers(),
        )
        self.pairs: list[list[Tensor]] = [list(part) for part in parts]

    def make_optimizer(self) -> tuple[Any, LRScheduler | None]:
        """Return the optimiser and its schedule."""
        return self.config.make_optimizer(self.network.parameters(), self.config.steps)

    def training_step(self, chunk: tuple[Tensor, Tensor], batch_idx: int) -> None:
        """Take the steps of a chunk: numbers of labeled rows [steps, rows], and of pool rows."""
        counted = (
            self.trainer.fit_loop.epoch_loop.manual_optimization.optim_step_progress
        )  # for callbacks and loggers
        scaler = getattr(self.trainer.precision_plugin, "scaler", None) or GradScaler(enabled=False)
        for labeled, pool in zip(*chunk, strict=True):
            self.progress = self.steps_done / self.config.steps
            torch.clear_autocast_cache()  # it has the weights before the last step
            self.step(labeled, pool, scaler)
            scaler.update()
            if self.schedule is not None:
                self.schedule.step()
            if self.averaged is not None:
                self._update_average()
            self.steps_done += 1
            counted.increment_completed()
        self.evaluated = None
        if (self.steps_done - 1) % self.period == 0:
            self.evaluate()

    def step(self, labeled: Tensor, pool: Tensor, scaler: GradScaler) -> None:
        """Move the weights by the gradient of a batch, whose rows have these numbers."""

        @torch.enable_grad()
        def loss() -> Tensor:
            self.optimizer.zero_grad()
            total = torch.stack(list(self.batch_losses(labeled, pool).values())).sum()
            scaler.scale(total).backward()
            self.clip_all(scaler)
            return total

        if scaler.is_enabled():
            loss()
            scaler.step(self.optimizer)
        else:
            self.optimizer.step(loss)

    def clip_all(self, scaler: GradScaler) -> None:
        """Limit the gradients of each group of weights, as trainer.gradient_clip_val says."""
        if self.clip is not None:
            scaler.unscale_(self.optimizer)
            for group in self.optimizer.param_groups:
                self.clip(group["params"])

    def batch_losses(self, labeled: Tensor, pool: Tensor) -> dict[str, Tensor]:
        """Return the terms of the loss of a batch, and keep their values."""
        x, u = as_input(self.x[labeled]), as_input(self.x[pool])
        losses = self.config.losses(self, self.augmented(x), self.y[labeled], u)
        self.losses = {name: loss.detach() for name, loss in losses.items()}
        return losses

    @torch.no_grad()
    def _update_average(self) -> None:
        """Update the exponential moving average of the weights, whose decay is smaller in its first
        steps.
        """
        averaged, weights, buffers, current = self.pairs
        share = max(1 - self.config.average, 9 / (10 + self.steps_done)) if self.steps_done else 1.0
        torch._foreach_lerp_(averaged, weights, share)
        if buffers:
            torch._foreach_copy_(buffers, current)

    def evaluate(self) -> None:
        """Compute the points of the learning curves, and stop early where the held-out rows no
        longer improve.
        """
        points = {**{f"loss_{name}": value for name, value in self.losses.items()}, **self.curves}
        curves = {name: float(value.detach()) for name, value in points.items()}
        if len(self.held_out):
            found = networks.outputs(self.classifier, self.x[self.held_out].cpu().numpy()).argmax(
                dim=1
            )
            accuracy = curves["accuracy_held_out"] = float(
                (found == self.labels[self.held_out]).double().mean()
            )
            self.network.train()
            self.evaluations_left -= 1
            if accuracy > self.best:
                self.evaluations_left, self.best = self.config.patience, accuracy
                self.best_weights = deepcopy(self.classifier.state_dict())
            if self.evaluations_left == 0:
                self.trainer.should_stop = True
        self.log_dict(curves, logger=False)  # for the user's callbacks
        self.evaluated = curves

    def on_train_end(self) -> None:
        if len(self.held_out):
            self.classifier.load_state_dict(self.best_weights)

    def configure_optimizers(self) -> None:
        """Return no optimiser: `on_train_start` makes it."""

    def train_dataloader(self) -> DataLoader[tuple[Tensor, Tensor]]:
        """Return all row numbers, labeled and of the pool, without repeats before all rows, in
        chunks of steps.
        """
        config, ends = self.config, list(range(1, self.config.steps, self.period))
        total = config.steps * config.batch_size
        if config.balance == 0:
            drawn = _epochs(len(self.labeled), total, self.rng)
        else:
            drawn = torch.multinomial(self.weights, total, True, generator=self.rng)
        pool = _epochs(len(self.x), config.steps * config.unlabelled, self.rng)
        rows = (
            self.labeled[drawn].view(config.steps, -1),
            pool.view(config.steps, config.unlabelled),
        )
        chunks = list(zip(*(part.tensor_split(ends) for part in rows), strict=True))
        return DataLoader(chunks, batch_size=None)  # type: ignore[arg-type]


class Curves(Callback):
    """Logs the learning curves of a student. `record` must lead to nothing private: the user's
    callbacks find this.
    """

    def __init__(self, fit: str, record: CurveLog | None) -> None:
        self.fit = fit
        self.record = record

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, *args: Any, **kwargs: Any
    ) -> None:
        assert isinstance(pl_module, StudentModule)
        if pl_module.evaluated is None:
            return
        step = pl_module.steps_done - 1
        for logger in trainer.loggers:
            logger.log_metrics(
                {f"{self.fit}/{name}": value for name, value in pl_module.evaluated.items()}, step
            )
        if self.record is not None:
            self.record(self.fit, pl_module.evaluated, step)


def without_statistics(network: nn.Module) -> Callable[[Tensor], Tensor]:
    """Return the network as a function that does not update BatchNorm's running statistics."""
    if next(network.buffers(), None) is None:
        return network
    return lambda x: functional_call(
        network, {name: kept.clone() for name, kept in network.named_buffers()}, (x,)
    )


def _epochs(rows: int, total: int, rng: torch.Generator) -> Tensor:
    """Return `total` row numbers, in random order: every row once before any row twice."""
    passes = [torch.randperm(rows, generator=rng) for _ in range(-(-total // rows))]
    return torch.cat(passes)[:total] if passes else torch.empty(0, dtype=torch.int64)
