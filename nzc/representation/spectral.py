"""Diffusion map of the public rows: rows that many short paths join lie close together. Vectors may
stand beside it.
"""

import sys
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
from nzc.representation import Encoder, Placement, Representation
from nzc.settings import Count, CountOrZero, NotNegative, Share, TwoOrMore
from nzc.storage.predictions import PredictionStore
from nzc.training.trainer import TrainerSettings
from nzc.types import AnyArray, Floats
from nzc.validation import whole

#: Clear clusters have this much or more: a row is twice as near to its own middle as to the next
#: one.
CLEAR = 0.5
UNCLEAR = (
    "nzc: representation: the public rows form no clear clusters ({:.2f}; clear ones have 0.5 or more), so a few "
    "rows cannot stand for all: try representation=pretrained for images, or teachers=ensemble with query_choice=first"
)
#: Rows whose distances are computed at once.
_AT_ONCE = 1000


@dataclass(frozen=True, kw_only=True)
class Spectral(Representation):
    """Eigenvectors of the nearest-neighbour graph of the public rows (Coifman and Lafon 2006,
    "Diffusion maps").

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
        whole(
            "representation.dimensions",
            self.dimensions,
            2,
            len(public) - 2,
            "(the public rows, less 2)",
        )
        whole(
            "representation.neighbours",
            self.neighbours,
            1,
            len(public) - 1,
            "(the other public rows)",
        )
        if (encoder := self._encoder(public)) is not None:
            encoder.check(public)

    def embed(
        self, splits: DataSplits, store: PredictionStore, trainer: TrainerSettings
    ) -> Embedding:
        """Return the places of all rows. If the map of the public rows has no clear clusters, a
        line says so.
        """
        embedding = super().embed(splits, store, trainer)
        if (
            self.share
            and (clear := clarity(embedding.public[:, : self.dimensions], splits.classes)) < CLEAR
        ):
            print(UNCLEAR.format(clear), file=sys.stderr)
        return embedding

    def fit(self, public: AnyArray, trainer: TrainerSettings) -> Placement:
        self.check(public)
        encoder = self._encoder(public)
        encode = Placement(nn.Flatten()) if encoder is None else encoder.fit(public, trainer)
        share = 1.0 if encoder is None and is_image(public.shape[1:]) else self.share
        if share == 0:
            return encode
        copies = [] if encoder is not None else self._copies(public)
        vectors = torch.stack([torch.from_numpy(encode(rows)) for rows in (public, *copies)])
        mapped = DiffusionMap(encode.network, vectors, self.neighbours)
        mapped.places = nn.Buffer(self._places(*mapped.graph()))
        mapped.stand_beside(share)
        return Placement(mapped)

    def _encoder(self, public: AnyArray) -> Encoder | None:
        return (
            self.encoder
            if self.encoder is not None and self.encoder.takes(public.shape[1:])
            else None
        )

    def _copies(self, public: AnyArray) -> list[AnyArray]:
        if self.augment is None or self.copies == 0:
            return []
        rng, rows = torch.Generator().manual_seed(0), as_input(torch.from_numpy(public))
        copies = [self.augment(rows, rng).numpy() for _ in range(self.copies)]
        return [] if np.array_equal(copies[0], rows) else copies

    def _places(self, distances: Floats, nearest: AnyArray) -> Tensor:
        """Return the places [rows, dimensions] of public rows, given their neighbours [rows,
        neighbours].
        """
        from scipy.sparse import csr_array, diags_array
        from scipy.sparse.linalg import eigsh

        rows, scale = len(nearest), distances[:, -1] + 1e-9
        weights = np.exp(-(distances**2) / (scale[:, None] * scale[nearest]))
        ends = np.arange(0, nearest.size + 1, self.neighbours)
        graph = csr_array((weights.ravel(), nearest.ravel(), ends), shape=(rows, rows))
        graph = graph.maximum(graph.T)
        root = graph.sum(axis=1) ** -0.5
        normalised = diags_array(root) @ graph @ diags_array(root)
        start = np.random.default_rng(0).normal(
            size=rows
        )  # an even start would miss parts that are not connected
        values, vectors = eigsh(normalised, k=self.dimensions, which="LA", v0=start)
        places = torch.from_numpy(vectors * np.maximum(values, 0) ** self.power * root[:, None])
        return F.normalize(places, dim=1, eps=1e-300).float()


class DiffusionMap(nn.Module):
    """Rows as networks take them → places [rows, dimensions]. It learns no more, and needs `places`
    first.

    vectors  [1 + copies, public, dimensions] of the public rows and their copies; `places` [public,
             dimensions] of them
    scales   of the map and of the vectors beside it; None: there are none
    """

    def __init__(self, encoder: nn.Module, vectors: Tensor, neighbours: int) -> None:
        super().__init__()
        self.encoder, self.neighbours, self.vectors = (
            encoder,
            neighbours,
            nn.Buffer(vectors.double()),
        )
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
        """Return distances and numbers [public, neighbours] of the nearest other rows of each
        public row.
        """
        found = []
        for rows in torch.arange(self.vectors.shape[1]).split(_AT_ONCE):
            distances = self._distances(self.vectors[0, rows])
            distances[torch.arange(len(rows)), rows] = torch.inf
            found.append(distances.topk(self.neighbours, largest=False))
        return torch.cat([part[0] for part in found]).numpy(), torch.cat(
            [part[1] for part in found]
        ).numpy()

    def stand_beside(self, share: float) -> None:
        """Give the map this share of the variance of all places of public rows, and the vectors the
        rest.
        """
        if share < 1:
            vectors = self.vectors[0].float()
            parts = (
                (share, torch.cat([self.mapped(part) for part in vectors.split(_AT_ONCE)])),
                (1 - share, vectors),
            )
            first, second = (
                part / max(float(x.var(dim=0, correction=0).sum()), 1e-12) for part, x in parts
            )
            self.scales = first**0.5, second**0.5

    def _distances(self, vectors: Tensor) -> Tensor:
        """Return the distances [rows, public] to the nearest copies, in float64: nearby rows differ
        little.

        How torch computes them by default depends on the number of rows, and could not be exported.
        """
        mode = "use_mm_for_euclid_dist"
        return reduce(
            torch.minimum,
            (torch.cdist(vectors.double(), copy, compute_mode=mode) for copy in self.vectors),
        )


def clarity(public: Floats, classes: int) -> float:
    """Return how clearly public places [rows, dimensions] fall into clusters: from 0, not at all,
    to 1.

    Only if they do can a few rows stand for all. It is the mean over rows of 1 − a/b, a and b being
    the distances to the nearest and the second nearest k-means middle (the simplified silhouette):
    the largest for as many cells as classes, twice as many, and four times as many but 20 at least.
    """
    from sklearn.cluster import KMeans

    def clear(cells: int) -> float:
        with warnings.catch_warnings(action="ignore"):  # fewer places differ than there are cells
            distances = KMeans(cells, n_init=1, random_state=0).fit_transform(public)
        nearest, next_ = np.partition(distances, 1)[:, :2].T
        return float(np.mean(1 - nearest / np.maximum(next_, 1e-12)))

    several = (classes, 2 * classes, max(4 * classes, 20))
    return max((clear(cells) for cells in several if 2 * cells <= len(public)), default=1.0)
