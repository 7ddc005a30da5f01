"""Vote histograms: how they are counted, what a valid array of them is, and every histogram one
vote away.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from nzc.types import AnyArray, Bools, Floats, Ints
from nzc.validation import InputError

ABSTAIN = -1  # the label of a query that was not answered
_COUNTED = "nzc.count_votes counts predicted labels"
_SLACK = 1e-6  # probabilities may be so far outside 0 … 1, by rounding
_BATCH = 2_000_000  # about how many numbers a batch may hold


def count_votes(predictions: Any, classes: int) -> Ints:
    """Return vote histograms [queries, classes] of predicted labels [teachers, queries], whole
    numbers from 0.

    −1: the teacher abstains, and casts no vote on this query (see `nzc.Abstentions`).
    """
    labels = np.asarray(predictions)
    whole = labels.ndim == 2 and labels.dtype.kind in "iu"
    if not whole or (labels < ABSTAIN).any() or (labels >= classes).any():
        allowed = (
            f"must be whole numbers from 0 to {classes - 1}, or -1 to abstain, [teachers, queries]"
        )
        raise InputError("predictions", f"{labels.dtype} {list(labels.shape)}", allowed)
    return np.stack([(labels == label).sum(axis=0) for label in range(classes)], axis=1).astype(
        np.int64
    )


def as_votes(
    votes: Any, one_sum: bool = True, teachers: int | None = None, state: str = ""
) -> Ints:
    """Return `votes`, an array or nested lists, as int64 [queries, classes].

    one_sum   all rows sum to one number, or with `teachers` to at most so many
    state     how to state `teachers`; "": it cannot be stated
    """
    try:
        array = np.asarray(votes)
    except ValueError:
        raise InputError(
            "votes", "ragged lists", "must have rows of one length: [queries, classes]"
        ) from None
    given = f"{array.dtype} {list(array.shape)}"
    if array.ndim != 2 or array.shape[1] < 2:
        raise InputError("votes", given, "must be histograms [queries, 2 or more classes]")
    if (
        array.dtype.kind not in "iuf"
        or not ((array >= 0) & (array <= 2**31) & (array == np.rint(array))).all()
    ):
        raise InputError(
            "votes", given, f"must be whole numbers, counts from 0 to {2**31:,}. {_COUNTED}"
        )
    counts: Ints = array.astype(np.int64)
    if one_sum:
        _require_sums(counts, given, teachers, state)
    return counts


def _require_sums(counts: Ints, given: str, teachers: int | None, state: str) -> None:
    """Raise InputError unless all rows sum to one number, or with `teachers` to at most so many."""
    sums = counts.sum(axis=1)
    if teachers is None:
        wrong = (sums != sums[:1]) | (sums < 1)
        allowed = "that all sum to the number of teachers, 1 or more"
    else:
        wrong = sums > teachers
        allowed = f"of at most {teachers:,} votes, the number of teachers that is stated"
    if not wrong.any():
        return
    allowed = f"must have rows {allowed}; row {wrong.argmax()} does not. {_COUNTED}"
    if state and teachers is None:
        allowed = f"{allowed}. If teachers abstained, say how many there are: {state}"
    raise InputError("votes", given, allowed)


def as_probabilities(student_probs: Any, votes: Ints) -> Floats | None:
    """Return `student_probs` as float64 [queries, classes], the shape of `votes`; None stays None.

    InputError: one is no probability. A vote would then change the statistic of a screen by more
    than 1.
    """
    if student_probs is None:
        return None
    probabilities = np.asarray(student_probs, dtype=np.float64)
    if probabilities.shape != votes.shape:
        allowed = f"must have the shape of votes, {list(votes.shape)}"
        raise InputError("student_probs", list(probabilities.shape), allowed)
    if not ((probabilities >= -_SLACK) & (probabilities <= 1 + _SLACK)).all():
        raise InputError(
            "student_probs", list(probabilities.shape), "must be probabilities, from 0 to 1"
        )
    return probabilities.clip(0, 1)


def as_labels(labels: Any, votes: Ints) -> AnyArray:
    """Return released `labels` as an array [queries]; each is a class of `votes`, or −1 for an
    abstention.
    """
    array = np.asarray(labels)
    rows, classes = votes.shape
    if array.shape != (rows,) or (array < -1).any() or (array >= classes).any():
        raise InputError(
            "labels",
            list(array.shape),
            f"must be {rows} labels from -1 (abstained) to {classes - 1}",
        )
    return array


@dataclass(frozen=True, repr=False)
class HistogramBatch:
    """Distinct histograms that are computed together. Classes with equal counts form one kind."""

    places: Ints  # [queries] numbers of these distinct histograms
    votes: Ints  # [queries, classes]
    student_probs: Floats | None  # [queries, classes] inf where they do not matter
    representative: Ints  # [queries, kinds] one class of each kind
    copies: Ints  # [queries, kinds] how many classes each kind has

    def moved(self) -> tuple[Ints, Bools]:
        """Return the votes after one vote moved, [queries, from kind, to kind, classes], and which
        moves exist.
        """
        source, target = self.representative[:, :, None], self.representative[:, None, :]
        same = np.eye(self.representative.shape[1], dtype=bool)
        exists = ~same | (self.copies[:, :, None] > 1)
        target = np.where(same & exists, target + 1, target)  # another class of the same kind
        moved = self.votes[:, None, None, :] - self._one(source) + self._one(target)
        return moved, exists & (moved >= 0).all(axis=3)

    def counted(self, change: int) -> tuple[Ints, Bools]:
        """Return the votes after one count changed by ±1, [queries, kind, classes], and which
        changes exist.
        """
        counted = self.votes[:, None, :] + change * self._one(self.representative)
        return counted, np.asarray((counted >= 0).all(axis=2))

    def _one(self, place: Ints) -> Ints:
        """Return one vote for each class, [..., classes]."""
        return np.eye(self.votes.shape[1], dtype=np.int64)[place]


def distinct(
    votes: Ints, student_probs: Floats | None, ordered: Bools
) -> tuple[list[HistogramBatch], Ints]:
    """Return the distinct histograms in batches, and the number of each query's histogram,
    [queries].

    Histograms that differ only in class order count as one, unless `ordered` [queries] marks them.
    Classes are of one kind where their counts are equal, and their probabilities if any.
    """
    parts: list[AnyArray] = [votes, *([] if student_probs is None else [student_probs])]
    order = np.lexsort([-part for part in reversed(parts)], axis=-1)
    order[ordered] = np.arange(votes.shape[1])
    parts = [np.take_along_axis(part, order, axis=1) for part in parts]
    keys = np.concatenate([ordered[:, None], *parts], axis=1)
    _, index, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    parts, single = [part[index] for part in parts], ordered[index]
    begins = np.ones(parts[0].shape, dtype=bool)
    begins[:, 1:] = single[:, None] | np.any(
        [part[:, 1:] != part[:, :-1] for part in parts], axis=0
    )
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
