"""The ensemble engine: trains all teachers in one Lightning fit, of which a step is one pass of a
cohort of teachers.

On a CPU each teacher has its own thread (`teacher.py`); on a GPU, and where they are small, they
are one network (`stacked.py`). With several devices each rank trains its share of the teachers, and
writes their predictions into the folder that all ranks share.
"""

import os
from pathlib import Path

import numpy as np
import torch
from pytorch_lightning import LightningModule
from torch import Tensor, nn
from torch.utils.data import DataLoader

from nzc.data import DataSplits
from nzc.storage.predictions import save
from nzc.teachers.sharded import EnsembleSettings, missing
from nzc.teachers.stacked import Stacked
from nzc.teachers.teacher import Teacher, Threads
from nzc.types import Ints


class TeacherEnsemble(LightningModule):
    """Trains teacher i on shard i and writes its predicted labels [public rows] to `work`/i.npz,
    unless they are there.

    Weights, batches and augmentation of teacher i depend on (seed, i) only.
    """

    def __init__(
        self,
        settings: EnsembleSettings,
        splits: DataSplits,
        shards: list[Ints],
        work: Path,
        compiled: bool = False,
    ) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.anchor = nn.Parameter(
            torch.zeros(1)
        )  # strategies require a parameter; each teacher has its own
        self.settings, self.shards, self.classes, self.work = settings, shards, splits.classes, work
        self.compiled = compiled
        x = splits.private.x
        self.x = (
            torch.from_numpy(x) if isinstance(x, np.ndarray) else x
        )  # processes of several devices share a tensor
        self.y, self.public = (
            torch.from_numpy(splits.private.y),
            torch.from_numpy(splits.public.x[splits.to_label]),
        )
        # The rows of a pass; None: all of a shard whose size names decide, because it must not
        # change another teacher.
        self.even = min(map(len, shards)) if splits.names is None else None

    def train_dataloader(self) -> DataLoader[tuple[list[int], int]]:
        """Return (teachers, pass): a few teachers through all passes, then the next few; idle ones,
        as ranks meet.
        """
        todo = missing(
            self.work, range(self.global_rank, len(self.shards), self.trainer.world_size)
        )
        probe = self.teacher(0)
        self.stacks = probe.is_stacked(self.device.type)
        fitting = (
            Stacked.fitting(probe, len(self.shards)) if self.stacks else 4 * self._cores()
        )  # no core waits long
        size = 1 if probe.has_dropout else self.settings.parallel or fitting
        cohorts = [todo[start : start + size] for start in range(0, len(todo), size)]
        passes = [(cohort, number) for cohort in cohorts for number in range(self.settings.epochs)]
        most = self.trainer.strategy.reduce(
            torch.tensor(len(passes), device=self.device), reduce_op="max"
        )
        idle: list[tuple[list[int], int]] = [([], 0)] * (int(most) - len(passes))
        return DataLoader(passes + idle, batch_size=None)  # type: ignore[arg-type]

    def configure_optimizers(self) -> None:
        """Return no optimiser: each teacher has its own."""

    def training_step(self, batch: tuple[list[int], int], batch_idx: int) -> None:
        teachers, number = batch
        if not teachers:
            return
        if number == 0:
            cohort = [self.teacher(teacher) for teacher in teachers]
            precision = self.trainer.precision_plugin.forward_context
            self.cohort = (
                Stacked(cohort, self.compiled)
                if self.stacks
                else Threads(cohort, self._cores(), precision)
            )
        self.cohort.train_pass()
        if number == self.settings.epochs - 1:
            for teacher, labels in zip(teachers, self.cohort.predict(self.public), strict=True):
                save(self.work / f"{teacher}.npz", labels=labels.numpy())

    def teacher(self, number: int) -> Teacher:
        """Return a teacher with the records of its shard, not trained yet."""
        shard = self.shards[number]
        x = self.x[shard] if isinstance(self.x, Tensor) else torch.from_numpy(self.x[shard])
        return Teacher(
            self.settings, number, x, self.y[shard], self.even, self.classes, self.device
        )

    def _cores(self) -> int:
        return max(1, len(os.sched_getaffinity(0)) // self.trainer.world_size)
