"""The interface of a learner: its settings, and the loss of a batch."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nzc import networks
from nzc._types import AnyArray
from nzc.datasets import Split
from nzc.datasets.augment import Affine
from nzc.errors import InputError, not_negative, positive, whole

if TYPE_CHECKING:
    from torch import Tensor

    from nzc.students.student import Student


@dataclass(frozen=True)
class Material:
    """All that a student ever sees: public rows with a released label, and public rows without one."""

    labelled: Split
    unlabelled: AnyArray
    classes: int


@dataclass(frozen=True)
class Learner(ABC):
    """How a student learns. What every file of this folder implements."""

    network: str
    steps: int
    batch_size: int
    lr: float
    weight_decay: float
    augment: Affine | None = None

    def __post_init__(self) -> None:
        if self.network is None:  # what dataset=none suggests
            raise InputError("student", type(self).__name__.lower(), "must be none where there is no dataset")
        networks.check(self.network)
        whole(1, steps=self.steps, batch_size=self.batch_size)
        positive(lr=self.lr)
        not_negative(weight_decay=self.weight_decay)

    @abstractmethod
    def loss(self, student: "Student", x: "Tensor", y: "Tensor") -> "Tensor":
        """The loss of a labelled batch: x [rows, ...] as networks take it, y [rows]."""

    def student(self, material: Material, seed: int) -> "Student":
        """The LightningModule to fit."""
        from nzc.students.student import Student

        return Student(self, material, seed)
