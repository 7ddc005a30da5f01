"""Records as teachers: each votes with its own class, for the asked row that it is nearest to, and
for no other.
"""

from dataclasses import dataclass, replace

import numpy as np

from nzc.data import UNKNOWN, DataSplits
from nzc.data.hashing import draw_by_key
from nzc.data.splits import Records
from nzc.mechanisms import OwnCells, OwnLabels
from nzc.settings import Count, CountOrZero
from nzc.storage.predictions import PredictionStore
from nzc.teachers.base import Teachers, VoteShape
from nzc.training.trainer import TrainerSettings
from nzc.types import AnyArray, Floats, Ints
from nzc.validation import InputError


@dataclass(frozen=True, kw_only=True)
class Cells(Teachers):
    """The asked rows divide the public representation into cells; votes are counts of the private
    records in a cell.
    """

    per_group: Count = (
        1  # so many records of a group count at most; they are drawn by its name and size
    )
    seed: CountOrZero = 0

    needs_embedding = True
    takes_budgets = True
    labels_asked_only = True

    def adjacency(self, labels_only: bool = False) -> OwnCells:
        return (OwnLabels if labels_only else OwnCells)(self.per_group)

    def check(self, splits: DataSplits | None) -> VoteShape:
        assert splits is not None
        if splits.groups is None and self.per_group > 1:
            raise InputError(
                "per_group", self.per_group, "must be 1 where the dataset has no groups"
            )
        return VoteShape(len(splits.public), splits.classes, splits.units * self.per_group)

    def counted(self, splits: DataSplits) -> DataSplits:
        """Return the splits with `per_group` records of each group, filled up with unknown ones, so
        that the number of
        records does not tell how many a group has, not even by how a processor rounds.
        """
        if splits.groups is None:
            return splits
        names, first, sizes = np.unique(
            np.sort(splits.groups), return_index=True, return_counts=True
        )
        draws, numbers = draw_by_key(names, self.seed, 6), np.arange(self.per_group)
        places = (draws % sizes.astype(np.uint64)).astype(np.int64)[:, None] + numbers
        rows = np.argsort(splits.groups, kind="stable")[first[:, None] + places % sizes[:, None]]
        labels = np.where(numbers < sizes[:, None], splits.private.y[rows], UNKNOWN)
        chosen = Records(splits.private.x[rows.ravel()], labels.ravel())
        own = None if splits.weights is None else splits.weights[rows.ravel()]
        return replace(
            splits, private=chosen, groups=np.repeat(names, self.per_group), keys=None, weights=own
        )

    def train(
        self, splits: DataSplits | None, store: PredictionStore, trainer: TrainerSettings
    ) -> AnyArray:
        """Return how many records of each class are nearest to each public row, [rows, classes]; 0
        where not asked.
        """
        assert splits is not None and splits.embedding is not None
        places, labels = splits.embedding, splits.private.y
        counts = np.zeros((len(splits.public), splits.classes), np.int64)
        home = splits.to_label[nearest(places.private, places.public[splits.to_label])]
        times = np.ones(len(labels), np.int64) if splits.weights is None else splits.weights
        np.add.at(counts, (home, labels), times * (labels != UNKNOWN))
        return counts


def nearest(places: Floats, to: Floats) -> Ints:
    """Return for each of `places` the number of the nearest of `to`; 20 million distances at a
    time.
    """
    lengths, chunk = (to**2).sum(axis=1), max(1, 20_000_000 // len(to))
    parts = [places[start : start + chunk] for start in range(0, len(places), chunk)]
    return np.concatenate([(lengths - 2 * part @ to.T).argmin(axis=1) for part in parts])
