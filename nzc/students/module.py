"""The student as a LightningModule: its network, batches, optimiser and predictions."""

import math
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import partial

import numpy as np
import torch
from pytorch_lightning import LightningModule
from pytorch_lightning.utilities.types import OptimizerLRSchedulerConfig
from torch import Tensor, nn
from torch.func import functional_call
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader

from nzc import networks
from nzc.networks import as_input
from nzc.students.config import StudentData, StudentSettings
from nzc.training.optimizer import as_lightning

#: How many times a fit logs its curves and evaluates the held-out rows.
EVALUATIONS = 50

_Tensors = tuple[Tensor, ...] | list[Tensor]


class StudentModule(LightningModule):
    """A network that learns from `data` for `config.steps` batches, by the sum of `config.losses`."""

    def __init__(self, config: StudentSettings, data: StudentData, seed: int) -> None:
        super().__init__()
        assert config.network is not None
        self.config, self.classes, self.mixed, self.seed = config, data.classes, data.mixed, seed
        self.rng = torch.Generator().manual_seed(seed)
        self.x = nn.Buffer(torch.from_numpy(data.x), persistent=False)
        y = data.labels if data.soft is None else data.soft.astype(np.float32)
        self.labels, self.y = torch.from_numpy(data.labels), nn.Buffer(torch.from_numpy(y), persistent=False)
        rows = torch.from_numpy(np.flatnonzero(data.labeled))
        order, held_out = torch.randperm(len(rows), generator=self.rng), round(config.validation * (len(rows) - 1))
        self.held_out, self.labeled = rows[order].tensor_split([held_out])
        self.weights = torch.from_numpy(data.weights(config.balance))[order[held_out:]]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            shape, unlabeled = tuple(self.x.shape[1:]), config.unlabelled > 0
            self.network = networks.build(config.network, shape, data.classes, unlabeled)
        self.averaged = None
        if config.average:
            update = partial(_move, config.average)
            self.averaged = AveragedModel(self.network, multi_avg_fn=update).requires_grad_(False)
        self.progress = 0.0  # share of the steps that are done
        self.losses: dict[str, Tensor] = {}
        self.curves: dict[str, Tensor] = {}  # further learning curves of a subclass
        self.log_curves: Callable[[Mapping[str, float], int], None] | None = None
        self.evaluations_left, self.best, self.best_weights = config.patience, -1.0, self.classifier.state_dict()

    @property
    def classifier(self) -> nn.Module:
        """The network that predicts: rows as networks take them → logits [rows, classes]."""
        network: nn.Module = self.network if self.averaged is None else self.averaged.module
        return network

    def augmented(self, x: Tensor) -> Tensor:
        """Return rows [rows, ...] with the random augmentation of the settings."""
        return x if self.config.augment is None else self.config.augment(x, self.rng)

    def labeled_loss(self, logits: Tensor, y: Tensor) -> Tensor:
        """Return the cross-entropy of logits [rows, classes], with noise rate and decay applied.

        y  labels [rows], or class probabilities [rows, classes]: the mean loss of labels drawn from them
        """
        noise, decay = self.config.label_noise_rate, self.config.labeled_loss_decay
        log_p = logits.log_softmax(1)
        seen = torch.logaddexp(log_p + math.log1p(-noise), log_p.new_tensor(noise / self.classes).log())
        seen = seen.gather(1, y[:, None]) if y.ndim == 1 else (y * seen).sum(1)
        return -seen.mean() * (max(self.mixed, 1 - self.progress / decay) if decay else 1.0)

    def on_train_start(self) -> None:
        torch.manual_seed(self.seed)  # dropout uses the global generator

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor | None:
        labeled, pool = batch
        self.progress = batch_idx / self.config.steps
        x, u = as_input(self.x[labeled]), as_input(self.x[pool])
        self.losses = self.config.losses(self, self.augmented(x), self.y[labeled], u)
        return torch.stack(list(self.losses.values())).sum()

    def on_train_batch_end(self, outputs: object, batch: object, batch_idx: int) -> None:
        if self.averaged is not None:
            self.averaged.update_parameters(self.network)
        if batch_idx % max(1, self.config.steps // EVALUATIONS) == 0:
            self.evaluate(batch_idx)

    def evaluate(self, step: int) -> None:
        """Log the learning curves, and stop early where the held-out rows no longer improve."""
        points = {**{f"loss_{name}": value for name, value in self.losses.items()}, **self.curves}
        curves = {name: float(value.detach()) for name, value in points.items()}
        if len(self.held_out):
            x = self.x[self.held_out].cpu().numpy()
            right = networks.outputs(self.classifier, x).argmax(dim=1) == self.labels[self.held_out]
            accuracy = curves["accuracy_held_out"] = float(right.double().mean())
            self.network.train()
            self.evaluations_left -= 1
            if accuracy > self.best:
                self.evaluations_left, self.best = self.config.patience, accuracy
                self.best_weights = deepcopy(self.classifier.state_dict())
            if self.evaluations_left == 0:
                self.trainer.should_stop = True
        if self.log_curves is not None:
            self.log_curves(curves, step)

    def on_train_end(self) -> None:
        if len(self.held_out):
            self.classifier.load_state_dict(self.best_weights)

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig:
        return as_lightning(*self.config.make_optimizer(self.network.parameters(), self.config.steps))

    def train_dataloader(self) -> DataLoader[tuple[Tensor, Tensor]]:
        """Return `steps` batches of (labeled row numbers, pool row numbers), each without repeats before all rows."""
        config = self.config
        total = config.steps * config.batch_size
        if config.balance == 0:
            drawn = _epochs(len(self.labeled), total, self.rng)
        else:
            drawn = torch.multinomial(self.weights, total, True, generator=self.rng)
        labeled = self.labeled[drawn].split(config.batch_size)
        pool = _epochs(len(self.x), config.steps * config.unlabelled, self.rng)
        batches = zip(labeled, pool.view(config.steps, config.unlabelled), strict=True)
        return DataLoader(list(batches), batch_size=None)  # type: ignore[arg-type]


def without_statistics(network: nn.Module) -> Callable[[Tensor], Tensor]:
    """Return the network as a function that does not update BatchNorm's running statistics."""
    return lambda x: functional_call(network, {name: kept.clone() for name, kept in network.named_buffers()}, (x,))


def _move(decay: float, averaged: _Tensors, current: _Tensors, number: Tensor | int) -> None:
    """Update an exponential moving average, whose decay is smaller in its first steps."""
    share = max(1 - decay, 9 / (10 + int(number)))
    for mean, weight in zip(averaged, current, strict=True):
        mean.lerp_(weight, share)


def _epochs(rows: int, total: int, rng: torch.Generator) -> Tensor:
    """Return `total` row numbers, in random order: every row once before any row twice."""
    if total == 0:
        return torch.zeros(0, dtype=torch.int64)
    return torch.cat([torch.randperm(rows, generator=rng) for _ in range(-(-total // rows))])[:total]
