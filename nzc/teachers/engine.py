"""The ensemble engine: every teacher in one Lightning fit.

A step of the fit is one pass of `parallel` teachers over their shards, each in a thread of its own that keeps to one
core: small networks gain nothing from several cores an operation, and lose much where other programs want them too.
What Lightning costs per step is spread over whole passes.
"""

import math
import os
from concurrent.futures import ThreadPoolExecutor
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
from nzc.networks import as_input

if TYPE_CHECKING:
    from nzc.teachers.ensemble import Ensemble


class TeacherEnsemble(LightningModule):
    """Trains teacher i on shard i and keeps its predictions on the public rows.

    Teacher i's weights, batches and augmentation follow from (seed, i) alone, whoever else is trained beside it.
    After the fit, `predictions` is [teachers, queries].
    """

    def __init__(
        self, settings: "Ensemble", private: Split, public: AnyArray, shards: list[Ints], classes: int
    ) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.settings, self.shards, self.classes = settings, shards, classes
        self.x, self.y, self.public = torch.from_numpy(private.x), torch.from_numpy(private.y), torch.from_numpy(public)
        self.predictions = np.zeros((len(shards), len(public)), dtype=np.int16)
        self.pool = ThreadPoolExecutor(settings.parallel or len(os.sched_getaffinity(0)))

    def train_dataloader(self) -> DataLoader[tuple[range, int]]:
        """(teachers, pass): a few teachers through all their passes, then the next few."""
        at_once = self.pool._max_workers
        chunks = [range(i, min(i + at_once, len(self.shards))) for i in range(0, len(self.shards), at_once)]
        return DataLoader([(chunk, i) for chunk in chunks for i in range(self.settings.epochs)], batch_size=None)  # type: ignore[arg-type]

    def configure_optimizers(self) -> None:
        """Each teacher has its own."""

    def training_step(self, batch: tuple[range, int], batch_idx: int) -> None:
        chunk, number = batch
        if number == 0:
            self.chunk = [_Teacher(self, teacher) for teacher in chunk]
        list(self.pool.map(_Teacher.train_once, self.chunk))
        if number == self.settings.epochs - 1:
            for teacher, labels in zip(chunk, self.pool.map(_Teacher.predict, self.chunk), strict=True):
                self.predictions[teacher] = labels.numpy()


class _Teacher:
    """One teacher in training: network, optimiser, shard, and its own stream of randomness."""

    def __init__(self, ensemble: TeacherEnsemble, number: int) -> None:
        self.settings, self.device = ensemble.settings, ensemble.device
        self.public = ensemble.public
        shard = torch.from_numpy(ensemble.shards[number])
        self.x, self.y = as_input(ensemble.x[shard]).to(self.device), ensemble.y[shard].to(self.device)
        seed = int(np.random.SeedSequence([self.settings.seed, number]).generate_state(1, np.uint64)[0] >> 1)
        self.rng = torch.Generator().manual_seed(seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = networks.build(self.settings.network, tuple(self.x.shape[1:]), ensemble.classes)
        self.network = network.to(self.device)
        lr, weight_decay = self.settings.lr, self.settings.weight_decay
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr, weight_decay=weight_decay, fused=True)
        steps = self.settings.epochs * math.ceil(len(shard) / self.settings.batch_size)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, lr, total_steps=steps + 1)

    def train_once(self) -> None:
        """One pass over the shard, in a fresh order and freshly augmented."""
        order = torch.randperm(len(self.y), generator=self.rng).to(self.device)
        x, y = self.x[order], self.y[order]
        if self.settings.augment is not None:
            x = self.settings.augment(x, self.rng)
        size = self.settings.batch_size
        for rows, labels in zip(x.split(size), y.split(size), strict=True):
            self.optimizer.zero_grad()
            F.cross_entropy(self.network(rows), labels).backward()
            self.optimizer.step()
            self.schedule.step()

    @torch.no_grad()
    def predict(self) -> Tensor:
        """Labels of the public rows, [queries], on the CPU."""
        self.network.eval()
        parts = [self.network(as_input(x.to(self.device))).argmax(dim=1).cpu() for x in self.public.split(1000)]
        return torch.cat(parts)
