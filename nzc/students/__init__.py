"""Students: how to learn from released labels. One kind of student a file."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nzc.students.config import FittedStudent, Student, StudentData
    from nzc.students.network import StudentConfig

__all__ = ["FittedStudent", "Student", "StudentConfig", "StudentData"]


def __getattr__(name: str) -> Any:  # `nzc predict` needs a part of this package only
    if name not in __all__:
        raise AttributeError(f"module 'nzc.students' has no attribute {name!r}")
    return getattr(import_module(f"nzc.students.{'network' if name == 'StudentConfig' else 'config'}"), name)
