"""The true labels: the papers' upper line, with no privacy at all."""

from dataclasses import dataclass

import numpy as np

from nzc._types import Floats, Ints
from nzc.aggregators.aggregator import Aggregator
from nzc.privacy.cost import Cost
from nzc.privacy.filter import Filter
from nzc.privacy.independent import UNBOUNDED


@dataclass(frozen=True)
class GroundTruth(Aggregator):
    """Answers with the truth instead of the teachers: its votes are one-hot true labels. Nothing is promised: ε = ∞."""

    def label(self, votes: Ints, rng: np.random.Generator, baseline: Floats | None = None) -> Ints:
        return np.asarray(votes.argmax(axis=1))

    def cost(self, votes: Ints, labels: Ints, baseline: Floats | None = None) -> Cost:
        return Cost(len(votes), None, (), ((len(votes), UNBOUNDED),))

    def filter(self, epsilon: float, delta: float, queries: int) -> Filter:
        return Filter(0.0, np.inf, np.inf)

    def audit(self, *_: object, **__: object) -> None:
        return None
