"""Diffusion map of the public rows: rows that many short paths join lie close together."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nzc.data import DataSplits, Embedding
from nzc.data.images import is_image
from nzc.networks import as_input
from nzc.ranges import Count, CountOrZero, NotNegative, Share, TwoOrMore
from nzc.representation import Encoder, Placement, Representation
from nzc.saying import say
from nzc.storage.predictions import PredictionStore
from nzc.training.trainer import TrainerSettings
from nzc.types import AnyArray, Floats
from nzc.validation import whole

#: Clear clusters have this much or more: a row is twice as near to its own middle as to the next
#: one.
CLEAR = 0.5
UNCLEAR = (
    "representation: the public rows form no clear clusters ({:.2f}; clear ones have 0.5 or "
    "more), so a few rows cannot stand for all: try representation=pretrained for images, or "
    "teachers=ensemble with query_choice=first"
)
#: Rows whose distances are computed at once.
_AT_ONCE = 1000


@dataclass(frozen=True, kw_only=True)
class Spectral(Representation):
    """Eigenvectors of the nearest-neighbour graph of the public rows.

    (Coifman and Lafon 2006, "Diffusion maps".)

    Edges weigh exp(−d²/(s s′)), s being a row's distance to its last neighbour (Zelnik-Manor and
    Perona 2004). A row that is not public lies at the weighted mean of its nearest public rows. All
    places in the map have length 1.

    A map shows clusters, and few rows suit it. Vectors show what differs within a cluster, and many
    rows use that: those of the encoder, or the features; pixels never. The distance to a public row
    is that to the nearest of its `copies`, so images that are shifted or turned a little are close.
    conf/representation explains the fields.
    """

    encoder: Encoder | None
    neighbours: Count
    dimensions: TwoOrMore
    power: NotNegative
    share: Share = 1.0
    copies: CountOrZero = 0
    augment: Callable[..., Any] | None = None

    def check(self, public: AnyArray) -> None:
        group = "representation"
        rows = len(public)
        whole(f"{group}.dimensions", self.dimensions, 2, rows - 2, "(the public rows, less 2)")
        whole(f"{group}.neighbours", self.neighbours, 1, rows - 1, "(the other public rows)")
        encoder = self._encoder(public)
        if encoder is not None:
            encoder.check(public)

    def embed(
        self, splits: DataSplits, store: PredictionStore, trainer: TrainerSettings
    ) -> Embedding:
        """Return the places of all rows; a line says where the map has no clear clusters."""
        embedding = super().embed(splits, store, trainer)
        if self.share:
            clear = clarity(embedding.public[:, : self.dimensions], splits.classes)
            if clear < CLEAR:
                say(UNCLEAR.format(clear))
        return embedding

    def fit(self, public: AnyArray, trainer: TrainerSettings) -> Placement:
        self.check(public)
        copies = [public]
        share = self.share
        encoder = self._encoder(public)
        if encoder is not None:
            encode = encoder.fit(public, trainer)
        else:
            encode = Placement(nn.Flatten())
            copies += self._copies(public)
            if is_image(public.shape[1:]):
                share = 1.0
        if share == 0:
            return encode
        vectors = torch.stack([torch.from_numpy(encode(rows)) for rows in copies])
        mapped = DiffusionMap(encode.network, vectors, self.neighbours)
        mapped.places = nn.Buffer(self._places(*mapped.graph()))
        mapped.stand_beside(share)
        return Placement(mapped)

    def _encoder(self, public: AnyArray) -> Encoder | None:
        if self.encoder is None or not self.encoder.takes(public.shape[1:]):
            return None
        return self.encoder

    def _copies(self, public: AnyArray) -> list[AnyArray]:
        if self.augment is None or self.copies == 0:
            return []
        rng = torch.Generator().manual_seed(0)
        rows = as_input(torch.from_numpy(public))
        copies = [self.augment(rows, rng).numpy() for _ in range(self.copies)]
        return [] if np.array_equal(copies[0], rows) else copies

    def _places(self, distances: Floats, nearest: AnyArray) -> Tensor:
        """Return the places [rows, dimensions] of public rows.

        distances, nearest  of and to their neighbours, [rows, neighbours]
        """
        from scipy.sparse import csr_array, diags_array
        from scipy.sparse.linalg import eigsh

        rows = len(nearest)
        scale = distances[:, -1] + 1e-9
        weights = np.exp(-(distances**2) / (scale[:, None] * scale[nearest]))
        ends = np.arange(0, nearest.size + 1, self.neighbours)
        graph = csr_array((weights.ravel(), nearest.ravel(), ends), shape=(rows, rows))
        graph = graph.maximum(graph.T)
        root = graph.sum(axis=1) ** -0.5
        normalised = diags_array(root) @ graph @ diags_array(root)
        # An even start would miss parts that are not connected.
        start = np.random.default_rng(0).normal(size=rows)
        values, vectors = eigsh(normalised, k=self.dimensions, which="LA", v0=start)
        places = torch.from_numpy(vectors * np.maximum(values, 0) ** self.power * root[:, None])
        return F.normalize(places, dim=1, eps=1e-300).float()


class DiffusionMap(nn.Module):
    """Rows as networks take them → places [rows, dimensions]. It learns no more.

    vectors  [1 + copies, public, dimensions] of the public rows and their copies
    places   [public, dimensions] of them: they must be set first
    scales   of the map and of the vectors beside it; None: there are none
    """

    def __init__(self, encoder: nn.Module, vectors: Tensor, neighbours: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.neighbours = neighbours
        self.vectors = nn.Buffer(vectors.double())
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
        """Return distances and numbers [public, neighbours] of each public row's nearest others."""
        found = []
        for rows in torch.arange(self.vectors.shape[1]).split(_AT_ONCE):
            to_rows = self._distances(self.vectors[0, rows])
            to_rows[torch.arange(len(rows)), rows] = torch.inf
            found.append(to_rows.topk(self.neighbours, largest=False))
        distances, nearest = map(torch.cat, zip(*found, strict=True))
        return distances.numpy(), nearest.numpy()

    def stand_beside(self, share: float) -> None:
        """Give the map this share of the variance of public places, and the vectors the rest."""
        if share < 1:
            vectors = self.vectors[0].float()
            places = torch.cat([self.mapped(part) for part in vectors.split(_AT_ONCE)])
            self.scales = _scale(places, share), _scale(vectors, 1 - share)

    def _distances(self, vectors: Tensor) -> Tensor:
        """Return the distances [rows, public] to the nearest copies, in float64.

        Nearby rows differ little. How torch computes distances by default depends on the number of
        rows, and could not be exported.
        """
        mode = "use_mm_for_euclid_dist"
        x = vectors.double()
        return reduce(
            torch.minimum, [torch.cdist(x, copy, compute_mode=mode) for copy in self.vectors]
        )


def _scale(x: Tensor, variance: float) -> float:
    """Return the factor by which places x [rows, dimensions] get this variance."""
    return float((variance / max(float(x.var(dim=0, correction=0).sum()), 1e-12)) ** 0.5)


def clarity(public: Floats, classes: int) -> float:
    """Return how clearly public places [rows, dimensions] form clusters: from 0, not at all, to 1.

    Only if they do can a few rows stand for all. It is the mean over rows of 1 − a/b, a and b being
    the distances to the nearest and the second nearest k-means middle (the simplified silhouette):
    the largest for as many cells as classes, twice as many, and four times as many but 20 at least.
    """
    from sklearn.cluster import KMeans

    clear = []
    for cells in (classes, 2 * classes, max(4 * classes, 20)):
        if 2 * cells <= len(public):
            with warnings.catch_warnings(action="ignore"):  # fewer places differ than cells
                distances = KMeans(cells, n_init=1, random_state=0).fit_transform(public)
            nearest, second = np.partition(distances, 1)[:, :2].T
            clear.append(float(np.mean(1 - nearest / np.maximum(second, 1e-12))))
    return max(clear, default=1.0)
