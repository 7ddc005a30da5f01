"""Interactive: answer where the teachers agree and the student does not know yet."""

from dataclasses import dataclass

import numpy as np

from nzc._types import Floats, Ints
from nzc.aggregators.aggregator import ABSTAIN
from nzc.aggregators.screen.screen import Screen
from nzc.errors import share


@dataclass(frozen=True)
class Interactive(Screen):
    """Answer iff max_j (n_j − N p_j) + N(0, σ₁²) ≥ T, p the student's probabilities. Scalable PATE 2018, Algorithm 2.

    Without a baseline (no student yet) p = 0: the papers' first round, Confident.
    """

    confidence: float

    asks_student = True

    def __post_init__(self) -> None:
        super().__post_init__()
        share(confidence=self.confidence)

    def statistic(self, votes: Ints, baseline: Floats | None) -> Floats:
        if baseline is None:
            return np.asarray(votes.max(axis=-1), dtype=np.float64)
        return np.asarray(_ahead(votes, baseline).max(axis=-1))

    def within_reach(self, votes: Ints, baseline: Floats) -> Floats:
        # A moved vote raises a class by at most 1 and lowers the largest by at most 1.
        ahead = _ahead(votes, baseline)
        return np.where(ahead < ahead.max(axis=-1, keepdims=True) - 2, np.inf, baseline)

    def reinforce(self, labels: Ints, baseline: Floats) -> Ints:
        sure = (labels == ABSTAIN) & (baseline.max(axis=1) > self.confidence)
        return np.where(sure, baseline.argmax(axis=1), labels)


def _ahead(votes: Ints, baseline: Floats) -> Floats:
    """How far each class is ahead of the votes that the student expects for it, [..., classes]."""
    return np.asarray(votes - votes.sum(axis=-1, keepdims=True) * baseline)
