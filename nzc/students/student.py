"""The student as a LightningModule: its network, batches, optimiser, and what it predicts."""

import numpy as np
import torch
from pytorch_lightning import LightningModule
from pytorch_lightning.utilities.types import OptimizerLRSchedulerConfig
from torch import Tensor
from torch.optim.lr_scheduler import OneCycleLR
from torch.utils.data import DataLoader

from nzc import networks
from nzc._types import AnyArray, Ints
from nzc.networks import as_input
from nzc.students.learner import Learner, Material


class Student(LightningModule):
    """A network that learns from `material` for `learner.steps` batches, by `learner.loss`."""

    def __init__(self, learner: Learner, material: Material, seed: int) -> None:
        super().__init__()
        self.learner = learner
        self.rng = torch.Generator().manual_seed(seed)
        self.x, self.y = torch.from_numpy(material.labelled.x), torch.from_numpy(material.labelled.y)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network = networks.build(learner.network, tuple(self.x.shape[1:]), material.classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits [rows, classes]."""
        logits: Tensor = self.network(as_input(x))
        return logits

    def training_step(self, batch: Tensor, batch_idx: int) -> Tensor:
        rows = batch.cpu()
        x, y = as_input(self.x[rows]).to(self.device), self.y[rows].to(self.device)
        augment = self.learner.augment
        return self.learner.loss(self, x if augment is None else augment(x, self.rng), y)

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig:
        learner = self.learner
        optimizer = torch.optim.AdamW(self.parameters(), learner.lr, weight_decay=learner.weight_decay, fused=True)
        schedule = OneCycleLR(optimizer, learner.lr, total_steps=learner.steps + 1)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def train_dataloader(self) -> DataLoader[Tensor]:
        """Row numbers, `steps` batches of them: every row once before any row twice."""
        total = self.learner.steps * self.learner.batch_size
        rounds = -(-total // len(self.y))
        order = torch.cat([torch.randperm(len(self.y), generator=self.rng) for _ in range(rounds)])
        return DataLoader(order[:total].split(self.learner.batch_size), batch_size=None)

    @torch.no_grad()
    def predict(self, x: AnyArray) -> Ints:
        """Labels [rows] of x [rows, ...]."""
        self.eval()
        parts = [self(part.to(self.device)).argmax(dim=1).cpu().numpy() for part in torch.from_numpy(x).split(1000)]
        return np.concatenate(parts)
