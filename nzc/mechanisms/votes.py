"""Vote histograms: how they are counted, and what a valid array of them is."""

from typing import Any

import numpy as np

from nzc.types import AnyArray, Floats, Ints
from nzc.validation import InputError

#: The label of a query that was not answered.
ABSTAIN = -1


def count_votes(predictions: Any, classes: int) -> Ints:
    """Return vote histograms [queries, classes] of predicted labels [teachers, queries], whole numbers from 0."""
    labels = np.asarray(predictions)
    if labels.ndim != 2 or labels.dtype.kind not in "iu" or (labels < 0).any() or (labels >= classes).any():
        allowed = f"must be whole numbers from 0 to {classes - 1}, [teachers, queries]"
        raise InputError("predictions", f"{labels.dtype} {list(labels.shape)}", allowed)
    return np.stack([(labels == label).sum(axis=0) for label in range(classes)], axis=1).astype(np.int64)


def as_votes(votes: Any, one_sum: bool = True) -> Ints:
    """Return `votes`, an array or nested lists, as int64 [queries, classes]; InputError says what is wrong with them.

    With `one_sum`, every row must sum to the same number of teachers. There may be no rows at all.
    """
    try:
        array = np.asarray(votes)
    except ValueError:
        raise InputError("votes", "ragged lists", "must have rows of one length: [queries, classes]") from None
    given = f"{array.dtype} {list(array.shape)}"
    if array.ndim != 2 or array.shape[1] < 2:
        raise InputError("votes", given, "must be histograms [queries, 2 or more classes]")
    kind = array.dtype.kind
    if kind not in "iuf" or (kind == "f" and not (np.isfinite(array) & (array == np.rint(array))).all()):
        raise InputError("votes", given, "must be whole numbers: how many teachers voted for each class")
    if array.size and (array.min() < 0 or float(array.max()) > 2**31):
        raise InputError("votes", given, f"must be counts from 0 to {2**31:,}")
    counts: Ints = array.astype(np.int64)
    sums = counts.sum(axis=1)
    if one_sum and (wrong := np.flatnonzero((sums != sums[:1]) | (sums < 1))).size:
        allowed = f"must have rows that all sum to the number of teachers, 1 or more; row {wrong[0]} does not"
        raise InputError("votes", given, f"{allowed}. nzc.count_votes counts predicted labels")
    return counts


def as_probabilities(student_probs: Any, votes: Ints) -> Floats | None:
    """Return `student_probs` as float64 [queries, classes], the shape of `votes`; None stays None."""
    if student_probs is None:
        return None
    probabilities = np.asarray(student_probs, dtype=np.float64)
    if probabilities.shape != votes.shape:
        allowed = f"must have the shape of votes, {list(votes.shape)}"
        raise InputError("student_probs", list(probabilities.shape), allowed)
    return probabilities


def as_labels(labels: Any, votes: Ints) -> AnyArray:
    """Return released `labels` as an array [queries]; each is a class of `votes`, or −1 for an abstention."""
    array = np.asarray(labels)
    rows, classes = votes.shape
    if array.shape != (rows,) or (array < -1).any() or (array >= classes).any():
        raise InputError("labels", list(array.shape), f"must be {rows} labels from -1 (abstained) to {classes - 1}")
    return array
