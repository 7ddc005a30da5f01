"""Teachers without training: each votes like the nearest record of its shard, in a public representation."""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from nzc.data import DataSplits, Embedding
from nzc.teachers.base import VoteShape
from nzc.teachers.fingerprint import source_digest
from nzc.teachers.sharded import ShardedTeachers
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
            allowed = "must be other teachers where the dataset has groups; or dataset.unit=record"
            raise InputError("_target_", type(self).__name__, allowed)
        return super().check(splits)

    def request(self, splits: DataSplits, trainer: TrainerSettings) -> dict[str, Any]:
        embedding = _embedding(splits)
        return {
            "data": splits.digest,
            "embedding": sha256(embedding.private.tobytes() + embedding.public.tobytes()).hexdigest(),
            "code": source_digest(__name__, "nzc.teachers.sharded", follow=False),
            "count": self.count,
            "seed": self.seed,
            "stratify": self.stratify,
        }

    def teach(self, splits: DataSplits, trainer: TrainerSettings, work: Path) -> AnyArray:
        shards = self.shards(splits)
        most = max(map(len, shards))
        # A shorter shard repeats its first record.
        rows = np.array([np.pad(shard, (0, most - len(shard)), constant_values=shard[0]) for shard in shards])
        return np.concatenate(list(_predictions(_embedding(splits), rows, splits.private.y)), axis=1)


def _predictions(embedding: Embedding, shards: Ints, labels: Ints) -> Iterator[AnyArray]:
    """Yield predictions [teachers, some public rows]; `shards` are row numbers [teachers, records]."""
    lengths = (embedding.private**2).sum(axis=1)
    chunk = max(1, _AT_ONCE // len(lengths))
    for start in range(0, len(embedding.public), chunk):
        distances = lengths - 2 * embedding.public[start : start + chunk] @ embedding.private.T
        nearest = distances[:, shards].argmin(axis=2)  # [some public rows, teachers]
        yield labels[shards[np.arange(len(shards)), nearest]].T


def _embedding(splits: DataSplits) -> Embedding:
    assert splits.embedding is not None
    return splits.embedding
