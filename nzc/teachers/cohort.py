"""The interface of a cohort: a few teachers that the ensemble engine trains side by side."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from nzc.teachers.engine import TeacherEnsemble, _Teacher


class Cohort(ABC):
    """A few teachers that are trained side by side."""

    def __init__(self, ensemble: "TeacherEnsemble", teachers: "list[_Teacher]") -> None:
        self.teachers = teachers
        self.precision = ensemble.trainer.precision_plugin.forward_context  # autocast is a setting of each thread

    @staticmethod
    @abstractmethod
    def fitting(ensemble: "TeacherEnsemble", probe: "_Teacher") -> int:
        """Return how many teachers are best trained at once on this machine."""

    @abstractmethod
    def train_pass(self) -> None:
        """Train one pass of every teacher over its shard."""

    @abstractmethod
    def predict(self, public: Tensor) -> Iterator[Tensor]:
        """Yield each teacher's labels of the public rows, [rows], on the CPU."""
