"""Contrastive learning: two augmentations of a public row get nearby vectors, other rows get distant ones."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nzc import networks
from nzc.representation.base import Encoder, Placement
from nzc.training.trainer import TrainerSettings
from nzc.types import AnyArray, Floats
from nzc.validation import fits_memory, positive, whole, within

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, kw_only=True)
class Contrastive(Encoder):
    """SimCLR (Chen et al. 2020, arXiv 2002.05709) with a small network; no label is used.

    network      a name in nzc/networks, or what makes an nn.Module; its outputs are the vectors
    width        dimensions of the vectors
    steps        batches; batch_size: rows of a batch, each augmented twice
    lr           peak learning rate of AdamW with a one-cycle schedule
    temperature  of the softmax over all other rows of the batch
    augment      augmentation of a batch: (x, torch.Generator) → x
    seed         of weights, batches and augmentation
    """

    network: networks.Network
    width: int
    steps: int
    batch_size: int
    lr: float
    temperature: float
    augment: Callable[..., Any]
    seed: int

    def __post_init__(self) -> None:
        networks.check(self.network)
        whole(2, width=self.width, batch_size=self.batch_size)
        whole(1, steps=self.steps)
        fits_memory(200 * self.steps + 256 * self.width, steps=self.steps, width=self.width)  # batches, last layer
        positive(lr=self.lr, temperature=self.temperature)

    def check(self, public: AnyArray) -> None:
        with within("representation.encoder"):
            networks.require_fit(self.network, public.shape[1:], self.width)

    def fit(self, public: AnyArray, trainer: TrainerSettings) -> Placement:
        from nzc.representation.contrastive_module import ContrastiveModule

        module = ContrastiveModule(self, public)
        trainer.fit(module, "Representation", max_epochs=1)
        return lambda rows: _encode(module.encoder, rows)


def _encode(encoder: "nn.Module", rows: AnyArray) -> Floats:
    """Return the vectors of rows [rows, ...], scaled to length 1."""
    import torch
    from torch.nn import functional as F

    encoder.eval()
    device = next(encoder.parameters()).device
    with torch.no_grad():
        parts = torch.from_numpy(rows).split(1000)
        found = [F.normalize(encoder(networks.as_input(part.to(device))), dim=1).cpu() for part in parts]
    return np.asarray(torch.cat(found))
