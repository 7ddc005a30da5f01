"""The interface of students: what they see, their common settings, and what has learned."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated

import numpy as np

from nzc import networks
from nzc.mechanisms import ABSTAIN
from nzc.ranges import Count, Share, checked
from nzc.training.trainer import TrainerSettings
from nzc.types import AnyArray, Bools, CurveLog, Floats, Ints, Shape
from nzc.validation import InputError

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, repr=False)
class StudentData:
    """All that a student ever sees: public rows x [rows, ...], and their released labels [rows].

    labels  ABSTAIN where none is released
    soft    class probabilities [rows, classes] of the rows that have a label, which is then the
            likeliest class
    mixed   from 0 to 1: how much classes mix among rows that are alike, so that soft labels stay in
            doubt
    """

    x: AnyArray
    labels: Ints
    classes: int
    soft: Floats | None = None
    mixed: float = 0.0

    @property
    def labeled(self) -> Bools:
        """Which rows have a label, [rows]."""
        return np.asarray(self.labels != ABSTAIN)

    @property
    def probabilities(self) -> Floats:
        """Class probabilities [labeled rows, classes]: the soft labels, or 1 for the label."""
        if self.soft is not None:
            return self.soft[self.labeled]
        return np.eye(self.classes)[self.labels[self.labeled]]

    @property
    def shares(self) -> Floats:
        """The expected share of each class, [classes]: that in few labels is shrunk to 1/classes.

        That is the James-Stein estimate of Hausser and Strimmer (2009, JMLR 10, equation 7).
        """
        p = self.probabilities
        observed = p.mean(axis=0)
        uniform = 1 / self.classes
        error = p.var(axis=0).sum() / max(1, len(p) - 1)
        distance = np.square(observed - uniform).sum()
        shrinkage = 1.0
        if len(p) > 1 and error < distance:
            shrinkage = error / distance
        return shrinkage * uniform + (1 - shrinkage) * observed

    def weights(self, balance: float) -> Floats:
        """How often each labeled row is drawn, [labeled rows], 1 in the mean.

        With balance 1 classes are drawn like the square roots of their expected shares, which makes
        the error over all rows least where the error in a class falls like 1/draws; with 0 rows are
        drawn alike.
        """
        p = self.probabilities
        weights = (p @ (np.sqrt(self.shares) / p.mean(axis=0).clip(1e-12))) ** balance
        return weights / weights.mean()


@dataclass(frozen=True)
class FittedStudent:
    """A student that has learned. Its label is the class of the largest probability times weight.

    classifier  rows as networks take them (`as_input`) → logits [rows, classes]
    weights     [classes]; None: all are equal
    """

    classifier: "nn.Module"
    weights: Floats | None = field(default=None, repr=False)

    def probabilities(self, x: AnyArray) -> Floats:
        """Return the class probabilities [rows, classes] of x [rows, ...]."""
        return np.asarray(networks.outputs(self.classifier, x).double().softmax(dim=1))

    def predict(self, x: AnyArray) -> Ints:
        """Return the predicted labels [rows] of x [rows, ...]."""
        return self.decide(self.probabilities(x))

    def decide(self, probabilities: Floats) -> Ints:
        """Return the labels [rows] at class probabilities [rows, classes]."""
        if self.weights is not None:
            probabilities = probabilities * self.weights
        return probabilities.argmax(axis=1)


def _check_threshold(key: str, value: object) -> None:
    is_probability = isinstance(value, float) and 0 < value < 1
    if value not in (None, "balanced") and not is_probability:
        raise InputError(key, value, "must be balanced, a number between 0 and 1, or null")


#: A decision rule: `Student.threshold`.
Threshold = Annotated[float | str | None, checked(_check_threshold)]


@dataclass(frozen=True, kw_only=True)
class Student(ABC):
    """Settings of any kind of student: conf/student/linear.yaml explains these fields."""

    folds: Count = 1
    spread: Share = 0.0
    threshold: Threshold = None

    def check(  # noqa: B027
        self, shape: Shape, classes: int, trainer: TrainerSettings
    ) -> None:
        """Raise InputError where it cannot learn from rows of this shape; by default it can."""

    def decided(self, student: FittedStudent, public: AnyArray) -> FittedStudent:
        """Return the student with the decision rule, given public rows [rows, ...].

        `balanced` expects the shares of classes that the student sees in the public rows.
        """
        if self.threshold is None:
            return student
        if isinstance(self.threshold, str):
            shares = student.probabilities(public).mean(axis=0)
            weights = 1 / shares.clip(1e-3)  # a class counts as no rarer than 1e-3
        else:
            weights = np.array([self.threshold, 1 - self.threshold])
        return replace(student, weights=weights)

    @abstractmethod
    def fit(
        self,
        data: StudentData,
        seed: int,
        trainer: TrainerSettings,
        name: str,
        log: CurveLog | None = None,
    ) -> FittedStudent:
        """Learn; `name` heads the progress bar, and `log` receives the learning curves."""
