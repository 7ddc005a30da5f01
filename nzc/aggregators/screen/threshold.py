"""Confident: answer where the teachers agree."""

from dataclasses import dataclass

import numpy as np

from nzc._types import Floats, Ints
from nzc.aggregators.screen.screen import Screen


@dataclass(frozen=True)
class Threshold(Screen):
    """Answer iff max_j n_j + N(0, σ₁²) ≥ T. Scalable PATE 2018, Algorithm 1."""

    def statistic(self, votes: Ints, baseline: Floats | None) -> Floats:
        return np.asarray(votes.max(axis=-1), dtype=np.float64)
