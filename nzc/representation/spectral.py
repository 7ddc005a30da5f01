"""Diffusion map of the public rows: rows that many short paths join lie close together. Vectors may stand beside it."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nzc.data import DataSplits, Embedding
from nzc.data.images import is_image
from nzc.networks import as_input
from nzc.representation.base import Encoder, Placement, Representation
from nzc.representation.clusters import CLEAR, UNCLEAR, clarity
from nzc.representation.diffusion_map import DiffusionMap
from nzc.settings import Count, CountOrZero, NotNegative, Share, TwoOrMore
from nzc.storage.predictions import PredictionStore
from nzc.training.trainer import TrainerSettings
from nzc.types import AnyArray, Floats
from nzc.validation import whole


@dataclass(frozen=True, kw_only=True)
class Spectral(Representation):
    """Eigenvectors of the nearest-neighbour graph of the public rows (Coifman and Lafon 2006, "Diffusion maps").

    Edges weigh exp(−d²/(s s′)), s being a row's distance to its last neighbour (Zelnik-Manor and Perona 2004). A row
    that is not public lies at the weighted mean of its nearest public rows. All places in the map have length 1.

    A map shows clusters, and few rows suit it. Vectors show what differs within a cluster, and many rows use that.

    share       the map's share of the variance of all places; the vectors have the rest: those of the encoder, or the
                features. Pixels have none
    encoder     turns rows that it takes into vectors first; other rows, and None: pixels from 0 to 1, or the features
    neighbours  of each row in the graph; dimensions: eigenvectors that are kept
    power       the eigenvalues are raised to it: the steps of a random walk on the graph
    copies      how many augmented copies each public row has, unless the encoder takes it. The distance to a public row
                is that to the nearest of its copies, so images that are shifted or turned a little are close
    """

    encoder: Encoder | None
    neighbours: Count
    dimensions: TwoOrMore
    power: NotNegative
    share: Share = 1.0
    copies: CountOrZero = 0
    augment: Callable[..., Any] | None = None

    def check(self, public: AnyArray) -> None:
        whole(2, len(public) - 2, "(the public rows, less 2)", **{"representation.dimensions": self.dimensions})
        whole(1, len(public) - 1, "(the other public rows)", **{"representation.neighbours": self.neighbours})
        if (encoder := self._encoder(public)) is not None:
            encoder.check(public)

    def embed(self, splits: DataSplits, store: PredictionStore, trainer: TrainerSettings) -> Embedding:
        """Return the places of all rows. If the map of the public rows has no clear clusters, a line says so."""
        embedding = super().embed(splits, store, trainer)
        if self.share and (clear := clarity(embedding.public[:, : self.dimensions], splits.classes)) < CLEAR:
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
        return self.encoder if self.encoder is not None and self.encoder.takes(public.shape[1:]) else None

    def _copies(self, public: AnyArray) -> list[AnyArray]:
        """Return the public rows augmented, as often as there are copies."""
        if self.augment is None or self.copies == 0:
            return []
        rng, rows = torch.Generator().manual_seed(0), as_input(torch.from_numpy(public))
        copies = [self.augment(rows, rng).numpy() for _ in range(self.copies)]
        return [] if np.array_equal(copies[0], rows) else copies

    def _places(self, distances: Floats, nearest: AnyArray) -> Tensor:
        """Return the places [rows, dimensions] of public rows, given their neighbours [rows, neighbours]."""
        from scipy.sparse import csr_array, diags_array
        from scipy.sparse.linalg import eigsh

        rows, scale = len(nearest), distances[:, -1] + 1e-9
        weights = np.exp(-(distances**2) / (scale[:, None] * scale[nearest]))
        ends = np.arange(0, nearest.size + 1, self.neighbours)
        graph = csr_array((weights.ravel(), nearest.ravel(), ends), shape=(rows, rows))
        graph = graph.maximum(graph.T)
        root = graph.sum(axis=1) ** -0.5
        normalised = diags_array(root) @ graph @ diags_array(root)
        start = np.random.default_rng(0).normal(size=rows)  # an even start would miss parts that are not connected
        values, vectors = eigsh(normalised, k=self.dimensions, which="LA", v0=start)
        places = torch.from_numpy(vectors * np.maximum(values, 0) ** self.power * root[:, None])
        return F.normalize(places, dim=1, eps=1e-300).float()
