"""What differs by one vote: every histogram's neighbours, each tried once, and their laws for the exact accountant."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from nzc._types import AnyArray, Bools, Floats, Ints

#: A plurality ahead by more than this stays ahead, untied, wherever one vote moves; a boost's Δ does not change either.
FAR = 5
#: About how many numbers a batch may hold at once.
_BATCH = 2_000_000


@dataclass(frozen=True)
class Histograms:
    """Histograms of one batch, and their classes by kind: classes of one kind may stand for each other.

    places    [queries]           which distinct histograms they are
    votes     [queries, classes]
    baseline  [queries, classes]  the student's probabilities, ∞ where they do not matter, or None
    first     [queries, kinds]    a class of each kind
    copies    [queries, kinds]    how many it has
    """

    places: Ints
    votes: Ints
    baseline: Floats | None
    first: Ints
    copies: Ints

    def moved(self) -> tuple[Ints, Bools]:
        """Votes after one moved between two kinds, [queries, from, to, classes], and where such a move exists."""
        queries, kinds = self.first.shape
        moved = np.broadcast_to(self.votes[:, None, None, :], (queries, kinds, kinds, self.votes.shape[1])).copy()
        row, a, b = np.ogrid[:queries, :kinds, :kinds]
        source = self.first[row, a]
        # A move within a kind goes to its next class, which need not exist.
        target = np.where(a == b, np.minimum(self.first[row, b] + 1, self.votes.shape[1] - 1), self.first[row, b])
        exists = (self.votes[row, source] >= 1) & ((a != b) | (self.copies[row, a] > 1))
        moved[row, a, b, source] -= 1
        moved[row, a, b, target] += 1
        return moved, exists


def distinct(votes: Ints, baseline: Floats | None, ordered: Callable[[Ints], Bools]) -> tuple[list[Histograms], Ints]:
    """The distinct histograms in batches, and which of them each query has, [queries].

    Histograms that differ in class order are one, but for those that `ordered` marks: there a tie, and so the order of
    classes, is within reach. Classes are alike where their votes are, and their baselines if there are any.
    """
    keyed = ordered(votes)
    parts: list[AnyArray] = [votes.astype(np.int64), *([] if baseline is None else [baseline])]
    order = np.lexsort([-part for part in reversed(parts)], axis=-1)
    order[keyed] = np.arange(votes.shape[1])
    parts = [np.take_along_axis(part, order, axis=1) for part in parts]
    keys = np.concatenate([keyed[:, None], *parts], axis=1)
    _, index, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    parts, single = [part[index] for part in parts], keyed[index]
    begins = np.ones(parts[0].shape, dtype=bool)
    begins[:, 1:] = single[:, None] | np.any([part[:, 1:] != part[:, :-1] for part in parts], axis=0)
    kinds = begins.sum(axis=1)
    return [
        Histograms(
            places,
            parts[0][places],
            None if baseline is None else parts[1][places],
            *_kinds(begins[places]),
        )
        for places in _batches(kinds, single, votes.shape[1])
    ], inverse.reshape(-1)


def _kinds(begins: Bools) -> tuple[Ints, Ints]:
    first = np.nonzero(begins)[1].reshape(len(begins), -1)
    return first, np.diff(first, axis=1, append=begins.shape[1])


def _batches(kinds: Ints, single: Bools, classes: int) -> Iterator[Ints]:
    """Places with the same number of kinds, told apart or not, in pieces that fit memory."""
    for apart in (False, True):
        for count in np.unique(kinds[single == apart]):
            places = np.flatnonzero((kinds == count) & (single == apart))
            pieces = len(places) * count**2 * (classes + 100) // _BATCH + 1
            yield from np.array_split(places, min(pieces, len(places)))
