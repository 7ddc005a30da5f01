"""The ensemble engine: trains all teachers in one Lightning fit.

A step is one pass of a cohort of teachers. On a CPU each teacher has its own thread (`teacher.py`);
on a GPU, and where they are small, they are one network (`stacked.py`). With several devices each
rank trains its share of the teachers, and writes their predictions into the folder that all ranks
share.
"""

import os
from pathlib import Path

import numpy as np
import torch
from pytorch_lightning import LightningModule
from torch import nn
from torch.utils.data import DataLoader

from nzc.data import DataSplits
from nzc.storage.predictions import save
from nzc.teachers.sharded import EnsembleSettings, missing
from nzc.teachers.stacked import Stacked
from nzc.teachers.teacher import Teacher, Threads
from nzc.types import Ints


class TeacherEnsemble(LightningModule):
    """Trains teacher i on shard i, and writes its labels [public rows] to `work`/i.npz once.

    Weights, batches and augmentation of teacher i depend on (seed, i) only.
    """

    cohort: Threads | Stacked

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
        )  # strategies require one; teachers have their own
        self.settings = settings
        self.shards = shards
        self.classes = splits.classes
        self.work = work
        self.compiled = compiled
        x = splits.private.x
        # Processes of several devices share a tensor.
        self.x = torch.from_numpy(x) if isinstance(x, np.ndarray) else x
        self.y = torch.from_numpy(splits.private.y)
        self.public = torch.from_numpy(splits.public.x[splits.to_label])
        # The rows of a pass; None: all of a shard whose size names decide, because it must not
        # change another teacher.
        self.even = min(map(len, shards)) if splits.units.names is None else None

    def train_dataloader(self) -> DataLoader[tuple[list[int], int]]:
        """Return (teachers, pass): a few teachers through all passes, then the next few.

        Idle ones follow, because ranks must meet.
        """
        ranks = self.trainer.world_size
        todo = missing(self.work, range(self.global_rank, len(self.shards), ranks))
        probe = self.teacher(0)
        self.stacks = probe.is_stacked(self.device.type)
        if probe.has_dropout:
            size = 1
        elif self.settings.parallel is not None:
            size = self.settings.parallel
        elif self.stacks:
            size = Stacked.fitting(probe, len(self.shards))
        else:
            size = 4 * self._cores()  # so that no core waits long
        passes: list[tuple[list[int], int]] = []
        for start in range(0, len(todo), size):
            cohort = todo[start : start + size]
            passes += [(cohort, number) for number in range(self.settings.epochs)]
        length = torch.tensor(len(passes), device=self.device)
        longest = int(self.trainer.strategy.reduce(length, reduce_op="max"))
        passes += [([], 0)] * (longest - len(passes))
        return DataLoader(passes, batch_size=None)  # type: ignore[arg-type]

    def configure_optimizers(self) -> None:
        """Return no optimiser: each teacher has its own."""

    def training_step(self, batch: tuple[list[int], int], batch_idx: int) -> None:
        numbers, number = batch
        if not numbers:
            return
        if number == 0:
            self.cohort = self._cohort([self.teacher(teacher) for teacher in numbers])
        self.cohort.train_pass()
        if number == self.settings.epochs - 1:
            for teacher, labels in zip(numbers, self.cohort.predict(self.public), strict=True):
                save(self.work / f"{teacher}.npz", labels=labels.numpy())

    def _cohort(self, teachers: list[Teacher]) -> Threads | Stacked:
        if self.stacks:
            return Stacked(teachers, self.compiled)
        return Threads(teachers, self._cores(), self.trainer.precision_plugin.forward_context)

    def teacher(self, number: int) -> Teacher:
        """Return a teacher with the records of its shard, not trained yet."""
        shard = self.shards[number]
        x = torch.as_tensor(self.x[shard])
        y = self.y[shard]
        return Teacher(self.settings, number, x, y, self.even, self.classes, self.device)

    def _cores(self) -> int:
        return max(1, len(os.sched_getaffinity(0)) // self.trainer.world_size)
