"""Diffusion map of the public rows: rows that many short paths join lie close together. Vectors may stand beside it."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nzc.data import DataSplits, Embedding
from nzc.data.images import is_image
from nzc.networks import as_input
from nzc.representation.base import Encoder, Placement, Representation
from nzc.representation.clusters import CLEAR, UNCLEAR, clarity
from nzc.settings import Count, CountOrZero, NotNegative, Share, TwoOrMore
from nzc.storage.predictions import PredictionStore
from nzc.training.trainer import TrainerSettings
from nzc.types import AnyArray, Floats, Ints
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
        encode = _flat if encoder is None else encoder.fit(public, trainer)
        share = 1.0 if encoder is None and is_image(public.shape[1:]) else self.share
        if share == 0:
            return encode
        vectors = encode(public)
        copies = [] if encoder is not None else [encode(rows) for rows in self._copies(public)]
        mapped = self._map(np.concatenate([vectors, *copies]), len(public))
        if share == 1:
            return lambda rows: mapped(encode(rows))
        scales = [
            np.sqrt(part / max(places.var(axis=0).sum(), 1e-12))
            for part, places in ((share, mapped(vectors)), (1 - share, vectors))
        ]

        def place(rows: AnyArray) -> Floats:
            vectors = encode(rows)
            return np.hstack([scales[0] * mapped(vectors), scales[1] * vectors]).astype(np.float32)

        return place

    def _map(self, vectors: Floats, public: int) -> Placement:
        """Return what maps vectors to places, given those of so many public rows, and of all copies of them after."""
        from sklearn.neighbors import NearestNeighbors

        several = (self.neighbours + 1) * (len(vectors) // public)  # all copies of a few rows may come first
        index = NearestNeighbors(n_neighbors=several, algorithm="brute").fit(vectors)

        def nearest_rows(vectors: Floats, others_only: bool = False) -> tuple[Floats, AnyArray]:
            distances, copies = index.kneighbors(vectors)
            own = np.arange(len(vectors)) if others_only else np.full(len(vectors), -1)
            return _firsts(distances, copies % public, own, self.neighbours)

        places = self._places(*nearest_rows(vectors[:public], others_only=True))

        def place(vectors: Floats) -> Floats:
            distances, nearest = nearest_rows(vectors)
            weights = np.exp(-((distances / np.maximum(distances[:, :1], 1e-3)) ** 2))
            return _unit((places[nearest] * weights[:, :, None]).sum(axis=1))

        return place

    def _encoder(self, public: AnyArray) -> Encoder | None:
        return self.encoder if self.encoder is not None and self.encoder.takes(public.shape[1:]) else None

    def _copies(self, public: AnyArray) -> list[AnyArray]:
        """Return the public rows augmented, as often as there are copies."""
        if self.augment is None or self.copies == 0:
            return []
        import torch

        rng, rows = torch.Generator().manual_seed(0), as_input(torch.from_numpy(public))
        copies = [self.augment(rows, rng).numpy() for _ in range(self.copies)]
        return [] if np.array_equal(copies[0], rows) else copies

    def _places(self, distances: Floats, nearest: AnyArray) -> Floats:
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
        return _unit(vectors * np.maximum(values, 0) ** self.power * root[:, None])


def _firsts(distances: Floats, rows: AnyArray, own: Ints, count: int) -> tuple[Floats, AnyArray]:
    """Return the first `count` different numbers of `rows` [rows, several] but `own` [rows], and their distances."""
    kept = np.empty((len(rows), count), np.int64)
    for row, (these, self_) in enumerate(zip(rows, own, strict=True)):
        places = np.sort(np.unique(these, return_index=True)[1])
        kept[row] = places[these[places] != self_][:count]
    return np.take_along_axis(distances, kept, axis=1), np.take_along_axis(rows, kept, axis=1)


def _flat(rows: AnyArray) -> Floats:
    """Return rows as float32 vectors; image bytes become numbers from 0 to 1."""
    flat = rows.reshape(len(rows), -1).astype(np.float32)
    return np.asarray(flat / 255 if rows.dtype == np.uint8 else flat)


def _unit(vectors: Floats) -> Floats:
    """Return vectors [rows, dimensions] scaled to length 1, as float32."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(length, 1e-300), np.float32)
