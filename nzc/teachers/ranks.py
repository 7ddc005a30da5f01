"""The ensemble engine under several ranks.

Apart from the engine, because it changes nothing that a teacher predicts: what is stored stays valid.
"""

import torch
from torch.utils.data import DataLoader

from nzc.teachers.engine import TeacherEnsemble


class RankedEnsemble(TeacherEnsemble):
    """As many steps on every rank, for Lightning has them meet before each: one whose teachers are done takes idle
    ones."""

    def train_dataloader(self) -> DataLoader[tuple[list[int], int]]:
        passes = list(super().train_dataloader())
        most = self.trainer.strategy.reduce(torch.tensor(len(passes), device=self.device), reduce_op="max")
        return DataLoader(passes + [([], 0)] * (int(most) - len(passes)), batch_size=None)  # type: ignore[arg-type]

    def training_step(self, batch: tuple[list[int], int], batch_idx: int) -> None:
        if batch[0]:
            super().training_step(batch, batch_idx)
