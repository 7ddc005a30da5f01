"""Cells: records vote with their own classes, each for the nearest asked row alone.

records (private)  →  places  →  counts in cells  →  Session.ask  →  counts with noise (public)
"""

from dataclasses import dataclass, replace

import numpy as np

from nzc.clock import Clock
from nzc.data import UNKNOWN, DataSplits, Embedding
from nzc.data.hashing import draw_by_key
from nzc.data.splits import Records
from nzc.mechanisms import OwnCells, OwnLabels
from nzc.mechanisms.noisy_argmax import NoisyArgmax
from nzc.planning.expected import expected_in_cells, rows_to_ask
from nzc.privacy.promise import Policy, Promise
from nzc.privacy.session import Session
from nzc.protocols.base import Data
from nzc.protocols.smoothing import NoisyTotals, expected_records, nearest
from nzc.protocols.task import Task, VoteHistograms
from nzc.protocols.votes import Voting
from nzc.ranges import Count, CountOrZero
from nzc.streams import Stream
from nzc.types import Ints
from nzc.validation import InputError


@dataclass(frozen=True, kw_only=True)
class Cells(Voting):
    """The asked rows divide the public representation into cells; votes count the records of each.

    per_group  how many records of a group count at most; they are drawn by its name and size
    """

    per_group: Count = 1
    seed: CountOrZero = 0

    needs_places = True

    def adjacency(self, labels_only: bool = False) -> OwnCells:
        if labels_only:
            return OwnLabels(self.per_group)
        return OwnCells(self.per_group)

    def check(self, splits: DataSplits) -> Task:
        if splits.units.groups is None and self.per_group > 1:
            raise InputError(
                "per_group", self.per_group, "must be 1 where the dataset has no groups"
            )
        return Task.of(splits, splits.unit_count * self.per_group)

    def promise(self, policy: Policy, data: Data, learns: bool) -> Promise:
        """Return the promise; by default as many rows are asked as the noise allows."""
        task = data.task
        if data.selection.queries is None:
            deviation = policy.mechanism.noise.deviation
            queries = rows_to_ask(task.voters, task.classes, task.rows, deviation)
            data = replace(data, selection=replace(data.selection, queries=queries))
        return super().promise(policy, data, learns)

    def expected(
        self, mechanism: NoisyArgmax, policy: Policy, task: Task, asked: int
    ) -> tuple[float, float]:
        return expected_in_cells(mechanism, task.voters, task.classes, asked)

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
        units = replace(splits.units, groups=np.repeat(names, self.per_group), keys=None)
        private = Records(splits.private.x[rows.ravel()], labels.ravel())
        return replace(splits, private=private, units=units)

    def teach(self, data: Data, session: Session, stage: Clock) -> VoteHistograms:
        """Return how many records of each class are nearest to each asked row."""
        assert data.embedding is not None
        with stage("votes"):
            votes = counts_of(data.splits, data.embedding, data.choose(session))
        stage.done("votes", f"{len(votes):,} rows counted")
        return VoteHistograms(votes, data.task.voters, data.task.truth)

    def totals(self, taught: VoteHistograms, data: Data, session: Session) -> NoisyTotals:
        totals = super().totals(taught, data, session)
        places = data.places
        assert places is not None
        rows = session.rows
        totals = replace(totals, expected=expected_records(places, rows, session.voters))
        if data.splits.labels_only:  # features are public, and tell how many records a cell has
            totals = totals.with_sums(taught.votes[rows].sum(axis=1))
        return totals

    def mixed(self, totals: NoisyTotals) -> float:
        return totals.mixed


def counts_of(splits: DataSplits, embedding: Embedding, asked: Ints) -> Ints:
    """Return the votes [public rows, classes] of records for the nearest of the asked rows."""
    labels = splits.private.y
    home = asked[nearest(embedding.private, embedding.public[asked])]
    counts = np.zeros((len(splits.public), splits.classes), np.int64)
    np.add.at(counts, (home, labels), labels != UNKNOWN)
    return counts
