"""Figures of merit of the student that unequal classes do not flatter."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from nzc.data import UNKNOWN, DataSplits
from nzc.mechanisms import ABSTAIN
from nzc.runs.own_metric import OwnMetric, own_metrics
from nzc.runs.quantities import share
from nzc.types import Bools, Floats, Ints
from nzc.validation import Tree

if TYPE_CHECKING:
    from nzc.students import FittedStudent

#: Tables and warnings name at most so many classes.
NAMED = 3
#: The key of the recall of a class is this and the class's name.
RECALL = "metrics.recall."
Shares = dict[str, float | None]  # by name; None: it is not known


@dataclass(frozen=True, repr=False)
class Answers:
    """The student's answers on the test rows whose class is known; there is at least one."""

    truth: Ints  # [rows]
    predicted: Ints  # [rows]
    probs: Floats  # [rows, classes]

    @cached_property
    def counts(self) -> Ints:
        """How many rows each class has, [classes]."""
        return np.bincount(self.truth, minlength=self.probs.shape[1])

    @cached_property
    def recall(self) -> Floats:
        """The share of its rows that the student recognises, of each class, [classes]."""
        right = np.bincount(self.truth[self.truth == self.predicted], minlength=len(self.counts))
        return right / np.maximum(self.counts, 1)

    def ranked(self, score: str) -> float | None:
        """Return a score of scikit-learn's of each class against the rest, in the mean.

        Of two classes it is that of class 1. None: there is one class only, or no finite number.
        """
        from sklearn import metrics  # takes a second to import

        present = np.flatnonzero(self.counts)
        if len(present) < 2 or not np.isfinite(self.probs).all():
            return None
        if len(self.counts) == 2:
            present = present[1:]
        one = self.truth[:, None] == present
        return float(getattr(metrics, score)(one, self.probs[:, present]))


def _measured(label: str, measure: Callable[[Answers], float | None] | None) -> Any:
    """Return the field of a metric, which is a share: its label, and how it is computed."""
    return field(default=None, metadata={"quantity": share(label), "measure": measure})


@dataclass(frozen=True)
class Metrics:
    """Figures of merit of the student on the test split. None: it cannot be known.

    A line of this class puts a metric of nzc into result.json, table.csv and the tracker. The
    tables of runs and sweeps show these metrics where classes are of unequal size.

    majority           share of the most frequent class: the accuracy of always answering it
    balanced_accuracy  mean recall of the classes that the test split has
    auc                under the ROC curve of class 1; of more than two, the mean of each against
                       the rest
    recall             by the class's name; None: it has no test row
    average_precision  area under the curve of precision against recall, as with auc
    agreement          share of the labels of public rows that the student predicts too
    own                the user's, by name: keys beside those above
    """

    majority: float | None = _measured(
        "majority rate", lambda answers: answers.counts.max() / len(answers.truth)
    )
    balanced_accuracy: float | None = _measured(
        "balanced accuracy", lambda answers: answers.recall[answers.counts > 0].mean()
    )
    auc: float | None = _measured("AUC", lambda answers: answers.ranked("roc_auc_score"))
    recall: Shares = field(default_factory=dict)
    average_precision: float | None = _measured(
        "average precision", lambda answers: answers.ranked("average_precision_score")
    )
    agreement: float | None = _measured("agreement with released labels", None)
    own: Shares = field(default_factory=dict)

    @classmethod
    def of(
        cls, probs: Floats, truth: Ints, names: Sequence[str], predicted: Ints | None = None
    ) -> "Metrics":
        """Return the metrics of a student with known answers.

        probs      class probabilities [rows, classes]
        truth      true classes [rows], or UNKNOWN
        predicted  labels [rows]; None: the likeliest classes
        """
        if predicted is None:
            predicted = probs.argmax(axis=1)
        known = truth != UNKNOWN
        if not known.any():
            return cls(recall=dict.fromkeys(names))
        answers = Answers(truth[known], predicted[known], probs[known])
        values: Tree = {}
        for part in fields(cls):
            measure = part.metadata.get("measure")
            value = measure and measure(answers)
            if value is not None:
                values[part.name] = float(value)
        recall: Shares = dict.fromkeys(names)
        for at in np.flatnonzero(answers.counts).tolist():
            recall[names[at]] = float(answers.recall[at])
        return cls(recall=recall, **values)

    @classmethod
    def read(cls, record: Tree) -> "Metrics":
        """Return what `as_dict` wrote; a key that is not nzc's is a metric of the user's own."""
        own = dict(record)
        known = {part.name: own.pop(part.name) for part in fields(cls) if part.name in own}
        return cls(**known, own=own)

    def as_dict(self) -> Tree:
        """Return the section `metrics` of result.json."""
        record = asdict(self)
        own: Shares = record.pop("own")
        return record | own

    @property
    def lowest(self) -> list[tuple[str, float]]:
        """The classes of lowest recall, at most NAMED: their names and recall, the lowest first."""
        known = [(name, share) for name, share in self.recall.items() if share is not None]
        return sorted(known, key=lambda pair: pair[1])[:NAMED]


def unequal_classes(result: Tree) -> bool:
    """Return whether accuracy flatters a result with dotted keys: one class is far too frequent."""
    classes = sum(key.startswith(RECALL) for key in result)
    return is_far_from_even(result.get("metrics.majority"), classes)


def is_far_from_even(majority: float | None, classes: int) -> bool:
    """Return whether the most frequent of the classes is far above an even share."""
    return majority is not None and classes > 0 and majority > 1 / classes + 0.1


def share_right(labels: Ints, truth: Ints | None) -> float | None:
    """Return the share of right labels among those released whose truth is known; None: of none."""
    if truth is None:
        return None
    known: Bools = (labels != ABSTAIN) & (truth != UNKNOWN)
    if not known.any():
        return None
    return float((labels == truth)[known].mean())


def evaluate(
    student: "FittedStudent | None", splits: DataSplits, own: Sequence[OwnMetric] = ()
) -> tuple[float | None, Metrics, list[str]]:
    """Return the student's accuracy and metrics on the test split, and a line for each that failed.

    own  the user's metrics

    They are None where there is no student, or no test row.
    """
    truth = splits.test.y
    known = truth != UNKNOWN
    names = class_names(splits, splits.classes) if len(truth) else ()
    if student is None or not known.any():
        unknown = dict.fromkeys(metric.name for metric in own)
        return None, Metrics(recall=dict.fromkeys(names), own=unknown), []
    probs = student.probabilities(splits.test.x)
    predicted = student.decide(probs)
    values, failed = own_metrics(own, truth[known], predicted[known], probs[known])
    metrics = Metrics.of(probs, truth, names, predicted)
    return share_right(predicted, truth), replace(metrics, own=values), failed


def class_names(splits: DataSplits, classes: int) -> tuple[str, ...]:
    """Return the names of the classes: their numbers where they have no others."""
    if splits.labels:
        return splits.labels
    return tuple(map(str, range(classes)))
