"""Which public rows are asked, in which rounds, by public information: at most the student."""

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from nzc.types import Floats, Ints
from nzc.validation import InputError, one_of, whole

#: Values of the key `query_choice` that use the student's predictions, and all of them.
_BY_STUDENT = ("balanced", "entropy")
REPRESENTATIVE = "representative"
CHOICES = ("first", "random", REPRESENTATIVE, *_BY_STUDENT)


@dataclass(frozen=True)
class QuerySelection:
    """How rows are chosen, and in how many rounds; the student learns between rounds.

    choice   first or random rows; balanced: equally many of each class that the student predicts;
            entropy: the rows where its prediction is least certain. Before there is a student,
            these two choose at random. representative: the rows in the middle of as many clusters
            of the public representation, large ones first, with a row's entropy as its weight once
            there is a student (Zhdanov 2019)
    rounds  a number of rounds of equal size, or the size of each; None: two where the student is
            used, else one
    queries  how many rows in all; None: the sum of the rounds, or as many as suit
    """

    choice: str
    rounds: int | list[int] | None = None
    queries: int | None = None

    def __post_init__(self) -> None:
        one_of("query_choice", self.choice, CHOICES)
        if self.rounds is not None:
            for size in self.rounds if isinstance(self.rounds, list) else [self.rounds]:
                whole("rounds", size, 1)

    def sizes(self, rows: int, student: bool, asks_student: bool) -> list[int]:
        """Return how many of `rows` rows each round asks: all, where nobody says how many.

        student       whether there is a student to learn between rounds
        asks_student  whether the mechanism uses it
        """
        by_student = self.choice in _BY_STUDENT
        if by_student and not student:
            raise InputError(
                "query_choice", self.choice, "must be first or random where there is no student"
            )
        queries = self.queries
        if queries is None:
            queries = sum(self.rounds) if isinstance(self.rounds, list) else rows
        whole("queries", queries, 1, rows, "(the public rows)")
        sizes = self._sizes(queries, student and (by_student or asks_student))
        if len(sizes) > 1 and not student:
            raise InputError(
                "rounds", self.rounds, "must be 1 where there is no student to learn in between"
            )
        if len(sizes) == 1 and by_student:
            raise InputError(
                "rounds", self.rounds, f"must be 2 or more for query_choice={self.choice}"
            )
        return sizes

    def _sizes(self, queries: int, uses_student: bool) -> list[int]:
        if isinstance(self.rounds, list):
            if queries != sum(self.rounds):
                raise InputError(
                    "queries", queries, f"must be null, or the sum of rounds ({sum(self.rounds)})"
                )
            return self.rounds
        count = self.rounds or (2 if uses_student else 1)
        whole("rounds", count, 1, queries, "(one query each)")
        size, larger = divmod(queries, count)
        return [size + 1] * larger + [size] * (count - larger)

    def choose(
        self,
        left: Ints,
        size: int,
        student_probs: Floats | None,
        rng: Generator,
        embedding: Floats | None = None,
    ) -> Ints:
        """Return `size` of the row numbers `left`, in the order in which they are asked.

        student_probs, embedding  of all rows, [rows, classes] and [rows, dimensions]; None: there
                                  is none
        """
        if self.choice == "first":
            return left[:size]
        if self.choice == REPRESENTATIVE and size:
            assert embedding is not None
            weights = None
            if student_probs is not None:
                weights = _entropy(student_probs[left]) + 1e-9
            return left[_middles(embedding[left], size, rng, weights)]
        order = rng.permutation(left)
        if student_probs is None or self.choice not in _BY_STUDENT:
            return order[:size]
        probs = student_probs[order]
        rank = -_entropy(probs)
        if self.choice == "balanced":
            from pandas import Series  # takes half a second to import

            predicted = Series(probs.argmax(axis=1))
            rank = predicted.groupby(predicted).cumcount()  # rows before with the same class
        return order[np.argsort(rank, kind="stable")][:size]


def _entropy(probs: Floats) -> Floats:
    probs = np.maximum(probs, 1e-300)
    return -(probs * np.log(probs)).sum(axis=1)


def _middles(places: Floats, count: int, rng: Generator, weights: Floats | None) -> Ints:
    """Return the row nearest to the middle of each of `count` clusters by weighted k-means, the
    heaviest first.
    """
    from sklearn.cluster import KMeans

    means = KMeans(count, n_init=10, random_state=int(rng.integers(2**31)))
    if count >= 100:  # many clusters are alike whatever the start
        means.n_init = 1
    with warnings.catch_warnings(action="ignore"):  # fewer distinct places than clusters
        clusters = means.fit(places, sample_weight=weights)
    cluster = clusters.labels_
    distances = np.linalg.norm(places - clusters.cluster_centers_[cluster], axis=1)
    nearest = np.lexsort([distances, cluster])
    middles = nearest[np.unique(cluster[nearest], return_index=True)[1]]
    heaviest = np.argsort(-np.bincount(cluster, weights)[cluster[middles]], kind="stable")
    middles = middles[heaviest]
    others = np.setdiff1d(rng.permutation(len(places)), middles)[: count - len(middles)]
    return np.concatenate([middles, others])
