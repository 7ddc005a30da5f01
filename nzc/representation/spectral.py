"""Diffusion map of the public rows: rows that many short paths join lie close together."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nzc.networks import as_input
from nzc.representation.base import Encoder, Placement, Representation
from nzc.settings import Count, CountOrZero, NotNegative, TwoOrMore
from nzc.training.trainer import TrainerSettings
from nzc.types import AnyArray, Floats, Ints
from nzc.validation import whole


@dataclass(frozen=True, kw_only=True)
class Spectral(Representation):
    """Eigenvectors of the nearest-neighbour graph of the public rows (Coifman and Lafon 2006, "Diffusion maps").

    Edges weigh exp(−d²/(s s′)), s being a row's distance to its last neighbour (Zelnik-Manor and Perona 2004). A row
    that is not public lies at the weighted mean of its nearest public rows. All places have length 1.

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
    copies: CountOrZero = 0
    augment: Callable[..., Any] | None = None

    def check(self, public: AnyArray) -> None:
        whole(2, len(public) - 2, "(the public rows, less 2)", **{"representation.dimensions": self.dimensions})
        whole(1, len(public) - 1, "(the other public rows)", **{"representation.neighbours": self.neighbours})
        if (encoder := self._encoder(public)) is not None:
            encoder.check(public)

    def fit(self, public: AnyArray, trainer: TrainerSettings) -> Placement:
        from sklearn.neighbors import NearestNeighbors

        self.check(public)
        encoder = self._encoder(public)
        encode = _flat if encoder is None else encoder.fit(public, trainer)
        vectors = np.concatenate([encode(rows) for rows in ([public] if encoder else self._with_copies(public))])
        several = (self.neighbours + 1) * (len(vectors) // len(public))  # all copies of a few rows may come first
        index = NearestNeighbors(n_neighbors=several, algorithm="brute").fit(vectors)

        def nearest_rows(rows: AnyArray, others_only: bool = False) -> tuple[Floats, AnyArray]:
            distances, copies = index.kneighbors(encode(rows))
            own = np.arange(len(rows)) if others_only else np.full(len(rows), -1)
            return _firsts(distances, copies % len(public), own, self.neighbours)

        places = self._places(*nearest_rows(public, others_only=True))

        def place(rows: AnyArray) -> Floats:
            distances, nearest = nearest_rows(rows)
            weights = np.exp(-((distances / np.maximum(distances[:, :1], 1e-3)) ** 2))
            return _unit((places[nearest] * weights[:, :, None]).sum(axis=1))

        return place

    def _encoder(self, public: AnyArray) -> Encoder | None:
        return self.encoder if self.encoder is not None and self.encoder.takes(public.shape[1:]) else None

    def _with_copies(self, public: AnyArray) -> list[AnyArray]:
        """Return the public rows, and as often as there are copies, all of them augmented."""
        if self.augment is None or self.copies == 0:
            return [public]
        import torch

        rng, rows = torch.Generator().manual_seed(0), as_input(torch.from_numpy(public))
        copies = [self.augment(rows, rng).numpy() for _ in range(self.copies)]
        return [public] if np.array_equal(copies[0], rows) else [public, *copies]

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
