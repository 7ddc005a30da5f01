"""Teachers without training: each votes like the nearest record of its shard, in a public representation."""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from nzc.data import DataSplits
from nzc.teachers.base import VoteShape
from nzc.teachers.cells import nearest
from nzc.teachers.sharded import ShardedTeachers, without_records
from nzc.training.trainer import TrainerSettings
from nzc.types import AnyArray
from nzc.validation import InputError


@dataclass(frozen=True, kw_only=True)
class Neighbours(ShardedTeachers):
    """`count` nearest-neighbour classifiers. Thousands of them cost seconds, and a dozen records make one good.

    A vote depends on one shard's records and on public rows only, so one record moves at most one vote a query.
    """

    needs_embedding = True
    code = (__name__, "nzc.teachers.cells", *ShardedTeachers.code)

    def check(self, splits: DataSplits | None) -> VoteShape:
        if self.unit(splits) == "group":
            # A group with more or fewer records changes the shape of products, and so the rounding of all places.
            allowed = "must be other teachers where the dataset has groups (or, for dataset=npz, dataset.unit=record)"
            raise InputError("_target_", type(self).__name__, allowed)
        return super().check(splits)

    def request(self, splits: DataSplits, trainer: TrainerSettings) -> dict[str, Any]:
        assert splits.embedding is not None
        places = splits.embedding.private.tobytes() + splits.embedding.public.tobytes()
        return {"embedding": sha256(places).hexdigest(), **super().request(splits, trainer)}

    def teach(self, splits: DataSplits, trainer: TrainerSettings, work: Path) -> AnyArray:
        assert splits.embedding is not None
        private, public = splits.embedding.private, splits.embedding.public[splits.to_label]
        shards, labels = self.shards(splits), splits.private.y.astype(np.min_scalar_type(splits.classes))
        predictions = np.empty((len(shards), len(public)), labels.dtype)
        for teacher, alone in enumerate(without_records(len(shards), splits.classes)):
            shard = shards[teacher]
            predictions[teacher] = labels[shard][nearest(public, private[shard])] if len(shard) else alone
        return predictions
