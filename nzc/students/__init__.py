"""Students: how to learn from released labels. One kind of student a file."""

from nzc.students.config import StudentConfig, StudentData

__all__ = ["StudentConfig", "StudentData"]
