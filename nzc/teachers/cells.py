"""Records as teachers: each votes with its own class, and for the nearest asked row alone."""

from dataclasses import dataclass, replace

import numpy as np

from nzc.data import UNKNOWN, DataSplits
from nzc.data.hashing import draw_by_key
from nzc.data.splits import Records
from nzc.mechanisms import OwnCells, OwnLabels
from nzc.settings import Count, CountOrZero
from nzc.storage.predictions import PredictionStore
from nzc.streams import Stream
from nzc.teachers.base import Teachers, VoteShape
from nzc.training.trainer import TrainerSettings
from nzc.types import AnyArray, Floats, Ints
from nzc.validation import InputError


@dataclass(frozen=True, kw_only=True)
class Cells(Teachers):
    """The asked rows divide the public representation into cells; votes count the records of each.

    per_group  how many records of a group count at most; they are drawn by its name and size
    """

    per_group: Count = 1
    seed: CountOrZero = 0

    needs_embedding = True
    takes_budgets = True
    labels_asked_only = True

    def adjacency(self, labels_only: bool = False) -> OwnCells:
        if labels_only:
            return OwnLabels(self.per_group)
        return OwnCells(self.per_group)

    def check(self, splits: DataSplits) -> VoteShape:
        if splits.units.groups is None and self.per_group > 1:
            raise InputError(
                "per_group", self.per_group, "must be 1 where the dataset has no groups"
            )
        return VoteShape(len(splits.public), splits.classes, splits.unit_count * self.per_group)

    def counted(self, splits: DataSplits) -> DataSplits:
        """Return the splits with `per_group` records of each group, filled up with unknown ones.

        So the number of records does not tell how many a group has, not even by how a processor
        rounds.
        """
        if splits.units.groups is None:
            return splits
        names, first, sizes = np.unique(
            np.sort(splits.units.groups), return_index=True, return_counts=True
        )
        draws = draw_by_key(names, self.seed, Stream.GROUPS)
        start = (draws % sizes.astype(np.uint64)).astype(np.int64)
        numbers = np.arange(self.per_group)
        places = (start[:, None] + numbers) % sizes[:, None]  # [groups, per_group], in the group
        rows = np.argsort(splits.units.groups, kind="stable")[first[:, None] + places]
        labels = np.where(numbers < sizes[:, None], splits.private.y[rows], UNKNOWN)
        rows = rows.ravel()
        weights = splits.units.weights
        units = replace(
            splits.units,
            groups=np.repeat(names, self.per_group),
            keys=None,
            weights=None if weights is None else weights[rows],
        )
        return replace(splits, private=Records(splits.private.x[rows], labels.ravel()), units=units)

    def train(
        self, splits: DataSplits, store: PredictionStore, trainer: TrainerSettings
    ) -> AnyArray:
        """Return how many records of each class are nearest to each asked row, [rows, classes]."""
        assert splits.embedding is not None
        labels = splits.private.y
        asked = splits.embedding.public[splits.to_label]
        home = splits.to_label[nearest(splits.embedding.private, asked)]
        times = (labels != UNKNOWN).astype(np.int64)
        if splits.units.weights is not None:
            times *= splits.units.weights
        counts = np.zeros((len(splits.public), splits.classes), np.int64)
        np.add.at(counts, (home, labels), times)
        return counts


def nearest(places: Floats, to: Floats) -> Ints:
    """Return the number of the nearest of `to` for each of `places`, in chunks of little memory."""
    lengths = (to**2).sum(axis=1)
    chunk = max(1, 20_000_000 // len(to))  # so that 20 million distances are held
    parts = np.array_split(places, range(chunk, len(places), chunk))
    return np.concatenate([(lengths - 2 * part @ to.T).argmin(axis=1) for part in parts])
