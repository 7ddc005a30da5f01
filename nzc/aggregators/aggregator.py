"""The interface: what every aggregator answers."""

from abc import ABC, abstractmethod

import numpy as np

from nzc._types import Floats, Ints
from nzc.privacy import Epsilon

#: What `label` gives for a query that is not answered.
ABSTAIN = -1


class Aggregator(ABC):
    """Turns private votes into labels that may be released, and says what they cost."""

    @abstractmethod
    def label(self, votes: Ints, rng: np.random.Generator, baseline: Floats | None = None) -> Ints:
        """Released labels, [queries], from votes [queries, classes]; ABSTAIN where a query is not answered.

        `baseline`: the student's probabilities, [queries, classes], for aggregators that ask what it knows already.
        This is the line between private and public: votes go in, what comes out may be published at the ε of `epsilon`.
        """

    @abstractmethod
    def epsilon(self, votes: Ints, labels: Ints, delta: float, baseline: Floats | None = None) -> Epsilon:
        """What releasing `labels` cost, at δ."""
