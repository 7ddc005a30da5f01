"""The interface: what every aggregator answers."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np

from nzc._types import Floats, Ints
from nzc.privacy import Epsilon, release
from nzc.privacy.filter import Filter
from nzc.privacy.release import Plan
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
    def epsilon(self, votes: Ints, labels: Ints, delta: float, baseline: Floats | None = None) -> Epsilon:
        """What releasing `labels` cost, at δ; not what is drawn: `sanitised`, `audited`, `ledger_total`."""

    @abstractmethod
    def filter(self, epsilon: float, delta: float, queries: int) -> Filter:
        """Which of at most `queries` queries may be asked and answered within a budget ε at δ, whatever the votes."""

    @abstractmethod
    def sanitised(
        self,
        votes: Ints,
        labels: Ints,
        delta: float,
        rng: np.random.Generator,
        plan: Callable[[int, Sequence[Bound], float], Plan] = release.plan,
        baseline: Floats | None = None,
    ) -> float | None:
        """An upper bound that may be published, drawn anew at each call; None where no theorem applies.

        `plan` makes order, β and noise from queries, bounds and δ, that is before a vote is seen.
        """

    @abstractmethod
    def audit(
        self, teachers: int, classes: int, queries: int, trials: int, delta: float, rng: np.random.Generator
    ) -> float | None:
        """A lower bound on ε at δ, 95 % sure, from running the sampler on the mechanism's worst neighbouring pair.

        Raises Contradiction where it is above the bound that holds for any votes.
        """
