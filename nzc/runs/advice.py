"""Advice to users: what speaks against a run that has ended, and what to try instead."""

from collections.abc import Sequence

import numpy as np

from nzc.data import DataSplits
from nzc.mechanisms import ABSTAIN
from nzc.planning.advice import PER_CLASS
from nzc.runs.formatting import percent, some
from nzc.runs.metrics import NAMED, Metrics
from nzc.types import Ints

#: A run warns of classes with a recall below this.
_MISSED = 0.05
#: What to try where labels are too few or too often wrong.
_LABELS = "a larger ε, less noise, or another number of queries"


def about_classes(splits: DataSplits, names: Sequence[str]) -> list[str]:
    """Return the warning that private labels alone decide which classes there are, if they do."""
    if splits.undeclared_classes is None:
        return []
    counts = np.bincount(splits.private.y, minlength=len(names))
    shown = some([f"{name} ({count:,})" for name, count in zip(names, counts, strict=True)], 20)
    return [
        f"dataset.classes=null: the classes are those of the private records: {shown}. "
        "To publish, declare them"
    ]


def about_labels(released: Ints, learned: Ints | None, names: Sequence[str]) -> list[str]:
    """Return what labels [pool] lack, ABSTAIN for none; `learned` None: there is no student."""
    if (released == ABSTAIN).all():
        return [
            f"no label was released, so no student can learn: try {_LABELS}, "
            "or a lower threshold where there is one"
        ]
    lines = []
    missing = [name for label, name in enumerate(names) if label not in released]
    if missing:
        lines.append(
            f"{len(missing)} of {len(names)} classes got no released label "
            f"({some(missing, NAMED)}): try {_LABELS}"
        )
    count = np.inf if learned is None else (learned != ABSTAIN).sum()
    if count < PER_CLASS * len(names):
        lines.append(
            f"the student learned from {count} labels, fewer than {PER_CLASS} for each of "
            f"{len(names)} classes: try {_LABELS}, or recipe=near_zero"
        )
    return lines


def about_accuracy(accuracy: float, metrics: Metrics) -> list[str]:
    """Return that the student is no better than to guess, or always to answer one class."""
    present = [share for share in metrics.recall.values() if share is not None]
    majority = metrics.majority or 0.0
    balanced = metrics.balanced_accuracy or 0.0
    chance = 1 / max(1, len(present))
    if len(present) < 2 or (balanced > chance + 0.01 and accuracy > majority):
        return []
    return [
        f"the student's accuracy is {percent(accuracy)} (balanced: {percent(balanced)}), and "
        f"always answering the most frequent class has {percent(majority)} (balanced: "
        f"{percent(chance)}): try {_LABELS}, or with two classes student=linear "
        "student.threshold=NUMBER"
    ]


def about_recall(metrics: Metrics) -> list[str]:
    """Return which classes the student hardly ever recognises."""
    missed = [f"{name} ({percent(share)})" for name, share in metrics.lowest if share < _MISSED]
    if not missed:
        return []
    return [
        f"the student recognises less than {percent(_MISSED)} of the rows of {some(missed)}: "
        "try student.threshold=balanced (where there is a student), or a larger ε"
    ]
