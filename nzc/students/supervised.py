"""The plain student: cross-entropy on the released labels."""

from dataclasses import dataclass

from torch import Tensor

from nzc.students.learner import Learner
from nzc.students.student import Student


@dataclass(frozen=True)
class Supervised(Learner):
    """Learns from labelled rows only, as in the experiments of the NZC papers."""

    def losses(self, student: Student, x: Tensor, y: Tensor, u: Tensor) -> dict[str, Tensor]:
        return {"labelled": student.labelled_loss(student.network(x), y)}
