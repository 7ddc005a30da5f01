"""The interface of teachers, and the vote histograms that they produce."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from nzc.accounting.data_dependent import gaps
from nzc.data import UNKNOWN, DataSplits
from nzc.storage.predictions import PredictionStore
from nzc.training.trainer import TrainerSettings
from nzc.types import AnyArray, Ints

#: The keys of `teachers` in result.json.
SummaryKey = Literal["count", "mean_accuracy", "ensemble_accuracy", "gap_above_2", "gap_above_3"]


@dataclass(frozen=True)
class VoteHistograms:
    """Private votes [rows, classes] of `teachers` teachers, and the true labels [rows] where they are known.

    A row that no teacher has labelled has no votes; no figure counts it.

    teachers  0 stands for the ground truth, whose votes are one-hot
    truth     UNKNOWN for a row whose class is not known; None: no row's class is known
    """

    votes: Ints = field(repr=False)  # private, also in error messages
    teachers: int
    truth: Ints | None = field(default=None, repr=False)

    @property
    def mean_accuracy(self) -> float | None:
        """Mean accuracy of one teacher."""
        votes, truth = self._known
        return float(votes[np.arange(len(votes)), truth].mean() / self.teachers) if len(votes) else None

    @property
    def ensemble_accuracy(self) -> float | None:
        """Accuracy of the plurality without noise ("clean votes")."""
        votes, truth = self._known
        return float((votes.argmax(axis=1) == truth).mean()) if len(votes) else None

    @property
    def _known(self) -> tuple[Ints, Ints]:
        if self.truth is None or self.teachers == 0:
            return self.votes[:0], np.zeros(0, np.int64)
        known = (self.truth != UNKNOWN) & self.votes.any(axis=1)
        return self.votes[known], self.truth[known]

    @property
    def summary(self) -> dict[SummaryKey, float | int | None]:
        """The section `teachers` of result.json; rows whose gap exceeds 2 or 3 votes are NZC's qualified queries."""
        gap = gaps(self.votes[self.votes.any(axis=1)])[:, 0] if self.teachers else None
        return {
            "count": self.teachers,
            "mean_accuracy": self.mean_accuracy,
            "ensemble_accuracy": self.ensemble_accuracy,
            "gap_above_2": None if gap is None else float((gap > 2).mean()),
            "gap_above_3": None if gap is None else float((gap > 3).mean()),
        }

    @classmethod
    def of_truth(cls, truth: Ints, classes: int) -> "VoteHistograms":
        """Return the truth as one-hot votes of no teacher: the input of GroundTruth."""
        return cls(np.eye(classes, dtype=np.int64)[truth], 0, truth)


class VoteShape(NamedTuple):
    """Votes are [rows, classes], and every row sums to `teachers`."""

    rows: int
    classes: int
    teachers: int


#: What moves at most one vote a query: all records of one group, one record, or, where nzc trained nothing, a teacher.
Unit = Literal["group", "record", "teacher"]


class Teachers(ABC):
    """What every kind of teachers implements."""

    #: Whether they need a dataset to learn from.
    needs_dataset = True
    #: Whether they learn in a public representation.
    needs_embedding = False
    #: On how many queries of a round one unit of privacy moves a vote at most; None: on all.
    moved_queries: int | None = None
    #: Whether they label only the rows that are asked. These must be known before they are trained.
    labels_asked_only = False

    def __post_init__(self) -> None:  # noqa: B027
        """Check nothing; subclasses may check more."""

    @abstractmethod
    def unit(self, splits: DataSplits | None) -> Unit:
        """Return the unit of privacy."""

    @abstractmethod
    def neighbours(self, splits: DataSplits | None) -> str:
        """Return in words when two private datasets are neighbours: one unit of privacy differs."""

    @abstractmethod
    def check(self, splits: DataSplits | None) -> VoteShape:
        """Return the shape of the votes. InputError: the teachers cannot learn from these splits."""

    def check_training(self, splits: DataSplits, store: PredictionStore, trainer: TrainerSettings) -> None:  # noqa: B027
        """Raise InputError where training would fail; by default nothing is known to."""

    @abstractmethod
    def truth(self, splits: DataSplits | None) -> Ints | None:
        """Return the true labels [rows] of the rows that are voted on; None where none is known."""

    @abstractmethod
    def private_digest(self, splits: DataSplits | None) -> str:
        """Return the digest by which the ledger identifies the private data."""

    @abstractmethod
    def train(self, splits: DataSplits | None, store: PredictionStore, trainer: TrainerSettings) -> AnyArray:
        """Return what `vote` counts: private predictions [teachers, rows], or votes. They are computed once."""

    def train_worker(self, splits: DataSplits | None, store: PredictionStore, trainer: TrainerSettings) -> None:  # noqa: B027
        """Train this worker node's share of the teachers; by default there is none."""

    @abstractmethod
    def vote(self, splits: DataSplits | None, trained: AnyArray) -> VoteHistograms:
        """Return every teacher's vote on every row that can be asked."""
