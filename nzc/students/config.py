"""The interfaces of students: settings of any kind, settings of a network with a loss, the data they see."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from nzc import networks
from nzc.mechanisms import ABSTAIN
from nzc.types import AnyArray, Bools, CurveLog, Floats, Ints
from nzc.validation import below_1, fits_memory, not_negative, positive, share, whole, within

if TYPE_CHECKING:
    from torch import Tensor, nn

    from nzc.students.module import StudentModule
    from nzc.training.trainer import TrainerSettings


@dataclass(frozen=True, repr=False)
class StudentData:
    """All that a student ever sees: public rows x [rows, ...], and labels [rows], ABSTAIN where none is released."""

    x: AnyArray
    labels: Ints
    classes: int

    @property
    def labelled(self) -> Bools:
        """Which rows have a label, [rows]."""
        labelled: Bools = self.labels != ABSTAIN
        return labelled


class FittedStudent(Protocol):
    """A student that has learned."""

    @property
    def classifier(self) -> "nn.Module":
        """Maps rows as networks take them (nzc.networks.as_input) to logits [rows, classes]."""

    def probabilities(self, x: AnyArray) -> Floats:
        """Return the class probabilities [rows, classes] of x [rows, ...]."""

    def predict(self, x: AnyArray) -> Ints:
        """Return the predicted labels [rows] of x [rows, ...]."""


class Student(ABC):
    """Settings of any kind of student.

    folds   2 or more: labels that cross-validation contradicts are removed (label_cleaning)
    spread  share of the pool that is labelled like the nearest released row (label_spreading)
    """

    folds: int
    spread: float

    @abstractmethod
    def check(self, shape: tuple[int, ...], classes: int, trainer: "TrainerSettings") -> None:
        """Raise InputError where it cannot learn from rows of this shape."""

    @abstractmethod
    def fit(
        self, data: StudentData, seed: int, trainer: "TrainerSettings", name: str, log: CurveLog | None = None
    ) -> FittedStudent:
        """Learn; `name` heads the progress bar, and `log` receives the learning curves."""


@dataclass(frozen=True)
class StudentConfig(Student):
    """Settings of a network; conf/student/supervised.yaml explains each. A subclass adds its own and the loss.

    label_noise_rate    the loss treats a label as any class with this probability (forward correction: Patrini et al.
                        2017, arXiv 1609.03683)
    labeled_loss_decay  networks fit the majority of labels before they memorise wrong ones (Liu et al. 2020, arXiv
                        2007.00151)
    """

    network: networks.Network | None
    steps: int
    batch_size: int
    lr: float
    weight_decay: float
    average: float
    balance: float
    validation: float
    patience: int
    label_noise_rate: float
    labeled_loss_decay: float
    folds: int
    spread: float = 0.0
    augment: Callable[..., Any] | None = None
    unlabelled: int = 0
    optimizer: Callable[..., Any] | None = None
    schedule: Callable[..., Any] | None = None

    #: Whether a step of the optimiser may compute the loss several times, as that of LBFGS does.
    repeats_loss: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.network is not None:  # dataset=none suggests no network
            networks.check(self.network)
        whole(1, steps=self.steps, batch_size=self.batch_size, patience=self.patience, folds=self.folds)
        whole(0, unlabelled=self.unlabelled)
        positive(lr=self.lr)
        not_negative(weight_decay=self.weight_decay, balance=self.balance)
        below_1(average=self.average, validation=self.validation)
        share(spread=self.spread)
        below_1(label_noise_rate=self.label_noise_rate, labeled_loss_decay=self.labeled_loss_decay)
        if self.optimizer is not None or self.schedule is not None:
            from nzc.training.optimizer import check_optimizer

            own = self.optimizer, self.schedule
            check_optimizer(self.lr, self.weight_decay, *own, closure=lambda: 0.0 if self.repeats_loss else None)

    @abstractmethod
    def losses(self, student: "StudentModule", x: "Tensor", y: "Tensor", u: "Tensor") -> "dict[str, Tensor]":
        """Return the terms of a batch's loss, by name. They are added up, and each is a learning curve.

        x  [rows, ...] labelled rows, augmented, with labels y [rows]
        u  [unlabelled, ...] rows of the pool, not augmented
        """

    def check(self, shape: tuple[int, ...], classes: int, trainer: "TrainerSettings") -> None:
        trainer.check()
        rows = self.batch_size + self.unlabelled
        counts = {"steps": self.steps, "batch_size": self.batch_size, "unlabelled": self.unlabelled}
        with within("student"):  # row numbers of all batches, and the rows of one
            fits_memory(rows * (8 * self.steps + 4 * math.prod(shape)) + 200 * self.steps, **counts)
        with within("student"):
            networks.require_fit(self.network, shape, classes)

    def fit(
        self, data: StudentData, seed: int, trainer: "TrainerSettings", name: str, log: CurveLog | None = None
    ) -> "StudentModule":
        module = self.student(data, seed)
        trainer.fit(module, name, log, max_epochs=1)
        return module

    def student(self, data: StudentData, seed: int) -> "StudentModule":
        """Return the LightningModule to fit."""
        from nzc.students.module import StudentModule

        return StudentModule(self, data, seed)
