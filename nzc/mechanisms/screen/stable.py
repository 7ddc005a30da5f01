"""The screen of Stable: answer where no single vote can change the plurality. NZC's idea made sound."""

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from nzc.mechanisms.screen.base import Screen
from nzc.types import Floats, Ints


@dataclass(frozen=True)
class StabilityScreen(Screen):
    """Answer where d + N(0, σ₁²) ≥ threshold, d = max(0, (n₁ − n₂)/2 − 1) for the two largest counts.

    Distance to instability (cf. Bassily et al. 2018). A moved vote changes n₁ − n₂ by at most 2, so d by at most 1.
    Where d > 0 the gap is at least 3, and every neighbour has the same single plurality. Of two neighbours, either one
    has d > 0 and both have the same plurality, which then reveals nothing beyond the screen. Or both have d = 0, and a
    plurality is released with probability Φ(−threshold/σ₁) only: the `delta_cost`. So releasing the plurality of Q
    queries costs the screen's ε at δ − Q·delta_cost.
    """

    def statistic(self, votes: Ints, student_probs: Floats | None) -> Floats:
        top = np.partition(votes, -2, axis=-1)[..., -2:]
        return np.asarray(np.maximum(0.0, (top[..., 1] - top[..., 0]) / 2 - 1))

    @property
    def delta_cost(self) -> float:
        return float(np.exp(log_ndtr(-self.threshold / self.sigma1)))
