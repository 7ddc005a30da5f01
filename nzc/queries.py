"""Which public rows are asked, and in what rounds. Never by private information: at most by what the student says."""

from dataclasses import dataclass

import numpy as np

from nzc._types import Floats, Ints
from nzc.errors import InputError, one_of, whole

#: How rows can be chosen; the last two ask the student.
CHOICES = ("first", "random", "balanced", "entropy")
_BY_STUDENT = ("balanced", "entropy")


@dataclass(frozen=True)
class Rounds:
    """How the queries are asked: by which choice, and in what parts, between which the student learns.

    choice   first     the first rows of the pool
             random    any rows
             balanced  as many of every class as the student sees in the pool
             entropy   the rows of which the student is least certain
    parts    how many rounds of equal size, or the size of each; None: two where the student is asked, one elsewhere

    Before there is a student, `balanced` and `entropy` choose at random.
    """

    choice: str
    parts: int | list[int] | None

    def __post_init__(self) -> None:
        one_of(CHOICES, query_choice=self.choice)
        if isinstance(self.parts, list):
            if not self.parts:
                raise InputError("rounds", self.parts, "must name at least one size")
            for number, size in enumerate(self.parts):
                whole(1, **{f"rounds.{number}": size})  # type: ignore[arg-type]
        elif self.parts is not None:
            whole(1, rounds=self.parts)

    def sizes(self, queries: int | None, rows: int, student: bool, asks_student: bool) -> list[int]:
        """How many rows each round asks, of `rows` that there are.

        InputError where the rounds need what is not there: rows, a student, or a round for it to learn from.
        """
        by_student = self.choice in _BY_STUDENT
        if by_student and not student:
            raise InputError("query_choice", self.choice, "must be first or random where there is no student")
        if isinstance(self.parts, list):
            if queries is not None and queries != sum(self.parts):
                raise InputError("queries", queries, f"must be null, or the sum of rounds ({sum(self.parts)})")
            queries = sum(self.parts)
        if queries is not None:
            whole(1, rows, "(the public rows)", queries=queries)
        queries = rows if queries is None else queries
        if isinstance(self.parts, list):
            sizes = self.parts
        else:
            count = self.parts or (2 if student and (by_student or asks_student) else 1)
            whole(1, queries, "(one query each)", rounds=count)
            sizes = [len(part) for part in np.array_split(np.empty(queries), count)]
        if len(sizes) > 1 and not student:
            raise InputError("rounds", self.parts, "must be 1 where there is no student to learn in between")
        if len(sizes) == 1 and by_student:
            raise InputError("rounds", self.parts, f"must be 2 or more for query_choice={self.choice}")
        return sizes

    def choose(self, left: Ints, size: int, probabilities: Floats | None, rng: np.random.Generator) -> Ints:
        """`size` of the rows `left`, in the order in which they are asked.

        `probabilities`: the student's, [all rows, classes]; None before there is a student.
        """
        if self.choice == "first":
            return left[:size]
        order = rng.permutation(left)
        if probabilities is not None and self.choice == "balanced":
            seen = probabilities[order].argmax(axis=1)
            # A row's place among those of its class: all first ones come before all second ones.
            place = np.empty(len(order), dtype=np.int64)
            for label in np.unique(seen):
                place[seen == label] = np.arange((seen == label).sum())
            order = order[np.argsort(place, kind="stable")]
        elif probabilities is not None and self.choice == "entropy":
            p = np.maximum(probabilities[order], 1e-300)
            order = order[np.argsort((p * np.log(p)).sum(axis=1), kind="stable")]
        return order[:size]
