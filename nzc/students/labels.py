"""What a student makes of released labels before it learns: it removes contradicted ones, and
spreads the others.

Only released labels and public rows are used.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from nzc.mechanisms import ABSTAIN
from nzc.students.base import FittedStudent, StudentData
from nzc.types import Floats


def clean_labels(
    data: StudentData, folds: int, seed: int, learn: Callable[[StudentData, str], FittedStudent]
) -> StudentData:
    """Return the data without the labels that a student contradicts: noisy aggregation makes wrong
    ones.

    Each of the `folds`, which are made class by class, is predicted by a student that learns from
    all other rows.
    """
    rows = np.random.default_rng([seed, 5]).permutation(np.flatnonzero(data.labeled))
    rows = rows[np.argsort(data.labels[rows], kind="stable")]
    labels = data.labels.copy()
    for fold in range(min(folds, len(rows))):
        mine, others = rows[fold::folds], data.labels.copy()
        others[mine] = ABSTAIN
        if (others != ABSTAIN).any():
            student = learn(replace(data, labels=others), f"Fold {fold + 1}")
            labels[mine[student.predict(data.x[mine]) != data.labels[mine]]] = ABSTAIN
    return data if (labels == ABSTAIN).all() else replace(data, labels=labels)


def soft_labels(
    data: StudentData, probabilities: Floats, share: float, mixed: float
) -> StudentData:
    """Return the data with probabilities in place of labels: of labeled rows, and of the surest
    `share` of all rows.

    probabilities  [rows, classes]; all 0 where nothing is known of a row
    """
    sure, known = probabilities.max(axis=1), data.labeled.copy()
    known[np.argsort(-sure, kind="stable")[: round(share * len(sure))]] = True
    labels = np.where(known & (sure > 0), probabilities.argmax(axis=1), ABSTAIN)
    return replace(data, labels=labels, soft=probabilities, mixed=mixed)


def spread_labels(data: StudentData, embedding: Floats, share: float) -> StudentData:
    """Return the data in which the surest `share` of each class's rows is labeled like the nearest
    released row.

    A row is the surer, the closer it is to the nearest row of its class than to the nearest of
    another one. Released labels stay. `embedding` has the places [pool, dimensions] in a public
    representation.
    """
    released = np.flatnonzero(data.labeled)
    known, classes = data.labels[released], np.unique(data.labels[released])
    halves = (embedding**2).sum(axis=1) / 2
    alike = (
        embedding @ embedding[released].T - halves[:, None] - halves[released]
    )  # −half the squared distance
    closest = np.full((len(data.labels), data.classes), alike.min() - 1)
    for label in classes:
        closest[:, label] = alike[:, known == label].max(axis=1)
    best, nearest = np.sort(closest, axis=1), closest.argmax(axis=1)
    margin, labels = best[:, -1] - best[:, -2], data.labels.copy()
    for label in classes:
        rows = np.flatnonzero(nearest == label)
        labels[
            rows[np.argsort(-margin[rows], kind="stable")][: int(np.ceil(share * len(rows)))]
        ] = label
    labels[released] = known
    return replace(data, labels=labels)
