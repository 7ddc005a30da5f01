"""The screen of Interactive: answer where the teachers agree on what the student does not know yet."""

from dataclasses import dataclass

import numpy as np

from nzc.mechanisms.screen.base import Screen
from nzc.types import Floats, Ints
from nzc.validation import between_0_and_1


@dataclass(frozen=True)
class InteractiveScreen(Screen):
    """Answer where max_j (n_j − N p_j) + N(0, σ₁²) ≥ threshold, p being the student's probabilities.

    Scalable PATE 2018, Algorithm 2. Without a student p = 0, which is the screen of Confident.
    Above `confidence`, the student's own label is used for a query that is not answered.
    """

    confidence: float

    asks_student = True

    def __post_init__(self) -> None:
        super().__post_init__()
        between_0_and_1(confidence=self.confidence)

    def statistic(self, votes: Ints, student_probs: Floats | None) -> Floats:
        if student_probs is None:
            return np.asarray(votes.max(axis=-1), dtype=np.float64)
        return np.asarray(_ahead(votes, student_probs).max(axis=-1))

    def relevant_probs(self, votes: Ints, student_probs: Floats) -> Floats:
        # One moved vote raises a class by at most 1 and lowers the largest by at most 1.
        ahead = _ahead(votes, student_probs)
        return np.where(ahead < ahead.max(axis=-1, keepdims=True) - 2, np.inf, student_probs)

    def reinforce(self, labels: Ints, student_probs: Floats) -> Ints:
        sure = (labels < 0) & (student_probs.max(axis=1) > self.confidence)
        return np.where(sure, student_probs.argmax(axis=1), labels)


def _ahead(votes: Ints, student_probs: Floats) -> Floats:
    """Return how far each count exceeds what the student expects, [..., classes]."""
    return np.asarray(votes - votes.sum(axis=-1, keepdims=True) * student_probs)
