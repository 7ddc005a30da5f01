"""Public representations: a space for all rows, learned from public rows without labels."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from nzc import networks
from nzc.data import DataSplits, Embedding
from nzc.data.rows import FileRows, blocks
from nzc.storage.fingerprint import describe, source_digest
from nzc.storage.predictions import PredictionStore
from nzc.training.trainer import TrainerSettings
from nzc.types import AnyArray, Floats
from nzc.validation import Tree

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Placement:
    """Turns rows [rows, ...] into vectors [rows, dimensions], by a network."""

    network: "nn.Module"

    def __call__(self, rows: AnyArray) -> Floats:
        return np.asarray(networks.outputs(self.network, rows))

    def all(self, rows: AnyArray | FileRows) -> Floats:
        """Return the vectors of rows that may lie in a file, of which there is one at least."""
        return np.concatenate([self(block) for block in blocks(rows) if len(block)])


class Encoder(ABC):
    """Learns from public rows how to turn rows into vectors."""

    def takes(self, shape: Sequence[int]) -> bool:
        """Return whether it turns rows of `shape` into vectors; it leaves others as they are."""
        return True

    def check(self, public: AnyArray) -> None:  # noqa: B027 - by default nothing is known to
        """Raise InputError where it cannot learn from public rows [rows, ...]."""

    @abstractmethod
    def fit(self, public: AnyArray, trainer: TrainerSettings) -> Placement:
        """Learn from public rows [rows, ...], which have no labels here."""


class Representation(Encoder):
    """Learns a space from the pool, in which rows to ask are chosen, and teachers may start.

    Nothing private decides the space: where a private record lies depends on that record and the
    public rows only. So a changed record changes what its own teacher sees, and nothing else. A
    subclass is a dataclass.
    """

    def embed(
        self, splits: DataSplits, store: PredictionStore, trainer: TrainerSettings
    ) -> Embedding:
        """Return the places of all private and public rows; they are computed once."""

        def place(_: object) -> AnyArray:
            placement = self.fit(splits.pool, trainer)
            both = (splits.private.x, splits.public.x)
            return np.concatenate([placement.all(rows) for rows in both if len(rows)])

        request: Tree = {
            "data": splits.digest,
            "code": source_digest(type(self).__module__),
            "precision": trainer.precision,
            "device": trainer.device_kind,
        }
        settings: Any = self  # a dataclass
        own = {field.name: getattr(self, field.name) for field in fields(settings)}
        own |= {f"trainer.{name}": value for name, value in trainer.learning.items()}
        request |= describe(own)
        if trainer.deterministic:
            request["deterministic"] = trainer.deterministic
        if splits.labels_only:
            request["joined"] = len(splits.joined)
        places = store.fetch(request, place)
        private = len(splits.private)
        return Embedding(private=places[:private], public=places[private:])
