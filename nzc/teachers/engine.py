"""The ensemble engine: every teacher in one Lightning fit.

A step of the fit is one pass of one teacher over its shard, teacher after teacher: weights, moments and shard stay
in the processor's cache, and what Lightning costs per step is spread over a whole pass.
"""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch
from pytorch_lightning import LightningModule
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader

from nzc import networks
from nzc._types import AnyArray, Ints
from nzc.datasets import Split
from nzc.networks._augment import Affine, as_input

if TYPE_CHECKING:
    from nzc.teachers.ensemble import Ensemble


class TeacherEnsemble(LightningModule):
    """Trains teacher i on shard i and keeps its predictions on the public rows.

    Teacher i's weights, batches and augmentation follow from (seed, i) alone, whoever else is trained.
    After the fit, `predictions` is [teachers, queries].
    """

    def __init__(self, settings: "Ensemble", private: Split, public: AnyArray, shards: list[Ints], classes: int) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.settings, self.shards, self.classes = settings, shards, classes
        self.augment = Affine(**settings.augment) if settings.augment else None
        self.x, self.y, self.public = torch.from_numpy(private.x), torch.from_numpy(private.y), torch.from_numpy(public)
        self.predictions = np.zeros((len(shards), len(public)), dtype=np.int16)

    def train_dataloader(self) -> DataLoader[tuple[int, int]]:
        passes = [(teacher, epoch) for teacher in range(len(self.shards)) for epoch in range(self.settings.epochs)]
        return DataLoader(passes, batch_size=None)  # type: ignore[arg-type]

    def configure_optimizers(self) -> None:
        """Each teacher has its own, made when its turn comes."""

    def training_step(self, batch: tuple[int, int], batch_idx: int) -> None:
        teacher, epoch = batch
        if epoch == 0:
            self._begin(teacher)
        for x, y in self._batches():
            self.optimizer.zero_grad()
            F.cross_entropy(self.teacher(x), y).backward()
            self.optimizer.step()
            self.schedule.step()
        if epoch == self.settings.epochs - 1:
            self._finish(teacher)

    def _begin(self, teacher: int) -> None:
        settings, shard = self.settings, torch.from_numpy(self.shards[teacher])
        seed = int(np.random.SeedSequence([settings.seed, teacher]).generate_state(1, np.uint64)[0] >> 1)
        self.rng = torch.Generator().manual_seed(seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.teacher = networks.build(settings.network, tuple(self.x.shape[1:]), self.classes).to(self.device)
        self.shard = as_input(self.x[shard]).to(self.device), self.y[shard].to(self.device)
        self.optimizer = torch.optim.AdamW(
            self.teacher.parameters(), settings.lr, weight_decay=settings.weight_decay, fused=True
        )
        steps = settings.epochs * math.ceil(len(shard) / settings.batch_size)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, settings.lr, total_steps=steps + 1)

    def _batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        x, y = self.shard
        order = torch.randperm(len(y), generator=self.rng).to(self.device)
        x, y = x[order], y[order]
        if self.augment is not None:
            x = self.augment(x, self.rng)
        return zip(x.split(self.settings.batch_size), y.split(self.settings.batch_size), strict=True)

    @torch.no_grad()
    def _finish(self, teacher: int) -> None:
        self.teacher.eval()
        labels = [self.teacher(as_input(x.to(self.device))).argmax(dim=1).cpu() for x in self.public.split(1000)]
        self.predictions[teacher] = torch.cat(labels).numpy()


