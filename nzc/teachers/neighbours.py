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
from nzc.types import AnyArray, Floats, Ints
from nzc.validation import InputError

#: Distances that are computed at once.
_AT_ONCE = 20_000_000


@dataclass(frozen=True, kw_only=True)
class Neighbours(ShardedTeachers):
    """`count` nearest-neighbour classifiers. Thousands of them cost seconds, and a dozen records make one good.

    A vote depends on one shard's records and on public rows only, so one record moves at most one vote a query.

    cells  a record counts only for the asked row that it is nearest to; a teacher without such a record votes for the
           class of its own number. A record that changes then moves a vote on two queries at most: it leaves one row's
           votes and joins another's
    """

    cells: bool
    needs_embedding = True

    @property
    def moved_queries(self) -> int | None:  # type: ignore[override]
        return 2 if self.cells else None

    @property
    def labels_asked_only(self) -> bool:  # type: ignore[override]
        return self.cells or super().labels_asked_only

    def check(self, splits: DataSplits | None) -> VoteShape:
        if self.unit(splits) == "group":
            # A group with more or fewer records changes the shape of products, and so the rounding of all places.
            allowed = "must be other teachers where the dataset has groups; or dataset.unit=record"
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
        home = rows[_nearest(embedding.private, embedding.public[rows])] if self.cells else None  # [records]
        for start in range(0, len(rows), chunk):
            places = embedding.public[rows[start : start + chunk]]
            distances = lengths - 2 * places @ embedding.private.T  # squared, less the row's own squared length
            if home is not None:
                distances[rows[start : start + chunk, None] != home] = np.inf
            distances = np.pad(distances, ((0, 0), (0, 1)), constant_values=np.inf)
            nearest = shards[teachers, distances[:, shards].argmin(axis=2)]  # [some rows, teachers]
            lacks = np.isposinf(np.take_along_axis(distances, nearest, axis=1))
            yield np.where(lacks, own, labels[nearest]).T


def _nearest(places: Floats, to: Floats) -> Ints:
    """Return for each of `places` the number of the nearest of `to`."""
    lengths, chunk = (to**2).sum(axis=1), max(1, _AT_ONCE // len(to))
    parts = [places[start : start + chunk] for start in range(0, len(places), chunk)]
    return np.concatenate([(lengths - 2 * part @ to.T).argmin(axis=1) for part in parts])


def _embedding(splits: DataSplits) -> Embedding:
    assert splits.embedding is not None
    return splits.embedding
