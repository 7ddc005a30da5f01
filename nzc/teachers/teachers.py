"""The interface of an ensemble, and what it hands on."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nzc._types import AnyArray, Ints
from nzc.datasets import UNKNOWN, Roles
from nzc.privacy.theorem import gaps
from nzc.store import Store
from nzc.training import Training


@dataclass(frozen=True)
class Ballots:
    """Votes [queries, classes] of `count` teachers; truth [queries], UNKNOWN where nobody knows. Votes are private."""

    votes: Ints
    count: int
    truth: Ints | None = None

    @property
    def mean_accuracy(self) -> float | None:
        """How often a teacher is right, on average over teachers and rows."""
        votes, truth = self._known
        return float(votes[np.arange(len(votes)), truth].mean() / self.count) if len(votes) else None

    @property
    def ensemble_accuracy(self) -> float | None:
        """How often the plurality is right ("clean votes")."""
        votes, truth = self._known
        return float((votes.argmax(axis=1) == truth).mean()) if len(votes) else None

    @property
    def _known(self) -> tuple[Ints, Ints]:
        """The votes on rows whose truth is known, and that truth; none where nobody voted."""
        if self.truth is None or self.count == 0:
            return self.votes[:0], np.zeros(0, np.int64)
        known = self.truth != UNKNOWN
        return self.votes[known], self.truth[known]

    def gap_above(self, votes: int) -> float | None:
        """The share of rows whose largest count is more than `votes` above the second: NZC's qualified queries."""
        return float((gaps(self.votes)[:, 0] > votes).mean()) if self.count else None

    @property
    def summary(self) -> dict[str, float | int | None]:
        """What a report says of the teachers."""
        return {
            "count": self.count,
            "mean_accuracy": self.mean_accuracy,
            "ensemble_accuracy": self.ensemble_accuracy,
            "gap_above_2": self.gap_above(2),
            "gap_above_3": self.gap_above(3),
        }

    @classmethod
    def tally(cls, predictions: AnyArray, classes: int, truth: Ints) -> "Ballots":
        """Count predictions [teachers, queries]."""
        votes = np.stack([(predictions == label).sum(axis=0) for label in range(classes)], axis=1)
        return cls(votes.astype(np.int64), len(predictions), truth)

    @classmethod
    def of_truth(cls, truth: Ints, classes: int) -> "Ballots":
        """The truth as a single vote a row, by nobody: what GroundTruth answers with."""
        return cls(np.eye(classes, dtype=np.int64)[truth], 0, truth)


class Size(NamedTuple):
    """The size of an ensemble's votes: [rows, classes], every row summing to `teachers`."""

    rows: int
    classes: int
    teachers: int


class Teachers(ABC):
    """What a file of this folder implements."""

    @abstractmethod
    def check(self, roles: Roles | None) -> Size:
        """How many rows, classes and teachers there will be; InputError where these roles will not do."""

    @abstractmethod
    def truth(self, roles: Roles | None) -> Ints | None:
        """The true labels of those rows, UNKNOWN where nobody knows; None without any."""

    @abstractmethod
    def learnt_from(self, roles: Roles | None) -> str:
        """A fingerprint of the private data: by it the ledger knows whose privacy was spent."""

    @abstractmethod
    def train(self, roles: Roles | None, store: Store, training: Training) -> AnyArray:
        """What `vote` counts, private: predictions [teachers, rows] or votes [rows, classes]. Never made twice."""

    def help(self, roles: Roles | None, store: Store, training: Training) -> None:
        """What another node does while the first one trains: nothing, where these are not trained by several."""
        return None

    @abstractmethod
    def vote(self, roles: Roles | None, trained: AnyArray) -> Ballots:
        """Every teacher's vote on every row that can be asked about."""
