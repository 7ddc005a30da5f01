"""Votes from a file: account for an ensemble that was trained elsewhere."""

from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

import numpy as np

from nzc.data import DataSplits
from nzc.data.rows import load_array
from nzc.mechanisms import Abstentions, Adjacency
from nzc.mechanisms.votes import as_votes
from nzc.protocols.task import Task
from nzc.protocols.votes import Teachers
from nzc.ranges import Count
from nzc.storage.predictions import PredictionStore
from nzc.training.trainer import TrainerSettings
from nzc.types import AnyArray, Ints
from nzc.validation import InputError


@dataclass(frozen=True)
class VoteFile(Teachers):
    """Histograms [queries, classes] in an .npy file; every row sums to the number of teachers.

    With a dataset, row i belongs to public row i. Where the dataset is one file (npz, folder) and
    there are votes for all of its rows, row i belongs to row i of that file. Without a dataset,
    `labels` [queries] may hold the truth.

    count  number of teachers, where some abstained on some rows; None: all voted on every row
    """

    path: str
    labels: str | None = None
    count: Count | None = None

    def adjacency(self, labels_only: bool = False) -> Adjacency:
        return Adjacency() if self.count is None else Abstentions(self.count)

    def require(self, splits: DataSplits, name: str) -> None:
        """Ask for no records: the votes are here."""

    @cached_property
    def _votes(self) -> Ints:
        votes = load_array(self.path, "path")
        try:
            return as_votes(votes, teachers=self.count, state="teachers.count=NUMBER")
        except InputError as error:
            raise InputError("path", self.path, error.allowed) from error

    @cached_property
    def _labels(self) -> Ints | None:
        if self.labels is None:
            return None
        labels = load_array(self.labels, "labels")
        rows, classes = self._votes.shape
        if labels.shape != (rows,) or not np.isin(labels, np.arange(classes)).all():
            raise InputError(
                "labels",
                self.labels,
                f"must hold {rows:,} whole numbers from 0 to {classes - 1}, one per row of votes",
            )
        return labels.astype(np.int64)

    def check(self, splits: DataSplits) -> Task:
        rows, classes = self._on_public(splits).shape
        if splits.labels_only:
            raise InputError(
                "path",
                self.path,
                "must not be given with dataset.unit=label: the labels behind the votes are "
                "unknown",
            )
        if not splits.is_empty and classes != splits.classes:
            raise InputError(
                "path",
                self.path,
                f"must have the dataset's {splits.classes} classes, not {classes}",
            )
        truth = self._labels
        if not splits.is_empty:
            truth = splits.public.y[:rows]
        differs = "one teacher votes differently"
        if self.count is not None:
            differs += ", or abstains on other rows"
        return Task(
            rows=rows,
            classes=classes,
            voters=self.count or int(self._votes[:1].sum()),
            unit="teacher",
            neighbours=f"{differs}; the votes are from a file, and nzc has not seen which records "
            "made them",
            digest=sha256(self._votes.tobytes()).hexdigest(),
            truth=truth,
        )

    def train(
        self, splits: DataSplits, store: PredictionStore, trainer: TrainerSettings
    ) -> AnyArray:
        return self._on_public(splits)

    def _on_public(self, splits: DataSplits) -> Ints:
        """Return the votes on the rows that can be asked."""
        if splits.is_empty:
            return self._votes
        rows = len(splits.private) + len(splits.public) + len(splits.test)
        if splits.file_rows is not None and len(self._votes) >= rows:
            return self._votes[splits.file_rows]
        return self._votes[: len(splits.public)]
