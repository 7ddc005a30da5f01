"""Advice to users: what speaks against a run that has ended, and what to try instead."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nzc.data import DataSplits
from nzc.labeling.randomness import SYSTEM
from nzc.labeling.release import LabelingSession
from nzc.mechanisms import ABSTAIN
from nzc.planning.advice import PER_CLASS, price
from nzc.runs.checks import PreparedRun
from nzc.runs.formatting import number, percent, some
from nzc.runs.metrics import NAMED, Metrics
from nzc.types import Floats, Ints

#: A run warns of classes with a recall below this, and of a student that differs by so much more
#: than noise explains.
_MISSED = 0.05
#: A class with so many labels that noise cannot explain is forgotten where the student never
#: predicts it.
_FORGOTTEN = 5


@dataclass(frozen=True)
class Remedies:
    """What to try."""

    labels: str  # where labels are too few or too often wrong
    rare: Sequence[str]  # and what else where a rare class is missed
    students: str  # where the student contradicts the labels


def remedies(run: PreparedRun) -> Remedies:
    """Return what suits this run."""
    policy = run.session.policy
    in_cells = not policy.mechanism.adjacency.everywhere
    labels = f"a larger ε or more queries with {price(in_cells)}"
    if policy.budget is None:
        labels = "more queries or less noise"
    elif any("noise" in line for line in run.warnings):
        labels = "a larger ε or fewer queries"
    rare = ["teachers=logistic", "student.balance=1"]
    if in_cells:  # teachers=logistic votes on a number of queries, which own cells do not need
        is_table = run.splits.encoder is not None
        rare = ["recipe=tables"] if is_table else []
    if run.parts.baseline:
        labels = "a larger ε"
        rare = []
    students = ["student=supervised", "student=linear"]
    others = [other for other in students if other != f"student={run.parts.names['student']}"]
    return Remedies(labels, rare, " or ".join(others))


def about_classes(splits: DataSplits, names: Sequence[str]) -> list[str]:
    """Return the warning that private labels alone decide which classes there are, if they do."""
    if splits.undeclared_classes is None:
        return []
    counts = np.bincount(splits.private.y, minlength=len(names))
    shown = some([f"{name} ({count:,})" for name, count in zip(names, counts, strict=True)], 20)
    why = "dataset.classes=null: the classes are those of the private records"
    return [f"{why}: {shown}. To publish, declare them"]


def about_labels(
    released: Ints, learned: Ints | None, names: Sequence[str], tries: Remedies
) -> list[str]:
    """Return what labels [pool] lack, ABSTAIN for none; `learned` None: there is no student."""
    if (released == ABSTAIN).all():
        why = "no label was released, so no student can learn"
        return [f"{why}: try {tries.labels}, or a lower threshold where there is one"]
    lines = []
    missing = [name for label, name in enumerate(names) if label not in released]
    if missing:
        why = f"{len(missing)} of {len(names)} classes got no released label"
        lines.append(f"{why} ({some(missing, NAMED)}): try {tries.labels}")
    count = np.inf if learned is None else (learned != ABSTAIN).sum()
    if count < PER_CLASS * len(names):
        few = f"{count} labels, fewer than {PER_CLASS} for each of {len(names)} classes"
        spread = "student.spread=1 with representation=spectral"
        lines.append(f"the student learned from {few}: try {tries.labels}, or {spread}")
    return lines


def about_accuracy(accuracy: float, metrics: Metrics, tries: Remedies) -> list[str]:
    """Return that the student is no better than to guess, or always to answer one class."""
    present = [share for share in metrics.recall.values() if share is not None]
    majority = metrics.majority or 0.0
    balanced = metrics.balanced_accuracy or 0.0
    chance = 1 / max(1, len(present))
    guesses = balanced <= chance + 0.01
    if len(present) < 2 or not (guesses or accuracy <= majority):
        return []
    own = f"the student's accuracy is {percent(accuracy)} (balanced: {percent(balanced)})"
    most = f"the most frequent class has {percent(majority)} (balanced: {percent(chance)})"
    helps = _any_of(tries.labels, *tries.rare)
    if len(metrics.recall) == 2 and not guesses:
        helps = "student.threshold=NUMBER, which trades recall for accuracy"
    return [f"{own}, and always answering {most}: try {helps}"]


def about_recall(metrics: Metrics, tries: Remedies) -> list[str]:
    """Return which classes the student hardly ever recognises."""
    missed = [f"{name} ({percent(share)})" for name, share in metrics.lowest if share < _MISSED]
    if not missed:
        return []
    why = f"the student recognises less than {percent(_MISSED)} of the rows of {some(missed)}"
    helps = _any_of("student.threshold=balanced", *tries.rare[:1], "a larger ε")
    return [f"{why}: try {helps}"]


def _any_of(*choices: str) -> str:
    *others, last = choices
    return ", or ".join(filter(None, [", ".join(others), last]))


def about_agreement(
    labels: Ints, predicted: Ints, right: Floats, counted: bool, names: Sequence[str], other: str
) -> list[str]:
    """Return how the student differs from its labels, where noise does not explain that.

    labels     [rows] that it learned from, ABSTAIN where there is none
    predicted  [rows] by the student
    right      [rows] probability of each label by the released counts; 1 where there are none
    counted    whether `right` is known, and the student decides for the likeliest class
    other      what to try
    """
    labeled = labels != ABSTAIN
    if not labeled.any():
        return []
    wrong = float((labels != predicted)[labeled].mean())
    by_noise = float(1 - right[labeled].mean())
    sure = np.bincount(labels[labeled], right[labeled], len(names))
    if not counted:  # noise may explain all that differs, if the classes share it
        sure = sure - 2 * wrong * labeled.sum() / len(names)
    forgotten = np.setdiff1d(np.flatnonzero(sure >= _FORGOTTEN), predicted)
    if len(forgotten):
        never = some([names[label] for label in forgotten], NAMED)
        return [f"the student never predicts {never}, which released labels have: try {other}"]
    if counted and wrong > 2 * by_noise + _MISSED:
        why = f"the student contradicts {percent(wrong)} of the labels that it learned from"
        return [f"{why}, and noise explains {percent(by_noise)}: try {other}"]
    return []


def about_repeats(session: LabelingSession) -> list[str]:
    """Return the warning that this command has released labels before, if it has."""
    times = session.ledger.repeats
    if times < 2:
        return []
    epsilon, delta = session.promise.bound
    again = f"rng={SYSTEM} draws new noise in every run, and this command has now released labels"
    total = f"together they cost at most ε = {number(times * epsilon)} at δ = {times * delta:g}"
    return [f"{again} {times} times: {total}, each alone ε = {number(epsilon)}"]
