"""The interface of a learner: its settings, and the loss of a batch."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nzc import networks
from nzc._types import AnyArray, Bools, Ints
from nzc.aggregators.aggregator import ABSTAIN
from nzc.datasets.augment import Affine
from nzc.errors import fraction, not_negative, positive, whole

if TYPE_CHECKING:
    from torch import Tensor

    from nzc.students.student import Student


@dataclass(frozen=True)
class Material:
    """All that a student ever sees: public rows x [rows, ...] and their released labels [rows], ABSTAIN without one."""

    x: AnyArray
    labels: Ints
    classes: int

    @property
    def answered(self) -> Bools:
        """Which rows have a label, [rows]."""
        answered: Bools = self.labels != ABSTAIN
        return answered


@dataclass(frozen=True)
class Learner(ABC):
    """How a student learns. What every file of this folder implements.

    steps         batches of the whole fit, each of `batch_size` labelled rows and `unlabelled` rows of the whole pool
    average       decay of the moving average of the weights, by which the student predicts; 0: the last weights
    balance       0: rows are drawn alike; 1: classes are, however often each was released
    validation    share of the labelled rows held out to stop early and keep the best weights; 0: none
    patience      how many of 50 looks at them may pass without a better one
    wrong         presumed share of wrong labels: with this probability a released label is taken to be any class, all
                  alike (forward correction: Patrini et al. 2017, arXiv 1609.03683), so that a label which all else
                  contradicts pulls little
    fade          share of the steps by which the labelled term is gone, 0: it stays. A network learns what most labels
                  say before it learns the wrong ones by heart (Liu et al. 2020, arXiv 2007.00151)
    folds         2 or more: labels that students of the other folds contradict are left out (doubt.py); 1: none are
    """

    network: str
    steps: int
    batch_size: int
    lr: float
    weight_decay: float
    average: float
    balance: float
    validation: float
    patience: int
    wrong: float
    fade: float
    folds: int
    augment: Affine | None = None
    unlabelled: int = 0

    def __post_init__(self) -> None:
        if self.network is not None:  # dataset=none suggests none
            networks.check(self.network)
        whole(1, steps=self.steps, batch_size=self.batch_size, patience=self.patience, folds=self.folds)
        whole(0, unlabelled=self.unlabelled)
        positive(lr=self.lr)
        not_negative(weight_decay=self.weight_decay, balance=self.balance)
        fraction(average=self.average, validation=self.validation, wrong=self.wrong, fade=self.fade)

    @abstractmethod
    def losses(self, student: "Student", x: "Tensor", y: "Tensor", u: "Tensor") -> "dict[str, Tensor]":
        """The terms of a batch's loss, by name; they are added, and drawn as curves.

        x [rows, ...] as networks take it, augmented, with labels y [rows]; u [unlabelled, ...] not augmented.
        """

    def student(self, material: Material, seed: int) -> "Student":
        """The LightningModule to fit."""
        from nzc.students.student import Student

        return Student(self, material, seed)
