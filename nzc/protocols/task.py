"""What there is to ask of private records, and the vote histograms that answer it."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from nzc.accounting.data_dependent import gaps
from nzc.data import UNKNOWN, DataSplits
from nzc.data.splits import Unit
from nzc.types import Ints

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


@dataclass(frozen=True, repr=False)
class Task:
    """What there is to ask, and whose privacy that concerns.

    voters      how many vote on each row: teachers, or records in all cells together
    neighbours  when two private datasets are neighbours, in words (`DataSplits.neighbours`)
    digest      by which the ledger identifies the private data
    truth       [rows] true labels, UNKNOWN where a row's class is not known; None: none is known
    """

    rows: int
    classes: int
    voters: int
    unit: Unit
    neighbours: str
    digest: str
    truth: Ints | None

    @classmethod
    def of(cls, splits: DataSplits, voters: int) -> "Task":
        """Return that of all public rows."""
        return cls(
            rows=len(splits.public),
            classes=splits.classes,
            voters=voters,
            unit=splits.unit,
            neighbours=splits.neighbours,
            digest=splits.private_digest,
            truth=splits.public.y,
        )
