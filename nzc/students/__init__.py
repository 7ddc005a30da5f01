"""Students: how to learn from released labels. One kind of student a file."""

from nzc.students.config import FittedStudent, Student, StudentData
from nzc.students.network import StudentConfig

__all__ = ["FittedStudent", "Student", "StudentConfig", "StudentData"]
