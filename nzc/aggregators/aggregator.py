"""The interface: what every aggregator answers."""

from abc import ABC, abstractmethod

import numpy as np

from nzc._types import Floats, Ints
from nzc.privacy import Epsilon
from nzc.privacy.cost import Cost
from nzc.privacy.filter import Filter
from nzc.privacy.theorem import Bound

#: What `label` gives for a query that is not answered.
ABSTAIN = -1


class Aggregator(ABC):
    """Turns private votes into labels that may be released, and says what they cost."""

    def check(self, teachers: int) -> None:  # noqa: B027 - most have nothing to refuse
        """InputError where the parameters make no sense for so many teachers."""

    @abstractmethod
    def label(self, votes: Ints, rng: np.random.Generator, baseline: Floats | None = None) -> Ints:
        """Released labels, [queries], from votes [queries, classes]; ABSTAIN where a query is not answered.

        `baseline`: the student's probabilities, [queries, classes], for aggregators that ask what it knows already.
        This is the line between private and public: votes go in, what comes out may be published at the ε of `epsilon`.
        """

    @abstractmethod
    def cost(self, votes: Ints, labels: Ints, baseline: Floats | None = None) -> Cost:
        """What releasing `labels` cost."""

    def epsilon(self, votes: Ints, labels: Ints, delta: float, baseline: Floats | None = None) -> Epsilon:
        """The same at δ, all but what is drawn: `sanitised`, `audited`, `ledger_total`."""
        return self.cost(votes, labels, baseline).epsilon(delta)

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """The papers' bounds that a query is released under; none where no theorem applies."""
        return ()

    @property
    def asks_student(self) -> bool:
        """Whether it looks at the student's probabilities, once there are any."""
        return False

    #: How it asks before there is a student; None: in the same way.
    first: "Aggregator | None" = None

    def reinforce(self, labels: Ints, baseline: Floats) -> Ints:
        """Labels with the student's own, [queries], where a query was not answered and the student is sure of it.

        It looks at no vote: post-processing, which costs nothing. The ε of a run is that of `labels` as they were.
        """
        return labels

    @abstractmethod
    def filter(self, epsilon: float, delta: float, queries: int) -> Filter:
        """Which of at most `queries` queries may be asked and answered within a budget ε at δ, whatever the votes."""

    @abstractmethod
    def audit(
        self, teachers: int, classes: int, queries: int, trials: int, delta: float, rng: np.random.Generator
    ) -> float | None:
        """A lower bound on ε at δ, 95 % sure, from running the sampler on the mechanism's worst neighbouring pair.

        Raises Contradiction where it is above the bound that holds for any votes.
        """
