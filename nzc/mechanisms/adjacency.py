"""Who is a neighbour: the relations between vote histograms, and every histogram one vote away."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nzc.accounting.data_independent import UNBOUNDED, WorstCaseCost
from nzc.mechanisms.boost import Boost
from nzc.mechanisms.noise import Noise
from nzc.types import AnyArray, Bools, Floats, Ints
from nzc.validation import whole

#: A plurality with a larger gap stays ahead, without a tie, wherever one vote moves; a boost's Δ stays the same too.
FAR = 5
#: About how many numbers a batch may hold.
_BATCH = 2_000_000


@dataclass(frozen=True)
class Adjacency:
    """A unit of privacy is one voter on every query: its vote moves, n → n − e_a + e_b, in the histogram of each.

    Every histogram sums to the number of voters, which is public.
    """

    #: Whether all histograms may differ. They then have one sum, which is public.
    everywhere: ClassVar[bool] = True

    @property
    def rows(self) -> str:
        """On which rows the votes may differ, in words."""
        return "any number of rows"

    def label(self, boost: Boost, noise: Noise, labels: int) -> tuple[int, WorstCaseCost]:
        """Return what so many labels cost, whatever the votes: a count, and the cost of each."""
        return labels, boost.worst_case(noise)


@dataclass(frozen=True)
class OwnCells(Adjacency):
    """A unit of privacy is at most `records` records, each of which counts in one histogram, and once.

    One replaced record takes a count from one histogram and adds one to another, or moves one within a histogram. Rows
    have unequal sums, which are private. However many queries are asked, their labels cost at most as much as

        Gaussian noise  a mean shift of √2·records/σ: the change of all counts together, as one vector, is so long
        Laplace noise   a pure 2γ·records: γ for each count that changes
        Gumbel noise    a loss in a range of 2γ·records: γ for each count that changes, and ranges add

    Several records may change one histogram by more than one; these bounds allow it. docs/privacy.md has the proofs.
    """

    records: int = 1
    everywhere: ClassVar[bool] = False

    def __post_init__(self) -> None:
        whole(1, per_group=self.records)

    @property
    def rows(self) -> str:
        return f"at most {2 * self.records} asked rows"

    def label(self, boost: Boost, noise: Noise, labels: int) -> tuple[int, WorstCaseCost]:
        if boost.c == 0 and boost.shift == 1:
            count, cost = noise.own_cells(self.records)
        else:  # two counts change, in two histograms or in one
            count, cost = 2, boost.worst_case(noise) if self.records == 1 else UNBOUNDED
        return min(labels, 1) * count, cost


@dataclass(frozen=True, repr=False)
class HistogramBatch:
    """Distinct histograms that are computed together. Classes with equal counts form one kind."""

    places: Ints  # [queries] numbers of these distinct histograms
    votes: Ints  # [queries, classes]
    student_probs: Floats | None  # [queries, classes] inf where they do not matter
    representative: Ints  # [queries, kinds] one class of each kind
    copies: Ints  # [queries, kinds] how many classes each kind has

    def moved(self) -> tuple[Ints, Bools]:
        """Return the votes after one vote moved, [queries, from kind, to kind, classes], and which moves exist."""
        (queries, kinds), last = self.representative.shape, self.votes.shape[1] - 1
        moved = np.broadcast_to(self.votes[:, None, None, :], (queries, kinds, kinds, last + 1)).copy()
        row, a, b = np.ogrid[:queries, :kinds, :kinds]
        source, target = self.representative[row, a], self.representative[row, b]
        target = np.where(a == b, np.minimum(target + 1, last), target)  # a kind's next class need not exist
        exists = (self.votes[row, source] >= 1) & ((a != b) | (self.copies[row, a] > 1))
        moved[row, a, b, source] -= 1
        moved[row, a, b, target] += 1
        return moved, exists

    def counted(self, change: int) -> tuple[Ints, Bools]:
        """Return the votes after one count changed by ±1, [queries, kind, classes], and which changes exist."""
        (queries, kinds), classes = self.representative.shape, self.votes.shape[1]
        counted = np.broadcast_to(self.votes[:, None, :], (queries, kinds, classes)).copy()
        row, kind = np.ogrid[:queries, :kinds]
        counted[row, kind, self.representative] += change
        return counted, np.asarray((counted >= 0).all(axis=2))


def distinct(votes: Ints, student_probs: Floats | None, ordered: Bools) -> tuple[list[HistogramBatch], Ints]:
    """Return the distinct histograms in batches, and the number of each query's histogram, [queries].

    Histograms that differ only in class order count as one, unless `ordered` [queries] marks them: near a tie the order
    of the classes matters. Classes are of one kind where their counts are equal, and their probabilities if any.
    """
    parts: list[AnyArray] = [votes.astype(np.int64), *([] if student_probs is None else [student_probs])]
    order = np.lexsort([-part for part in reversed(parts)], axis=-1)
    order[ordered] = np.arange(votes.shape[1])
    parts = [np.take_along_axis(part, order, axis=1) for part in parts]
    keys = np.concatenate([ordered[:, None], *parts], axis=1)
    _, index, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    parts, single = [part[index] for part in parts], ordered[index]
    begins = np.ones(parts[0].shape, dtype=bool)
    begins[:, 1:] = single[:, None] | np.any([part[:, 1:] != part[:, :-1] for part in parts], axis=0)
    kinds, batches = begins.sum(axis=1), []
    for alike in np.unique(np.stack([single, kinds], axis=1), axis=0):
        places = np.flatnonzero((single == alike[0]) & (kinds == alike[1]))
        pieces = len(places) * alike[1] ** 2 * (votes.shape[1] + 100) // _BATCH + 1
        for some in np.array_split(places, min(pieces, len(places))):
            classes = np.nonzero(begins[some])[1].reshape(len(some), -1)
            copies = np.diff(classes, axis=1, append=votes.shape[1])
            probs = None if student_probs is None else parts[1][some]
            batches.append(HistogramBatch(some, parts[0][some], probs, classes, copies))
    return batches, inverse.reshape(-1)
