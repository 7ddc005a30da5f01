"""The student as a LightningModule: its network, batches, optimiser, and what it predicts."""

import math
from collections.abc import Callable
from copy import deepcopy

import numpy as np
import torch
from pytorch_lightning import LightningModule
from pytorch_lightning.utilities.types import OptimizerLRSchedulerConfig
from torch import Tensor, nn
from torch.func import functional_call
from torch.optim.lr_scheduler import OneCycleLR
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader

from nzc import networks
from nzc._types import AnyArray, Floats, Ints
from nzc.networks import as_input
from nzc.students.learner import Learner, Material

#: How often curves are drawn and the held-out rows looked at.
LOOKS = 50

_Tensors = tuple[Tensor, ...] | list[Tensor]


class Student(LightningModule):
    """A network that learns from `material` for `learner.steps` batches, by the sum of `learner.losses`."""

    def __init__(self, learner: Learner, material: Material, seed: int) -> None:
        super().__init__()
        self.learner, self.classes, self.seed = learner, material.classes, seed
        self.rng = torch.Generator().manual_seed(seed)
        self.x: Tensor
        self.y: Tensor
        self.register_buffer("x", torch.from_numpy(material.x), persistent=False)
        self.register_buffer("y", torch.from_numpy(material.labels), persistent=False)
        rows = torch.from_numpy(np.flatnonzero(material.answered))
        rows = rows[torch.randperm(len(rows), generator=self.rng)]
        self.held_out, self.labelled = rows.tensor_split([round(learner.validation * (len(rows) - 1))])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network = networks.build(learner.network, tuple(self.x.shape[1:]), material.classes)
        self.averaged = None
        if learner.average:
            self.averaged = AveragedModel(self.network, multi_avg_fn=_moving(learner.average)).requires_grad_(False)
        self.progress = 0.0  # share of the steps that are done
        self.losses: dict[str, Tensor] = {}
        self.curves: dict[str, Tensor] = {}  # what a learner wants drawn beside its losses
        self.looks_left, self.best, self.best_weights = learner.patience, -1.0, self.classifier.state_dict()

    @property
    def classifier(self) -> nn.Module:
        """The network by which the student predicts: [rows, ...] as networks take it → logits [rows, classes]."""
        network: nn.Module = self.network if self.averaged is None else self.averaged.module
        return network

    def augmented(self, x: Tensor) -> Tensor:
        """x [rows, ...] as networks take it, each row transformed at random as the settings say."""
        return x if self.learner.augment is None else self.learner.augment(x, self.rng)

    def labelled_loss(self, logits: Tensor, y: Tensor) -> Tensor:
        """Cross-entropy of logits [rows, classes] and labels y [rows], as `wrong` and `fade` say."""
        wrong, fade = self.learner.wrong, self.learner.fade
        right = logits.log_softmax(1).gather(1, y[:, None])
        seen = torch.logaddexp(right + math.log1p(-wrong), right.new_tensor(wrong / self.classes).log())
        return -seen.mean() * (max(0.0, 1 - self.progress / fade) if fade else 1.0)

    def on_train_start(self) -> None:
        torch.manual_seed(self.seed)  # dropout draws from the one stream of the process

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor | None:
        labelled, pool = batch
        self.progress = batch_idx / self.learner.steps
        x, u = as_input(self.x[labelled]), as_input(self.x[pool])
        self.losses = self.learner.losses(self, self.augmented(x), self.y[labelled], u)
        return torch.stack(list(self.losses.values())).sum()

    def on_train_batch_end(self, outputs: object, batch: object, batch_idx: int) -> None:
        if self.averaged is not None:
            self.averaged.update_parameters(self.network)
        if batch_idx % max(1, self.learner.steps // LOOKS) == 0:
            self.look(batch_idx)

    def look(self, step: int) -> None:
        """Draw the curves, and see whether the held-out rows are still getting better."""
        drawn = {**{f"loss_{name}": value for name, value in self.losses.items()}, **self.curves}
        curves = {name: float(value.detach()) for name, value in drawn.items()}
        if len(self.held_out):
            x, y = self.x[self.held_out].cpu().numpy(), self.y[self.held_out].cpu().numpy()
            right = curves["accuracy_held_out"] = float((self.predict(x) == y).mean())
            self.network.train()
            self.looks_left -= 1
            if right > self.best:
                self.looks_left, self.best = self.learner.patience, right
                self.best_weights = deepcopy(self.classifier.state_dict())
            if self.looks_left == 0:
                self.trainer.should_stop = True
        if self.logger is not None:
            self.logger.log_metrics(curves, step)

    def on_train_end(self) -> None:
        if len(self.held_out):
            self.classifier.load_state_dict(self.best_weights)

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig:
        learner = self.learner
        settings = {"weight_decay": learner.weight_decay, "fused": True}
        optimizer = torch.optim.AdamW(self.network.parameters(), learner.lr, **settings)  # type: ignore[arg-type]
        schedule = OneCycleLR(optimizer, learner.lr, total_steps=learner.steps + 1)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def train_dataloader(self) -> DataLoader[tuple[Tensor, Tensor]]:
        """(labelled rows, rows of the pool), `steps` times: where drawn alike, every row once before any row twice."""
        learner = self.learner
        labelled = self._labelled(learner.steps * learner.batch_size).split(learner.batch_size)
        pool = _rounds(len(self.x), learner.steps * learner.unlabelled, self.rng)
        batches = zip(labelled, pool.view(learner.steps, learner.unlabelled), strict=True)
        return DataLoader(list(batches), batch_size=None)  # type: ignore[arg-type]

    def _labelled(self, total: int) -> Tensor:
        if self.learner.balance == 0:
            return self.labelled[_rounds(len(self.labelled), total, self.rng)]
        labels = self.y[self.labelled.to(self.y.device)].cpu()
        often = labels.bincount(minlength=self.classes).double()[labels]
        return self.labelled[torch.multinomial(often**-self.learner.balance, total, True, generator=self.rng)]

    @torch.no_grad()
    def probabilities(self, x: AnyArray) -> Floats:
        """The probability of each class, [rows, classes], for x [rows, ...]."""
        classifier = self.classifier.eval()
        parts = [classifier(as_input(part.to(self.device))) for part in torch.from_numpy(x).split(1000)]
        found: Floats = torch.cat(parts).double().softmax(dim=1).cpu().numpy()
        return found

    def predict(self, x: AnyArray) -> Ints:
        """Labels [rows] of x [rows, ...]."""
        return np.asarray(self.probabilities(x).argmax(axis=1))


def aside(network: nn.Module) -> Callable[[Tensor], Tensor]:
    """The network as a function that leaves its running statistics as they are."""
    return lambda x: functional_call(network, {name: kept.clone() for name, kept in network.named_buffers()}, (x,))


def _moving(decay: float) -> Callable[[_Tensors, _Tensors, Tensor | int], None]:
    """A moving average that forgets faster at first, when there is little to remember."""

    def update(averaged: _Tensors, current: _Tensors, number: Tensor | int) -> None:
        torch._foreach_lerp_(averaged, current, max(1 - decay, 9 / (10 + int(number))))

    return update


def _rounds(rows: int, total: int, rng: torch.Generator) -> Tensor:
    """`total` row numbers: every row once before any row twice."""
    if total == 0:
        return torch.zeros(0, dtype=torch.int64)
    return torch.cat([torch.randperm(rows, generator=rng) for _ in range(-(-total // rows))])[:total]
