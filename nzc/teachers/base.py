"""The interface of teachers, and the vote histograms that they produce."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np

from nzc.accounting.data_dependent import gaps
from nzc.data import UNKNOWN, DataSplits
from nzc.mechanisms import Adjacency
from nzc.storage.predictions import PredictionStore
from nzc.training.trainer import TrainerSettings
from nzc.types import AnyArray, Ints

#: What moves at most one vote a query; a teacher where nzc trained nothing.
Unit = Literal["group", "record", "label", "teacher"]
#: The keys of `teachers` in result.json.
SummaryKey = Literal["count", "mean_accuracy", "ensemble_accuracy", "gap_above_2", "gap_above_3"]


@dataclass(frozen=True, repr=False)
class VoteHistograms:
    """Votes of teachers. A row that no teacher has labeled has no votes.

    votes     [rows, classes], private, also in error messages
    teachers  their number; 0 stands for the ground truth, whose votes are one-hot
    truth     true labels [rows] or UNKNOWN; None: none is known
    """

    votes: Ints
    teachers: int
    truth: Ints | None = None

    @property
    def summary(self) -> dict[SummaryKey, float | int | None]:
        """The section `teachers` of result.json; None: not known.

        NZC qualifies queries by gaps above 2 or 3 votes.
        """
        figures: dict[SummaryKey, float | int | None] = dict.fromkeys(get_args(SummaryKey))
        figures["count"] = self.teachers
        has_votes = self.votes.any(axis=1)
        if not self.teachers or not has_votes.any():
            return figures
        gap = gaps(self.votes[has_votes])[:, 0]
        figures["gap_above_2"] = float((gap > 2).mean())
        figures["gap_above_3"] = float((gap > 3).mean())
        if self.truth is None:
            return figures
        measured = has_votes & (self.truth != UNKNOWN)
        if measured.any():
            votes = self.votes[measured]
            truth = self.truth[measured]
            right = votes[np.arange(len(votes)), truth]
            figures["mean_accuracy"] = float(right.mean() / votes.sum(axis=1).mean())
            figures["ensemble_accuracy"] = float((votes.argmax(axis=1) == truth).mean())
        return figures

    @classmethod
    def of_truth(cls, truth: Ints, classes: int) -> "VoteHistograms":
        """Return the truth as one-hot votes of no teacher: the input of GroundTruth."""
        return cls(np.eye(classes, dtype=np.int64)[truth], 0, truth)


class VoteShape(NamedTuple):
    """Votes are [rows, classes], and every row sums to `teachers`."""

    rows: int
    classes: int
    teachers: int


class Teachers(ABC):
    """What every kind of teachers implements. Without a dataset, `splits` are empty."""

    needs_dataset = True  # whether they need a dataset to learn from
    needs_embedding = False  # whether they learn in a public representation
    takes_budgets = False  # whether records may have individual budgets
    labels_asked_only = (
        False  # whether the asked rows must be known before training: no others get labels
    )

    def adjacency(self, labels_only: bool = False) -> Adjacency:
        """Return which vote histograms are neighbours.

        labels_only  whether a record may change in its label only
        """
        return Adjacency()

    def unit(self, splits: DataSplits) -> Unit:
        """Return the unit of privacy."""
        if splits.labels_only:
            return "label"
        if splits.units.groups is not None:
            return "group"
        return "record"

    def neighbours(self, splits: DataSplits) -> str:
        """Return in words when two private datasets are neighbours: one unit of privacy differs.

        The words are the same wherever the same is protected: only then can ε be added.
        """
        if splits.labels_only:
            return (
                "the label of one record differs; the features of all records are public, "
                "and nothing protects them"
            )
        if splits.units.groups is None:
            kept = "" if splits.units.keys is None else ", but keeps its name"
            return f"one record differs{kept}"
        named = ""
        if splits.units.grouped_by:
            named = f" (one value of the {splits.units.grouped_by})"
        return f"all records of one group{named} are replaced by one or more others"

    def counted(self, splits: DataSplits) -> DataSplits:
        """Return the splits with those private records that the teachers use: by default all."""
        return splits

    @abstractmethod
    def check(self, splits: DataSplits) -> VoteShape:
        """Return the shape of the votes. InputError: they cannot learn from these splits."""

    def check_training(  # noqa: B027
        self, splits: DataSplits, store: PredictionStore, trainer: TrainerSettings
    ) -> None:
        """Raise InputError where training would fail, as far as this is known before."""

    def truth(self, splits: DataSplits) -> Ints | None:
        """Return the true labels [rows] of the rows that are voted on; None where none is known."""
        return splits.public.y

    def private_digest(self, splits: DataSplits) -> str:
        """Return the digest by which the ledger identifies the private data."""
        return splits.private_digest

    @abstractmethod
    def train(
        self, splits: DataSplits, store: PredictionStore, trainer: TrainerSettings
    ) -> AnyArray:
        """Return what `vote` counts, once computed: predictions [teachers, rows], or votes."""

    def train_worker(  # noqa: B027
        self, splits: DataSplits, store: PredictionStore, trainer: TrainerSettings
    ) -> None:
        """Train this worker node's share of the teachers; by default there is none."""

    def vote(self, splits: DataSplits, trained: AnyArray) -> VoteHistograms:
        """Return the votes on every row that can be asked; by default `trained` are votes."""
        return VoteHistograms(trained, self.check(splits).teachers, self.truth(splits))
