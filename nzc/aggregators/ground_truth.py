"""The true labels: the papers' upper line, with no privacy at all."""

from dataclasses import dataclass

import numpy as np

from nzc._types import Floats, Ints
from nzc.aggregators.aggregator import Aggregator
from nzc.privacy import Epsilon
from nzc.privacy.filter import Filter


@dataclass(frozen=True)
class GroundTruth(Aggregator):
    """Answers with the truth instead of the teachers: its votes are one-hot true labels. Nothing is promised: ε = ∞."""

    def label(self, votes: Ints, rng: np.random.Generator, baseline: Floats | None = None) -> Ints:
        return np.asarray(votes.argmax(axis=1))

    def epsilon(self, votes: Ints, labels: Ints, delta: float, baseline: Floats | None = None) -> Epsilon:
        return Epsilon(data_independent=np.inf)

    def filter(self, epsilon: float, delta: float, queries: int) -> Filter:
        return Filter(0.0, np.inf, np.inf)

    def sanitised(self, *_: object, **__: object) -> None:
        return None

    def audit(self, *_: object, **__: object) -> None:
        return None
