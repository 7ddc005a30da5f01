"""Students: how to learn from released labels. One kind of student a file."""

from typing import TYPE_CHECKING, Any

from nzc.students.base import FittedStudent, Student, StudentData

if TYPE_CHECKING:
    from nzc.students.network import StudentConfig

__all__ = ["FittedStudent", "Student", "StudentConfig", "StudentData"]


def __getattr__(name: str) -> Any:
    if name != "StudentConfig":
        raise AttributeError(f"module 'nzc.students' has no attribute {name!r}")
    from nzc.students.network import StudentConfig  # imports torch

    return StudentConfig
