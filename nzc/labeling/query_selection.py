"""Which public rows are asked, and in which rounds, by public rows alone."""

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from nzc.types import Floats, Ints
from nzc.validation import InputError, one_of, whole

REPRESENTATIVE = "representative"
#: Values of the key `query_choice`.
CHOICES = ("first", "random", REPRESENTATIVE)


@dataclass(frozen=True)
class QuerySelection:
    """How rows are chosen, and in how many rounds; the student learns between rounds.

    choice  first or random rows; representative: the rows in the middle of as many clusters of the
            public representation, large ones first (Zhdanov 2019)
    rounds  a number of rounds of equal size, or the size of each; None: two where the mechanism
            uses the student, else one
    """

    choice: str
    rounds: int | list[int] | None

    def __post_init__(self) -> None:
        one_of("query_choice", self.choice, CHOICES)
        if self.rounds is not None:
            for size in self.rounds if isinstance(self.rounds, list) else [self.rounds]:
                whole("rounds", size, 1)

    def sizes(self, queries: int | None, rows: int, student: bool, asks_student: bool) -> list[int]:
        """Return how many of `rows` rows each round asks.

        queries       how many in all; None: all rows, or the sum of the rounds
        student       whether there is a student to learn between rounds
        asks_student  whether the mechanism uses it
        """
        if queries is None:
            queries = sum(self.rounds) if isinstance(self.rounds, list) else rows
        whole("queries", queries, 1, rows, "(the public rows)")
        sizes = self._sizes(queries, student and asks_student)
        if len(sizes) > 1 and not student:
            allowed = "must be 1 where there is no student to learn in between"
            raise InputError("rounds", self.rounds, allowed)
        return sizes

    def _sizes(self, queries: int, uses_student: bool) -> list[int]:
        if isinstance(self.rounds, list):
            if queries != sum(self.rounds):
                allowed = f"must be null, or the sum of rounds ({sum(self.rounds)})"
                raise InputError("queries", queries, allowed)
            return self.rounds
        count = self.rounds or (2 if uses_student else 1)
        whole("rounds", count, 1, queries, "(one query each)")
        size, larger = divmod(queries, count)
        return [size + 1] * larger + [size] * (count - larger)

    def choose(
        self, left: Ints, size: int, rng: Generator, embedding: Floats | None = None
    ) -> Ints:
        """Return `size` of the row numbers `left`, in the order in which they are asked.

        embedding  of all rows, [rows, dimensions]; None: there is none
        """
        if self.choice == "first":
            return left[:size]
        if self.choice == REPRESENTATIVE and size:
            assert embedding is not None
            return left[_middles(embedding[left], size, rng)]
        return rng.permutation(left)[:size]


def _middles(places: Floats, count: int, rng: Generator) -> Ints:
    """Return the row nearest to the middle of each of `count` clusters, the largest first."""
    from sklearn.cluster import KMeans

    means = KMeans(count, n_init=10, random_state=int(rng.integers(2**31)))
    if count >= 100:  # many clusters are alike whatever the start
        means.n_init = 1
    with warnings.catch_warnings(action="ignore"):  # fewer distinct places than clusters
        clusters = means.fit(places)
    cluster = clusters.labels_
    distances = np.linalg.norm(places - clusters.cluster_centers_[cluster], axis=1)
    nearest = np.lexsort([distances, cluster])
    middles = nearest[np.unique(cluster[nearest], return_index=True)[1]]
    largest = np.argsort(-np.bincount(cluster)[cluster[middles]], kind="stable")
    middles = middles[largest]
    others = np.setdiff1d(rng.permutation(len(places)), middles)[: count - len(middles)]
    return np.concatenate([middles, others])
