"""Distance to instability: answer where no one vote can change the label. NZC's idea made sound, at a price."""

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from nzc._types import Floats, Ints
from nzc.aggregators.screen.screen import Screen


@dataclass(frozen=True)
class Stable(Screen):
    """Answer iff d + N(0, σ₁²) ≥ T, d = max(0, (n₁ − n₂)/2 − 1) of the two largest counts (cf. Bassily et al. 2018).

    A moved vote changes n₁ − n₂ by at most 2, so d by at most 1. Where d > 0 the gap is at least 3, and every neighbour
    has the same single plurality: of two neighbours, either one has d > 0 and the plurality is the same, so it reveals
    nothing beyond the screen; or both have d = 0, and then a plurality is released with probability Φ(−T/σ₁) only, the
    `leak`. So the plurality of Q queries costs the screen's ε at δ − Q·leak.
    """

    def statistic(self, votes: Ints, baseline: Floats | None) -> Floats:
        top = np.partition(votes, -2, axis=-1)[..., -2:]
        return np.asarray(np.maximum(0.0, (top[..., 1] - top[..., 0]) / 2 - 1))

    @property
    def leak(self) -> float:
        return float(np.exp(log_ndtr(-self.threshold / self.sigma1)))
