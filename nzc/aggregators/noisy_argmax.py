"""The one mechanism of all four papers: argmax of boosted counts plus noise."""

from dataclasses import dataclass, field

import numpy as np

from nzc._types import Ints
from nzc.aggregators.aggregator import ABSTAIN, Aggregator
from nzc.aggregators.boost import Boost
from nzc.aggregators.noise.noise import Noise
from nzc.privacy import Epsilon
from nzc.privacy.conversion import epsilon


@dataclass(frozen=True)
class NoisyArgmax(Aggregator):
    """argmax_j { n_j + c·[j is the plurality] + Δ·Z_j } with independent noise Z; ties break to the lowest class.

    plurality (no noise), LNMax (Laplace), GNMax (Gaussian), NZC (either, c > 0) are settings of it.
    """

    noise: Noise
    boost: Boost = field(default_factory=Boost)

    def label(self, votes: Ints, rng: np.random.Generator) -> Ints:
        noise = self.noise.sample(votes.shape, rng) * self.boost.scale(votes)[:, None]
        labels: Ints = (self.boost.scores(votes) + noise).argmax(axis=1)
        return labels

    def epsilon(self, votes: Ints, labels: Ints, delta: float) -> Epsilon:
        answered = int((labels != ABSTAIN).sum())
        theorem, order = None, None
        if self.boost.c == 0 and self.boost.shift == 1:
            bound = self.noise.theorem(votes)
            theorem, order = epsilon(lambda orders: bound(orders).sum(axis=0), delta)
        return Epsilon(
            theorem=theorem,
            order=order,
            data_independent=self.noise.data_independent(answered, self.boost.shift, delta),
            claimed=self.noise.claimed(len(votes), delta) if self.boost.c > 0 else None,
        )
