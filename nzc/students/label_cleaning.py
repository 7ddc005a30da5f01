"""Remove released labels that cross-validation contradicts: noisy aggregation makes wrong ones."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from nzc.mechanisms import ABSTAIN
from nzc.students.config import FittedStudent, StudentData


def clean_labels(
    data: StudentData, folds: int, seed: int, learn: Callable[[StudentData, str], FittedStudent]
) -> StudentData:
    """Return the data without the labels that a student contradicts which learned from the other folds.

    The labelled rows are divided into `folds`, class by class. For each fold a student learns from all other
    folds and the unlabelled rows, and predicts this fold. Only released labels and public rows are used.
    """
    rows = np.random.default_rng([seed, 5]).permutation(np.flatnonzero(data.labelled))
    rows = rows[np.argsort(data.labels[rows], kind="stable")]
    labels = data.labels.copy()
    for fold in range(min(folds, len(rows))):
        mine = rows[fold::folds]
        others = data.labels.copy()
        others[mine] = ABSTAIN
        if not len(mine) or (others == ABSTAIN).all():
            continue
        student = learn(replace(data, labels=others), f"Fold {fold + 1}")
        labels[mine[student.predict(data.x[mine]) != data.labels[mine]]] = ABSTAIN
    return data if (labels == ABSTAIN).all() else replace(data, labels=labels)
