"""The supervised student: cross-entropy on the released labels."""

from dataclasses import dataclass

from torch import Tensor

from nzc.students.network import NetworkStudent, StudentModule


@dataclass(frozen=True, kw_only=True)
class Supervised(NetworkStudent):
    """Learns from labeled rows only, as in the experiments of the NZC papers."""

    def losses(self, student: StudentModule, x: Tensor, y: Tensor, u: Tensor) -> dict[str, Tensor]:
        return {"labeled": student.labeled_loss(student.network(x), y)}
