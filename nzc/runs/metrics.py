"""Figures of merit of the student that unequal classes do not flatter, and the warnings that follow
from them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np

from nzc.data import UNKNOWN, DataSplits
from nzc.mechanisms import ABSTAIN
from nzc.runs.formatting import RECALL, percent, some
from nzc.runs.own_metric import OwnMetric, own_metrics
from nzc.students import FittedStudent
from nzc.types import Floats, Ints

#: Tables and warnings name at most so many classes.
NAMED = 3
#: A run warns of classes with a recall below this, and of a student that differs by so much more
#: than noise explains.
_MISSED = 0.05
#: A class with so many labels that noise cannot explain is forgotten where the student never
#: predicts it.
_FORGOTTEN = 5


@dataclass(frozen=True)
class Metrics:
    """Figures of merit of the student on the test split, from 0 to 1 but for `own`. None: it cannot
    be known.
    """

    majority: float | None = (
        None  # share of the most frequent class: the accuracy of always answering it
    )
    balanced_accuracy: float | None = None  # mean recall of the classes that the test split has
    auc: float | None = (
        None  # under the ROC curve of class 1; of more than two, the mean of each against the rest
    )
    recall: dict[str, float | None] = field(
        default_factory=dict
    )  # by the class's name; None: it has no test row
    average_precision: float | None = (
        None  # area under the curve of precision against recall, as with auc
    )
    agreement: float | None = (
        None  # share of the labels of public rows that the student predicts too
    )
    own: dict[str, float | None] = field(
        default_factory=dict
    )  # the user's, by name: keys beside those above

    @classmethod
    def of(
        cls, probs: Floats, truth: Ints, names: Sequence[str], predicted: Ints | None = None
    ) -> "Metrics":
        """Return them for class probabilities [rows, classes], true classes [rows] or UNKNOWN, and
        labels [rows].
        """
        from sklearn.metrics import (
            average_precision_score,
            recall_score,
            roc_auc_score,
        )  # takes a second to import

        predicted = (probs.argmax(axis=1) if predicted is None else predicted)[truth != UNKNOWN]
        probs, truth = probs[truth != UNKNOWN], truth[truth != UNKNOWN]
        counts = np.bincount(truth, minlength=len(names))
        if not counts.any():
            return cls(recall=dict.fromkeys(names))
        recall = recall_score(
            truth, predicted, labels=np.arange(len(names)), average=None, zero_division=0
        )
        known = np.flatnonzero(counts)[-1 if len(names) == 2 else 0 :]
        one, score = truth[:, None] == known, probs[:, known]
        ranked = (counts > 0).sum() > 1 and np.isfinite(probs).all()
        return cls(
            majority=float(counts.max() / len(truth)),
            balanced_accuracy=float(recall[counts > 0].mean()),
            auc=float(roc_auc_score(one, score)) if ranked else None,
            average_precision=float(average_precision_score(one, score)) if ranked else None,
            recall={
                name: float(recall[at]) if counts[at] else None for at, name in enumerate(names)
            },
        )

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> "Metrics":
        """Return what `as_dict` wrote; a key that is none of nzc's is a metric of the user's own."""
        names = [part.name for part in fields(cls)]
        known = {name: record[name] for name in names if name in record}
        return cls(
            **known, own={name: value for name, value in record.items() if name not in names}
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the section `metrics` of result.json."""
        record = asdict(self)
        own: dict[str, float | None] = record.pop("own")
        return {**record, **own}

    @property
    def lowest(self) -> list[tuple[str, float]]:
        """The classes of lowest recall, at most NAMED: their names and recall, the lowest first."""
        known = [(name, share) for name, share in self.recall.items() if share is not None]
        return sorted(known, key=lambda pair: pair[1])[:NAMED]


def unequal_classes(result: Mapping[str, Any]) -> bool:
    """Return whether accuracy flatters a result with dotted keys: the majority rate is far above an
    even share.
    """
    return is_far_from_even(
        result.get("metrics.majority"), sum(key.startswith(RECALL) for key in result)
    )


def is_far_from_even(majority: float | None, classes: int) -> bool:
    """Return whether the most frequent of so many classes is far more frequent than if all had the
    same share.
    """
    return majority is not None and classes > 0 and majority > 1 / classes + 0.1


def share_right(labels: Ints, truth: Ints) -> float | None:
    """Return the share of right labels among those released whose truth is known; None: there are
    none.
    """
    known = (labels != ABSTAIN) & (truth != UNKNOWN)
    return float((labels == truth)[known].mean()) if known.any() else None


def evaluate(
    student: FittedStudent | None, splits: DataSplits | None, own: Sequence[OwnMetric] = ()
) -> tuple[float | None, Metrics, list[str]]:
    """Return the student's accuracy and metrics on the test split, and a line for each of its `own`
    that failed.

    They are None where there is no student, or no test row.
    """
    unknown: dict[str, float | None] = {metric.name: None for metric in own}
    if splits is None or not len(splits.test):
        return None, Metrics(own=unknown), []
    names, test = class_names(splits, splits.classes), splits.test
    if student is None:
        return None, Metrics(recall=dict.fromkeys(names), own=unknown), []
    probs = student.probabilities(test.x)
    predicted = student.decide(probs)
    metrics = Metrics.of(probs, test.y, names, predicted)
    known = test.y != UNKNOWN
    if not known.any():
        return None, replace(metrics, own=unknown), []
    values, failed = own_metrics(own, test.y[known], predicted[known], probs[known])
    return share_right(predicted, test.y), replace(metrics, own=values), failed


@dataclass(frozen=True, repr=False)
class Agreement:
    """The student beside the labels of the same public rows, released or by released counts:
    public, and free.
    """

    labels: Ints  # [rows]
    right: Floats  # [rows] probability of each label by the released counts; 1 where labels alone were released
    predicted: Ints  # [rows] by the student
    unlabelled: Ints  # what it predicts for all other public rows
    counted: bool  # whether `right` is known, and the student decides for the likeliest class

    @property
    def share(self) -> float:
        """The share of the labels that the student predicts too."""
        return float((self.labels == self.predicted).mean())

    def warnings(self, names: Sequence[str], others: str) -> list[str]:
        """Return a line where noise does not explain how the student differs; `others`: students to
        try instead.
        """
        wrong = 1 - self.share
        by_noise = float(1 - self.right.mean())
        predicted = np.union1d(self.predicted, self.unlabelled)
        # Where only labels are known, noise may explain all that differs, if it is spread over the
        # classes.
        spread = 2 * wrong * len(self.labels) / len(names)
        sure = np.bincount(self.labels, self.right, len(names)) - (0 if self.counted else spread)
        forgotten = [
            name for at, name in enumerate(names) if sure[at] >= _FORGOTTEN and at not in predicted
        ]
        if forgotten:
            return [
                f"the student never predicts {some(forgotten, NAMED)}, which released labels have: try {others}"
            ]
        if self.counted and wrong > 2 * by_noise + _MISSED:
            why = f"the student contradicts {percent(wrong)} of the labels that it learned from"
            return [f"{why}, and noise explains {percent(by_noise)}: try {others}"]
        return []


def class_names(splits: DataSplits | None, classes: int) -> tuple[str, ...]:
    """Return the names of the classes: their numbers where they have no others."""
    return (
        splits.labels if splits is not None and splits.labels else tuple(map(str, range(classes)))
    )


def warnings_of(
    splits: DataSplits | None,
    released: Ints | None,
    learned: Ints | None,
    names: Sequence[str],
    accuracy: float | None,
    metrics: Metrics,
    remedy: str = "more queries or less noise",
    others: Sequence[str] = (),
) -> list[str]:
    """Return what a reader of the accuracy must know, a line each. All but the first follow from
    public facts only.

    released, learned  labels [pool] released and learned from, ABSTAIN where there is none; None:
                       there are to be none
    remedy             what to try for more and better labels; others: what else may help a class
                       that is rare
    """
    lines = []
    if splits is not None and splits.undeclared_classes is not None:
        counts = np.bincount(splits.private.y, minlength=len(names))
        shown = some([f"{name} ({count:,})" for name, count in zip(names, counts, strict=True)], 20)
        why = "dataset.classes=null: the classes are those of the private records"
        lines.append(f"{why}: {shown}. To publish, declare them")
    if released is not None and (released == ABSTAIN).all():
        return [
            *lines,
            f"no label was released, so no student can learn: try {remedy}, or a lower threshold where there is one",
        ]
    if missing := [
        name for at, name in enumerate(names) if released is not None and at not in released
    ]:
        why = (
            f"{len(missing)} of {len(names)} classes got no released label ({some(missing, NAMED)})"
        )
        lines.append(f"{why}: try {remedy}")
    if learned is not None and (count := int((learned != ABSTAIN).sum())) < 2 * len(names):
        why = f"the student learned from {count} labels, fewer than 2 for each of {len(names)} classes"
        lines.append(f"{why}: try {remedy}, or student.spread=1 with representation=spectral")
    if accuracy is None or metrics.majority is None or metrics.balanced_accuracy is None:
        return lines
    chance, balanced = (
        1 / sum(share is not None for share in metrics.recall.values()),
        metrics.balanced_accuracy,
    )
    if chance < 1 and (accuracy <= metrics.majority or balanced <= chance + 0.01):
        own = f"the student's accuracy is {percent(accuracy)} (balanced: {percent(balanced)})"
        most = (
            f"the most frequent class has {percent(metrics.majority)} (balanced: {percent(chance)})"
        )
        helps = _any_of(remedy, *others)
        if len(names) == 2 and balanced > chance + 0.01:
            helps = "student.threshold=NUMBER, which trades recall for accuracy"
        lines.append(f"{own}, and always answering {most}: try {helps}")
    if missed := [
        f"{name} ({percent(share)})" for name, share in metrics.lowest if share < _MISSED
    ]:
        why = f"the student recognises less than {percent(_MISSED)} of the rows of {some(missed)}"
        lines.append(
            f"{why}: try {_any_of('student.threshold=balanced', *others[:1], 'a larger ε')}"
        )
    return lines


def _any_of(*choices: str) -> str:
    return ", or ".join(filter(None, [", ".join(choices[:-1]), choices[-1]]))
