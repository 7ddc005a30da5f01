"""Which public rows are asked, in which rounds. The choice uses public information only, at most
the student.
"""

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

    choice  first or random rows; balanced: equally many of each class that the student predicts;
            entropy: the rows where its prediction is least certain. Before there is a student,
            these two choose at random. representative: the rows in the middle of as many clusters
            of the public representation, large ones first, with a row's entropy as its weight once
            there is a student (Zhdanov 2019)
    rounds  a number of rounds of equal size, or the size of each; None: two where the student is
            used, else one
    """

    choice: str
    rounds: int | list[int] | None

    def __post_init__(self) -> None:
        one_of("query_choice", self.choice, CHOICES)
        for size in (
            self.rounds
            if isinstance(self.rounds, list)
            else [1 if self.rounds is None else self.rounds]
        ):
            whole("rounds", size, 1)

    def sizes(self, queries: int | None, rows: int, student: bool, asks_student: bool) -> list[int]:
        """Return how many of `rows` rows each round asks; `queries` in all, or all rows where that
        is None.

        student  whether there is a student to learn between rounds; asks_student: the mechanism
                 uses it
        """
        by_student = self.choice in _BY_STUDENT
        if by_student and not student:
            raise InputError(
                "query_choice", self.choice, "must be first or random where there is no student"
            )
        total = sum(self.rounds) if isinstance(self.rounds, list) else rows
        queries = total if queries is None else queries
        whole("queries", queries, 1, rows, "(the public rows)")
        if isinstance(self.rounds, list):
            sizes = self.rounds
            if queries != total:
                raise InputError(
                    "queries", queries, f"must be null, or the sum of rounds ({total})"
                )
        else:
            count = self.rounds or (2 if student and (by_student or asks_student) else 1)
            whole("rounds", count, 1, queries, "(one query each)")
            sizes = [len(part) for part in np.array_split(np.empty(queries), count)]
        if len(sizes) > 1 and not student:
            raise InputError(
                "rounds", self.rounds, "must be 1 where there is no student to learn in between"
            )
        if len(sizes) == 1 and by_student:
            raise InputError(
                "rounds", self.rounds, f"must be 2 or more for query_choice={self.choice}"
            )
        return sizes

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
            doubt = None if student_probs is None else _entropy(student_probs[left]) + 1e-9
            return left[_middles(embedding[left], size, rng, doubt)]
        order = rng.permutation(left)
        if student_probs is not None and self.choice == "balanced":
            predicted, rank = (
                student_probs[order].argmax(axis=1),
                np.empty(len(order), dtype=np.int64),
            )
            for label in np.unique(
                predicted
            ):  # all first rows of a class come before all second ones
                rank[predicted == label] = np.arange((predicted == label).sum())
            order = order[np.argsort(rank, kind="stable")]
        elif student_probs is not None and self.choice == "entropy":
            order = order[np.argsort(-_entropy(student_probs[order]), kind="stable")]
        return order[:size]


def _entropy(probs: Floats) -> Floats:
    p = np.maximum(probs, 1e-300)
    return np.asarray(-(p * np.log(p)).sum(axis=1))


def _middles(places: Floats, count: int, rng: Generator, weights: Floats | None) -> Ints:
    """Return the row nearest to the middle of each of `count` clusters by weighted k-means, the
    heaviest first.
    """
    from sklearn.cluster import KMeans

    with warnings.catch_warnings(action="ignore"):  # fewer distinct places than clusters
        tries = 10 if count < 100 else 1  # many clusters are alike whatever the start
        clusters = KMeans(count, n_init=tries, random_state=int(rng.integers(2**31))).fit(
            places, sample_weight=weights
        )
    number = clusters.labels_
    nearest = np.lexsort(
        [np.linalg.norm(places - clusters.cluster_centers_[number], axis=1), number]
    )
    middles = nearest[np.unique(number[nearest], return_index=True)[1]]
    middles = middles[np.argsort(-np.bincount(number, weights)[number[middles]], kind="stable")]
    others = np.setdiff1d(rng.permutation(len(places)), middles)[: count - len(middles)]
    return np.concatenate([middles, others])
