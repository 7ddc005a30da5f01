"""Students: how to learn from released labels. One kind of student a file."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nzc.students.base import FittedStudent, Student, StudentData
    from nzc.students.network import NetworkStudent

__all__ = ["FittedStudent", "NetworkStudent", "Student", "StudentData"]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: `nzc predict` needs none of them."""
    if name not in __all__:
        raise AttributeError(f"module 'nzc.students' has no attribute {name!r}")
    module = "network" if name == "NetworkStudent" else "base"
    return getattr(import_module(f"nzc.students.{module}"), name)
