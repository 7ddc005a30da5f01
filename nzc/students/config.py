"""The interfaces of students: the data they see, settings of any kind, and those of a network with a loss."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nzc import networks
from nzc.mechanisms import ABSTAIN
from nzc.settings import BelowOne, Count, CountOrZero, NotNegative, Share
from nzc.training.optimizer import OptimizerSettings
from nzc.training.trainer import TrainerSettings
from nzc.types import AnyArray, Bools, CurveLog, Floats, Ints

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True, repr=False)
class StudentData:
    """All that a student ever sees: public rows x [rows, ...], and labels [rows], ABSTAIN where none is released.

    soft  class probabilities [rows, classes] of the rows that have a label, which is then the likeliest class
    """

    x: AnyArray
    labels: Ints
    classes: int
    soft: Floats | None = None

    @property
    def labeled(self) -> Bools:
        """Which rows have a label, [rows]."""
        labeled: Bools = self.labels != ABSTAIN
        return labeled

    @property
    def probabilities(self) -> Floats:
        """Class probabilities [labeled rows, classes]: the soft labels, or 1 for the label."""
        if self.soft is not None:
            return self.soft[self.labeled]
        return np.eye(self.classes)[self.labels[self.labeled]]


@dataclass(frozen=True)
class FittedStudent:
    """A student that has learned.

    classifier  maps rows as networks take them (nzc.networks.as_input) to logits [rows, classes]
    """

    classifier: "nn.Module"

    def probabilities(self, x: AnyArray) -> Floats:
        """Return the class probabilities [rows, classes] of x [rows, ...]."""
        return networks.probabilities(self.classifier, x)

    def predict(self, x: AnyArray) -> Ints:
        """Return the predicted labels [rows] of x [rows, ...]."""
        return np.asarray(self.probabilities(x).argmax(axis=1))


class Student(ABC):
    """Settings of any kind of student.

    folds   2 or more: labels that cross-validation contradicts are removed (`labels.clean_labels`)
    spread  share of the pool that is labeled like the nearest released row (`labels.spread_labels`)
    """

    folds: Count
    spread: Share

    def __post_init__(self) -> None:  # noqa: B027
        """Check nothing; subclasses may check more."""

    def check(self, shape: tuple[int, ...], classes: int, trainer: TrainerSettings) -> None:  # noqa: B027
        """Raise InputError where it cannot learn from rows of this shape; by default nothing is known to be wrong."""

    @abstractmethod
    def fit(
        self, data: StudentData, seed: int, trainer: TrainerSettings, name: str, log: CurveLog | None = None
    ) -> FittedStudent:
        """Learn; `name` heads the progress bar, and `log` receives the learning curves."""


@dataclass(frozen=True, kw_only=True)
class StudentSettings(OptimizerSettings, Student):
    """Settings of a student that is a network; conf/student/supervised.yaml explains each.

    label_noise_rate is a forward correction (Patrini et al. 2017, arXiv 1609.03683). Of labeled_loss_decay: networks
    fit the majority of labels before they memorise wrong ones (Liu et al. 2020, arXiv 2007.00151).
    """

    network: networks.Network | None  # dataset=none suggests none
    steps: Count
    batch_size: Count
    average: BelowOne
    balance: NotNegative
    validation: BelowOne
    patience: Count
    label_noise_rate: BelowOne
    labeled_loss_decay: BelowOne
    folds: Count
    spread: Share = 0.0
    augment: Callable[..., Any] | None = None
    unlabelled: CountOrZero = 0

    @abstractmethod
    def losses(self, student: Any, x: "Tensor", y: "Tensor", u: "Tensor") -> "dict[str, Tensor]":
        """Return the terms of a batch's loss, by name. They are added up, and each is a learning curve.

        student  the StudentModule that learns
        x        [rows, ...] labeled rows, augmented, with labels y [rows] or class probabilities y [rows, classes]
        u        [unlabelled, ...] rows of the pool, not augmented
        """
