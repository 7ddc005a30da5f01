"""Students: how to learn from released labels. One kind of student a file."""

from nzc.students.config import FittedStudent, Student, StudentConfig, StudentData

__all__ = ["FittedStudent", "Student", "StudentConfig", "StudentData"]
