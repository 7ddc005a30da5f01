"""Teachers without training: each votes like the nearest record of its shard, in a public representation."""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from nzc.data import DataSplits, Embedding
from nzc.storage.fingerprint import source_digest
from nzc.teachers.base import VoteShape
from nzc.teachers.sharded import ShardedTeachers, without_records
from nzc.training.trainer import TrainerSettings
from nzc.types import AnyArray, Ints
from nzc.validation import InputError

#: Distances that are computed at once.
_AT_ONCE = 20_000_000


@dataclass(frozen=True, kw_only=True)
class Neighbours(ShardedTeachers):
    """`count` nearest-neighbour classifiers. Thousands of them cost seconds, and a dozen records make one good.

    A vote depends on one shard's records and on public rows only, so one record moves at most one vote a query.
    """

    needs_embedding = True

    def check(self, splits: DataSplits | None) -> VoteShape:
        if self.unit(splits) == "group":
            # A group with more or fewer records changes the shape of products, and so the rounding of all places.
            allowed = "must be other teachers where the dataset has groups (or, for dataset=npz, dataset.unit=record)"
            raise InputError("_target_", type(self).__name__, allowed)
        return super().check(splits)

    def request(self, splits: DataSplits, trainer: TrainerSettings) -> dict[str, Any]:
        embedding = _embedding(splits)
        return {
            "embedding": sha256(embedding.private.tobytes() + embedding.public.tobytes()).hexdigest(),
            "code": source_digest(__name__, "nzc.teachers.sharded", "nzc.data.hashing", follow=False),
        }

    def teach(self, splits: DataSplits, trainer: TrainerSettings, work: Path) -> AnyArray:
        shards = self.shards(splits)
        most = max(map(len, shards))
        # A shorter shard is filled up with a record that is infinitely far away: the one behind the last.
        none = len(splits.private)
        rows = np.array([np.pad(shard, (0, most - len(shard)), constant_values=none) for shard in shards])
        labels = np.append(splits.private.y, 0).astype(np.min_scalar_type(splits.classes))
        return np.concatenate(list(self._predictions(splits, rows, labels)), axis=1)

    def _predictions(self, splits: DataSplits, shards: Ints, labels: AnyArray) -> Iterator[AnyArray]:
        """Yield predictions [teachers, some rows]; `shards` are row numbers [teachers, records]."""
        embedding, rows = _embedding(splits), splits.to_label
        lengths, teachers = (embedding.private**2).sum(axis=1), np.arange(len(shards))
        own = without_records(len(shards), splits.classes).astype(labels.dtype)
        chunk = max(1, _AT_ONCE // len(lengths))
        for start in range(0, len(rows), chunk):
            places = embedding.public[rows[start : start + chunk]]
            distances = lengths - 2 * places @ embedding.private.T  # squared, less the row's own squared length
            distances = np.pad(distances, ((0, 0), (0, 1)), constant_values=np.inf)
            nearest = shards[teachers, distances[:, shards].argmin(axis=2)]  # [some rows, teachers]
            lacks = np.isposinf(np.take_along_axis(distances, nearest, axis=1))
            yield np.where(lacks, own, labels[nearest]).T


def _embedding(splits: DataSplits) -> Embedding:
    assert splits.embedding is not None
    return splits.embedding
