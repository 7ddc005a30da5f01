"""Which released labels does a student not believe? Noisy aggregation gives wrong ones, which a student would learn
by heart."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from nzc.aggregators.aggregator import ABSTAIN
from nzc.students.learner import Learner, Material

if TYPE_CHECKING:
    from nzc.students.student import Student


def believed(learner: Learner, material: Material, seed: int, fit: Callable[["Student", str], None]) -> Material:
    """The material, less the labels that contradict a student which learnt from the others.

    The labelled rows are dealt into `learner.folds`, class by class; for each a student learns from all other folds
    (and the unlabelled rows) and says what it thinks of this one. Public labels in, public labels out.
    """
    rows = np.random.default_rng([seed, 5]).permutation(np.flatnonzero(material.answered))
    rows = rows[np.argsort(material.labels[rows], kind="stable")]
    labels = material.labels.copy()
    for fold in range(learner.folds):
        mine = rows[fold :: learner.folds]
        others = material.labels.copy()
        others[mine] = ABSTAIN
        if not len(mine) or (others == ABSTAIN).all():
            continue
        student = learner.student(replace(material, labels=others), seed)
        fit(student, f"Fold {fold + 1}")
        labels[mine[student.predict(material.x[mine]) != material.labels[mine]]] = ABSTAIN
    return material if (labels == ABSTAIN).all() else replace(material, labels=labels)
