"""The diffusion map as a network: a row lies among the public rows that it is nearest to."""

from functools import reduce

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nzc.types import AnyArray, Floats

#: How torch computes distances: by default that depends on the number of rows, and could not be exported.
_BY_PRODUCTS = "use_mm_for_euclid_dist"
#: Rows whose distances are computed at once.
_AT_ONCE = 1000


class DiffusionMap(nn.Module):
    """Rows as networks take them → places [rows, dimensions]. It learns no more, and needs `places` first.

    encoder  turns rows into vectors
    vectors  [1 + copies, public, dimensions] of the public rows, and of their copies: the nearest one of a row counts
    places   [public, dimensions] of the public rows in the map
    scales   of the map and of the vectors beside it; None: there are none
    """

    def __init__(self, encoder: nn.Module, vectors: Tensor, neighbours: int) -> None:
        super().__init__()
        self.encoder, self.neighbours, self.vectors = encoder, neighbours, nn.Buffer(vectors.double())
        self.places = nn.Buffer(torch.empty(0))
        self.scales: tuple[float, float] | None = None

    def forward(self, x: Tensor) -> Tensor:
        vectors = self.encoder(x).cpu()  # not every accelerator computes in float64
        places = self.mapped(vectors)
        if self.scales is None:
            return places
        return torch.cat([self.scales[0] * places, self.scales[1] * vectors], dim=1)

    def mapped(self, vectors: Tensor) -> Tensor:
        """Return the places in the map: weighted means of those of the nearest public rows."""
        distances, nearest = self._distances(vectors).topk(self.neighbours, largest=False)
        weights = (-((distances / distances[:, :1].clamp(min=1e-3)) ** 2)).exp().float()
        return F.normalize((self.places[nearest] * weights[:, :, None]).sum(dim=1), dim=1)

    def graph(self) -> tuple[Floats, AnyArray]:
        """Return distances and numbers [public, neighbours] of the nearest other rows of each public row."""
        found = []
        for rows in torch.arange(self.vectors.shape[1]).split(_AT_ONCE):
            distances = self._distances(self.vectors[0, rows])
            distances[torch.arange(len(rows)), rows] = torch.inf
            found.append(distances.topk(self.neighbours, largest=False))
        return torch.cat([part[0] for part in found]).numpy(), torch.cat([part[1] for part in found]).numpy()

    def stand_beside(self, share: float) -> None:
        """Give the map this share of the variance of all places of public rows, and the vectors the rest."""
        if share < 1:
            vectors = self.vectors[0].float()
            parts = (share, torch.cat([self.mapped(part) for part in vectors.split(_AT_ONCE)])), (1 - share, vectors)
            first, second = (part / max(float(x.var(dim=0, correction=0).sum()), 1e-12) for part, x in parts)
            self.scales = first**0.5, second**0.5

    def _distances(self, vectors: Tensor) -> Tensor:
        """Return the distances [rows, public] to the nearest copies, in float64: nearby rows differ little."""
        found = (torch.cdist(vectors.double(), copy, compute_mode=_BY_PRODUCTS) for copy in self.vectors)
        return reduce(torch.minimum, found)
