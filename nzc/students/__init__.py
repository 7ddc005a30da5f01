"""Students: how to learn from released labels. One file a learner."""

from nzc.students.learner import Learner, Material

__all__ = ["Learner", "Material"]
