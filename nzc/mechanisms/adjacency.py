"""What one vote changes: the boost of the largest count, and which histograms are neighbours."""

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from nzc.accounting.data_dependent import gaps
from nzc.accounting.data_independent import UNBOUNDED, WorstCaseCost
from nzc.mechanisms.noise.base import Noise
from nzc.types import Floats, Ints
from nzc.validation import keep, not_negative, one_of, whole

__all__ = ["Abstentions", "Adjacency", "Boost", "OwnCells", "OwnLabels", "Vectors"]

#: The gaps above which Δ is without c, by the kind of sensitivity.
_CLEAR = {"constant": -1.0, "global": np.inf, "local": 2.0, "smooth": 3.0}
#: A plurality with a larger gap stays ahead wherever one vote moves, and Δ stays the same.
FAR = 5


@dataclass(frozen=True)
class Boost:
    """v̂ = v + c·e_argmax: the immutable noisy argmax of NZC; c = 0 is PATE.

    Ties break to the lowest class index. `sensitivity` is Δ, by which the noise is multiplied; the
    gap is the largest count minus the second.

    constant  1                                             (first NZC paper, and its experiments)
    global    1 + c                                         (KDD 2020, Definition 6)
    local     1 where the gap exceeds 2, else 1 + c         (Definition 7, Lemma 2)
    smooth    e^(−β) where the gap exceeds 3, else (1 + c) e^(−β)    (Definition 8, Theorem 3)
    """

    c: float = 0.0
    sensitivity: str = "constant"
    beta: float = 1.0

    def __post_init__(self) -> None:
        keep(self, c=not_negative, beta=not_negative)
        one_of("sensitivity", self.sensitivity, tuple(_CLEAR))

    def scores(self, votes: Ints) -> Floats:
        """Return the boosted counts, [queries, classes]."""
        scores = votes.astype(np.float64)
        scores[np.arange(len(votes)), votes.argmax(axis=1)] += self.c
        return scores

    def scale(self, votes: Ints) -> Floats:
        """Return Δ of each query, [queries]."""
        delta = np.where(gaps(votes)[:, 0] > _CLEAR[self.sensitivity], 1.0, 1.0 + self.c)
        if self.sensitivity == "smooth":
            delta = delta * np.exp(-self.beta)
        return delta

    @property
    def shift(self) -> float:
        """The most by which a moved vote shifts a count, in Δ; inf where Δ depends on the votes."""
        if self.sensitivity == "constant":
            return 1.0 + self.c
        if self.sensitivity == "global":
            return 1.0
        if self.c > 0:
            return np.inf
        if self.sensitivity == "smooth":
            return float(np.exp(self.beta))
        return 1.0

    @property
    def plain(self) -> bool:
        """Whether the counts and their noise stay as they are."""
        return self.c == 0 and self.shift == 1

    def worst_case(self, noise: Noise) -> WorstCaseCost:
        """Return what one label with this noise costs, whatever the votes."""
        if np.isinf(self.shift):  # neighbours have noise of different scales: no bound is known
            return UNBOUNDED
        cost = noise.worst_case(self.shift)
        # `hint` is proved for whole counts without a boost only.
        is_plain = self.c == 0 and type(self) is Boost
        return cost if is_plain else replace(cost, hint=None)


@dataclass(frozen=True)
class Adjacency:
    """A unit of privacy is one voter: n → n − e_a + e_b in the histogram of every query."""

    #: Whether all histograms may differ. They then have one sum, which is public.
    everywhere: ClassVar[bool] = True
    #: Who votes, in words.
    voters: ClassVar[str] = "teachers"
    #: How many teachers there are where some may abstain; None: all vote on every query.
    teachers: ClassVar[int | None] = None

    @property
    def rows(self) -> str:
        """On which rows the votes may differ, in words."""
        return "any number of rows"


@dataclass(frozen=True)
class Abstentions(Adjacency):
    """A unit of privacy is one of so many teachers, each of which may abstain on a query.

    One vote moves, appears or vanishes in the histogram of each query, whose sum is private. To
    abstain is to vote for one class more, which is never released: whatever holds for moved votes
    holds here. Proof: docs/proofs.md.
    """

    teachers: int  # type: ignore[misc]

    def __post_init__(self) -> None:
        keep(self, teachers=partial(whole, at_least=1, at_most=2**31))


@dataclass(frozen=True)
class OwnCells(Adjacency):
    """A unit of privacy is at most `records` records, each counting once, in one histogram.

    One replaced record takes a count from one histogram and adds one to another, or moves one
    within a histogram. Rows have unequal sums, which are private. docs/proofs.md says what all
    labels cost, however many queries are asked.
    """

    records: int = 1
    everywhere: ClassVar[bool] = False
    voters: ClassVar[str] = "records"
    changes: ClassVar[int] = 2  # how many counts one record changes, as moved votes count

    def __post_init__(self) -> None:
        keep(self, records=lambda _, records: whole("per_group", records, 1))

    @property
    def rows(self) -> str:
        return f"at most {2 * self.records} asked rows"


@dataclass(frozen=True)
class OwnLabels(OwnCells):
    """Own cells where only labels are private: all labels cost as much as one moved vote.

    The sums of the rows follow from features, which are public.
    """

    rows = "one asked row"
    changes = 1

    def __post_init__(self) -> None:
        whole("per_group", self.records, 1, 1, "where labels alone are private")


@dataclass(frozen=True)
class Vectors(Adjacency):
    """A unit of privacy adds one vector to a sum, at most 2 from any other it might add.

    So one replaced unit moves the whole sum by at most 2 in the l2 norm.
    """

    everywhere: ClassVar[bool] = False
    voters: ClassVar[str] = "sums"
    rows: ClassVar[str] = "all numbers of the sums"
