"""A student that is a network: what it checks beforehand, and how it is fitted."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from nzc import networks
from nzc.students.config import FittedStudent, StudentData, StudentSettings
from nzc.training.trainer import TrainerSettings
from nzc.types import CurveLog
from nzc.validation import within

if TYPE_CHECKING:
    from nzc.students.module import StudentModule


@dataclass(frozen=True, kw_only=True)
class StudentConfig(StudentSettings):
    """A student that is a network. A subclass adds its own settings and the loss."""

    def check(self, shape: tuple[int, ...], classes: int, trainer: TrainerSettings) -> None:
        trainer.check()
        with within("student"):
            networks.require_fit(self.network, shape, classes, unlabeled=self.unlabelled > 0)

    def fit(
        self, data: StudentData, seed: int, trainer: TrainerSettings, name: str, log: CurveLog | None = None
    ) -> FittedStudent:
        module = self.student(data, seed)
        module.log_curves = None if log is None else partial(log, name)
        trainer.fit(module, name, total=self.steps, max_epochs=1, use_distributed_sampler=False)
        return FittedStudent(module.classifier)

    def student(self, data: StudentData, seed: int) -> "StudentModule":
        """Return the LightningModule to fit."""
        from nzc.students.module import StudentModule

        return StudentModule(self, data, seed)
