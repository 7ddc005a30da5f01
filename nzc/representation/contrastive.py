"""Contrastive learning: augmentations of one public row get nearby vectors, others distant."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from pytorch_lightning import LightningModule
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from nzc import networks
from nzc.data.images import is_image
from nzc.networks import as_input
from nzc.ranges import Count, CountOrZero, Positive, TwoOrMore
from nzc.representation import Encoder, Placement
from nzc.training.batches import epochs
from nzc.training.optimizer import OptimizerSettings, each_step
from nzc.training.trainer import TrainerSettings
from nzc.types import AnyArray
from nzc.validation import within


@dataclass(frozen=True, kw_only=True)
class Contrastive(Encoder):
    """SimCLR (Chen et al. 2020, arXiv 2002.05709).

    With a `side`, it leaves images with a shorter side, and rows that are not images, as they are.
    conf/representation/contrastive.yaml explains the fields.
    """

    network: networks.Network
    width: TwoOrMore
    steps: Count
    batch_size: TwoOrMore
    lr: Positive
    temperature: Positive
    augment: Callable[..., Any]
    seed: int
    side: CountOrZero = 0

    def takes(self, shape: Sequence[int]) -> bool:
        return self.side == 0 or is_image(shape, self.side)

    def check(self, public: AnyArray) -> None:
        with within("representation.encoder"):
            networks.require_fit(self.network, public.shape[1:], self.width, unlabeled=True)

    def fit(self, public: AnyArray, trainer: TrainerSettings) -> Placement:
        module = ContrastiveModule(self, public)
        trainer.fit(module, "Representation", max_epochs=1)
        return Placement(nn.Sequential(module.encoder, UnitLength()))


class UnitLength(nn.Module):
    """Scales vectors [rows, dimensions] to length 1."""

    def forward(self, x: Tensor) -> Tensor:
        return F.normalize(x, dim=1)


class ContrastiveModule(LightningModule):
    """`encoder` turns rows as networks take them into vectors [rows, width]."""

    def __init__(self, config: Contrastive, public: AnyArray) -> None:
        super().__init__()
        self.config = config
        self.rng = torch.Generator().manual_seed(config.seed)
        self.x = nn.Buffer(torch.from_numpy(public), persistent=False)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            network = networks.build(config.network, public.shape[1:], config.width, unlabeled=True)
            self.encoder = nn.Sequential(network, nn.BatchNorm1d(config.width))
            # Rows are compared in 64 dimensions; the vectors before this layer serve better
            # afterwards (Section 4.2).
            self.head = nn.Sequential(nn.ReLU(), nn.Linear(config.width, 64))

    def training_step(self, rows: Tensor) -> Tensor:
        x = as_input(self.x[rows])
        first = self.config.augment(x, self.rng)
        second = self.config.augment(x, self.rng)
        z = F.normalize(self.head(self.encoder(torch.cat([first, second]))), dim=1)
        alike = (z @ z.T / self.config.temperature).fill_diagonal_(-torch.inf)
        loss = F.cross_entropy(alike, torch.arange(len(z), device=z.device).roll(len(rows)))
        self.log("Representation/loss", loss)
        return loss

    def configure_optimizers(self) -> Any:
        settings = OptimizerSettings(lr=self.config.lr, weight_decay=1e-4)
        steps = int(self.trainer.estimated_stepping_batches)
        return each_step(*settings.make_optimizer(self.parameters(), steps))

    def train_dataloader(self) -> DataLoader[Tensor]:
        size = min(self.config.batch_size, len(self.x))
        rows = epochs(len(self.x), self.config.steps * size, self.rng)
        return DataLoader(list(rows.split(size)), batch_size=None)  # type: ignore[arg-type]
