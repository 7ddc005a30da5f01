"""Vote histograms: how they are counted, and which arrays are histograms, labels, probabilities."""

from typing import Any

import numpy as np

from nzc.types import AnyArray, Floats, Ints
from nzc.validation import InputError

__all__ = ["ABSTAIN", "count_votes"]

ABSTAIN = -1  # the label of a query that was not answered
#: The student's class probabilities [queries, classes]; None: there is no student.
Probs = Floats | None
_COUNTED = "nzc.count_votes counts predicted labels"
_SLACK = 1e-6  # probabilities may be so far outside 0 … 1, by rounding


def count_votes(predictions: Any, classes: int) -> Ints:
    """Return vote histograms [queries, classes] of predicted labels [teachers, queries].

    Labels are whole numbers from 0. −1: the teacher abstains, and casts no vote on this query (see
    `nzc.Abstentions`).
    """
    labels = np.asarray(predictions)
    if labels.ndim != 2 or not _are_whole(labels, "iu", ABSTAIN, classes - 1):
        raise InputError(
            "predictions",
            _shape(labels),
            f"must be whole numbers from 0 to {classes - 1}, or -1, [teachers, queries]",
        )
    return np.stack([(labels == label).sum(axis=0) for label in range(classes)], axis=1)


def as_votes(
    votes: Any, one_sum: bool = True, teachers: int | None = None, state: str = ""
) -> Ints:
    """Return `votes`, an array or nested lists, as int64 [queries, classes].

    one_sum   all rows sum to one number, or with `teachers` to at most so many
    state     how to state `teachers`; "": it cannot be stated
    """
    array = np.asarray(votes)
    given = _shape(array)
    if array.ndim != 2 or array.shape[1] < 2:
        raise InputError("votes", given, "must be histograms [queries, 2 or more classes]")
    if not _are_whole(array, "iuf", 0, 2**31):
        allowed = f"must be whole numbers, counts from 0 to {2**31:,}. {_COUNTED}"
        raise InputError("votes", given, allowed)
    counts: Ints = array.astype(np.int64)
    if not one_sum:
        return counts

    sums = counts.sum(axis=1)
    if teachers is None:
        wrong = (sums != sums[:1]) | (sums < 1)
        allowed = "that all sum to the number of teachers, 1 or more"
    else:
        wrong = sums > teachers
        allowed = f"of at most {teachers:,} votes, the number of teachers that is stated"
    if wrong.any():
        allowed = f"must have rows {allowed}; row {wrong.argmax()} does not. {_COUNTED}"
        if state and teachers is None:
            allowed = f"{allowed}. If teachers abstained, say how many there are: {state}"
        raise InputError("votes", given, allowed)
    return counts


def as_probabilities(student_probs: Any, votes: Ints) -> Probs:
    """Return `student_probs` as float64 [queries, classes], the shape of `votes`; None stays None.

    InputError: one is no probability. A vote would then change the statistic of a screen by more
    than 1.
    """
    if student_probs is None:
        return None
    probabilities = np.asarray(student_probs, dtype=np.float64)
    in_range = (probabilities >= -_SLACK) & (probabilities <= 1 + _SLACK)
    if probabilities.shape != votes.shape or not in_range.all():
        raise InputError(
            "student_probs",
            _shape(probabilities),
            f"must be probabilities, from 0 to 1, of the shape of votes, {list(votes.shape)}",
        )
    return probabilities.clip(0, 1)


def as_labels(labels: Any, votes: Ints, abstains: bool) -> AnyArray:
    """Return released labels as an array [queries]: classes of `votes`, or −1 for an abstention.

    abstains  whether the mechanism may leave queries without a label
    """
    array = np.asarray(labels)
    rows, classes = votes.shape
    least = ABSTAIN if abstains else 0
    if array.shape != (rows,) or not _are_whole(array, "biuf", least, classes - 1):
        allowed = f"must be the {rows} labels that were released, from {least} to {classes - 1}"
        if not abstains:
            allowed += "; this mechanism always answers, and labels left out later cost the same"
        raise InputError("labels", _shape(array), allowed)
    return array


def _are_whole(array: AnyArray, kinds: str, least: int, most: int) -> bool:
    """Return whether these are whole numbers within bounds, of dtypes of these kinds."""
    if array.dtype.kind not in kinds:
        return False
    return bool(((array >= least) & (array <= most) & (array == np.rint(array))).all())


def _shape(array: AnyArray) -> str:
    return f"{array.dtype} {list(array.shape)}"
