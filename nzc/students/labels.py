"""What happens to released labels before a student learns: contradicted ones go, others spread.

Only released labels and public rows are used.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from nzc.mechanisms import ABSTAIN
from nzc.streams import Stream
from nzc.students.base import FittedStudent, StudentData
from nzc.types import Floats


def clean_labels(
    data: StudentData, folds: int, seed: int, learn: Callable[..., FittedStudent]
) -> StudentData:
    """Return the data without the labels that a student contradicts: some are wrong, by noise.

    Each of the `folds`, which are made class by class, is predicted by a student that learns from
    all other rows, by learn(data, name=…).
    """
    rows = np.random.default_rng([seed, Stream.FOLDS]).permutation(np.flatnonzero(data.labeled))
    rows = rows[np.argsort(data.labels[rows], kind="stable")]
    labels = data.labels.copy()
    for fold in range(min(folds, len(rows))):
        tested = rows[fold::folds]
        remaining = data.labels.copy()
        remaining[tested] = ABSTAIN
        if (remaining != ABSTAIN).any():
            student = learn(replace(data, labels=remaining), name=f"Fold {fold + 1}")
            wrong = student.predict(data.x[tested]) != data.labels[tested]
            labels[tested[wrong]] = ABSTAIN
    if (labels == ABSTAIN).all():
        return data
    return replace(data, labels=labels)


def soft_labels(
    data: StudentData, probabilities: Floats, share: float, mixed: float
) -> StudentData:
    """Return the data with probabilities in place of labels.

    They are those of labeled rows, and of the surest `share` of all rows.

    probabilities  [rows, classes]; all 0 where nothing is known of a row
    """
    largest = probabilities.max(axis=1)
    chosen = data.labeled.copy()
    chosen[np.argsort(-largest, kind="stable")[: round(share * len(largest))]] = True
    labels = np.where(chosen & (largest > 0), probabilities.argmax(axis=1), ABSTAIN)
    return replace(data, labels=labels, soft=probabilities, mixed=mixed)


def spread_labels(data: StudentData, embedding: Floats, share: float) -> StudentData:
    """Return the data in which the surest `share` of each class is labeled by the nearest label.

    A row is the surer, the closer it is to the nearest released row of its class than to the
    nearest of another one. Released labels stay.

    embedding  places [pool, dimensions] in a public representation
    """
    released = np.flatnonzero(data.labeled)
    released_labels = data.labels[released]
    halves = (embedding**2).sum(axis=1) / 2
    # −half the squared distance of each row to each released row
    nearness = embedding @ embedding[released].T - halves[:, None] - halves[released]
    of_class = np.full((len(data.labels), data.classes), nearness.min() - 1)
    for label in np.unique(released_labels):
        of_class[:, label] = nearness[:, released_labels == label].max(axis=1)
    second, first = np.sort(of_class, axis=1)[:, -2:].T
    margin = first - second
    nearest = of_class.argmax(axis=1)
    labels = data.labels.copy()
    for label in np.unique(released_labels):
        rows = np.flatnonzero(nearest == label)
        surest = rows[np.argsort(-margin[rows], kind="stable")]
        labels[surest[: int(np.ceil(share * len(rows)))]] = label
    labels[released] = released_labels
    return replace(data, labels=labels)
