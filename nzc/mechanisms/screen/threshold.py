"""The screen of Confident: answer where the teachers agree."""

from dataclasses import dataclass

import numpy as np

from nzc.mechanisms.screen.base import Screen
from nzc.types import Floats, Ints


@dataclass(frozen=True)
class ThresholdScreen(Screen):
    """Answer where max_j n_j + N(0, σ₁²) ≥ threshold (Scalable PATE 2018, Algorithm 1)."""

    def statistic(self, votes: Ints, student_probs: Floats | None) -> Floats:
        return np.asarray(votes.max(axis=-1), dtype=np.float64)
