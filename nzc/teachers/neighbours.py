"""Records as teachers: the nearest records of a secret random sample vote with their classes."""

from dataclasses import dataclass

import numpy as np

from nzc.data import DataSplits
from nzc.mechanisms.adjacency import Sampled
from nzc.settings import Count, Share
from nzc.storage.predictions import PredictionStore
from nzc.teachers.base import Task, Teachers
from nzc.teachers.sharded import without_records
from nzc.training.trainer import TrainerSettings
from nzc.types import AnyArray
from nzc.validation import InputError, positive, whole


@dataclass(frozen=True, kw_only=True)
class Neighbours(Teachers):
    """Private-kNN (Zhu, Yu, Chandraker and Wang 2020): the nearest `count` of a sample vote.

    A replaced record moves at most one vote, and none where it is not in the sample
    (`accounting.sampling`).

    sampling  probability of each record to be in the sample of a query; who is in it is secret
    """

    count: Count
    sampling: Share

    needs_places = True
    labels_asked_only = True

    def adjacency(self, labels_only: bool = False) -> Sampled:
        return Sampled(self.sampling)

    def check(self, splits: DataSplits) -> Task:
        if splits.unit == "group":  # several of its records may vote
            raise InputError(
                "_target_",
                type(self).__name__,
                "must be other teachers where the dataset has groups "
                "(or, for dataset=npz, dataset.unit=record)",
            )
        positive("sampling", self.sampling)
        whole(
            "count",
            self.count,
            1,
            max(1, int(splits.unit_count * self.sampling)),
            "(the expected size of a sample)",
        )
        return Task.of(splits, self.count)

    def train(
        self, splits: DataSplits, store: PredictionStore, trainer: TrainerSettings
    ) -> AnyArray:
        """Return the votes [rows, classes] on the asked rows.

        Votes that a sample lacks have fixed classes.
        """
        from randomgen import ChaCha

        assert splits.embedding is not None
        assert splits.coins is not None or self.sampling == 1
        key = 0 if splits.coins is None else int.from_bytes(splits.coins.tobytes(), "little")
        rng = np.random.Generator(ChaCha(key=key, rounds=20))
        labels = splits.private.y
        fixed = without_records(self.count, splits.classes)
        votes = np.zeros((len(splits.public), splits.classes), np.int64)
        for row in splits.to_label:
            sample = np.flatnonzero(rng.random(len(labels)) < self.sampling)
            apart = splits.embedding.private[sample] - splits.embedding.public[row]
            distances = (apart**2).sum(axis=1)
            # Stable: the first of equally near ones.
            nearest = sample[distances.argsort(kind="stable")[: self.count]]
            voted = np.append(labels[nearest], fixed[len(nearest) :])
            votes[row] = np.bincount(voted, minlength=splits.classes)
        return votes
