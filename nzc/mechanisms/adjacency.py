"""Who is a neighbour: the relation between vote histograms, and every histogram one vote away."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from nzc.types import AnyArray, Bools, Floats, Ints
from nzc.validation import whole

#: A plurality with a larger gap stays ahead, without a tie, wherever one vote moves; a boost's Δ stays the same too.
FAR = 5
#: About how many numbers a batch may hold.
_BATCH = 2_000_000


@dataclass(frozen=True)
class Adjacency:
    """Between neighbours a unit of privacy moves one vote, n → n − e_a + e_b, in the histogram of each query.

    queries  it moves a vote on at most so many queries of a round. The labels of all others have the same law at both
             neighbours, so only so many queries are charged, however many are asked. None: on all queries
    """

    queries: int | None = None

    def __post_init__(self) -> None:
        if self.queries is not None:
            whole(1, moved=self.queries)

    def charged(self, asked: AnyArray | int) -> AnyArray:
        """Return how many of so many queries are paid for."""
        return np.asarray(asked) if self.queries is None else np.minimum(asked, self.queries)

    def total(self, parts: Iterable[tuple[Floats, Ints]]) -> Floats:
        """Return what all queries cost together, [orders]: at each order, the sum of the dearest that are charged.

        parts  costs of histograms [histograms, orders], and how many queries share each [histograms]
        """
        if self.queries is None:
            return np.asarray(sum(times @ costs for costs, times in parts))
        every = np.concatenate([np.repeat(costs, times, axis=0) for costs, times in parts])
        return np.asarray(np.sort(every, axis=0)[-self.queries :].sum(axis=0))


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
