"""Which public rows are asked, and in which rounds."""

from contextlib import nullcontext

import numpy as np
from conftest import parametrize
from numpy.random import default_rng
from pytest import raises
from sessions import CLASSES, POOL, probabilities

from nzc.protocols.query_selection import CHOICES, QuerySelection
from nzc.validation import InputError


@parametrize("choice", CHOICES)
def test_what_is_chosen_is_left_and_never_asked_twice(choice: str) -> None:
    left = default_rng(2).permutation(POOL)[:40]
    for size in (0, 7, 40):
        rng = default_rng(size)
        rows = QuerySelection(choice).choose(left, size, None, rng, probabilities(1))
        assert len(rows) == len(set(rows)) == size
        assert set(rows) <= set(left)


def test_balanced_and_entropy_choose_what_they_say() -> None:
    def chosen(choice: str, probs: np.ndarray) -> np.ndarray:
        selection = QuerySelection(choice)
        return selection.choose(np.arange(POOL), 20, probs, default_rng(0))

    classes = np.repeat(np.arange(CLASSES), [40, 10, 8, 2])
    balanced = classes[chosen("balanced", np.eye(CLASSES)[classes])]
    assert np.bincount(balanced).tolist() == [6, 6, 6, 2]
    probs = probabilities()
    entropy = -(probs * np.log(probs)).sum(axis=1)
    rows = chosen("entropy", probs)
    assert entropy[rows].min() >= np.delete(entropy, rows).max()


#: Choice, rounds, queries, whether there is a student, whether the mechanism asks for one; sizes,
#: or what is said.
SIZES = [
    ("first", None, None, True, False, [60]),
    ("first", None, 50, True, True, [25, 25]),
    ("first", None, 50, False, True, [50]),
    ("first", 3, 50, True, False, [17, 17, 16]),
    ("first", [10, 30], None, True, False, [10, 30]),
    ("entropy", None, None, False, False, "query_choice=entropy: .* no student"),
    ("balanced", 1, None, True, False, "rounds=1: must be 2 or more"),
    ("first", [30, 31], None, True, False, "queries=61: .* from 1 to 60"),
    ("first", [10, 10], 10, True, False, "queries=10: .* sum of rounds"),
    ("first", 11, 10, True, False, "rounds=11: .* from 1 to 10"),
    ("first", 2, None, False, False, "rounds=2: .* no student"),
]


@parametrize(("choice", "parts", "queries", "student", "asks", "sizes"), SIZES)
def test_sizes_of_rounds(
    choice: str,
    parts: object,
    queries: int | None,
    student: bool,
    asks: bool,
    sizes: list[int] | str,
) -> None:
    with nullcontext() if isinstance(sizes, list) else raises(InputError, match=sizes):
        assert QuerySelection(choice, parts, queries).sizes(POOL, student, asks) == sizes


def _representative(places: np.ndarray, rows: int, probs: np.ndarray | None = None) -> np.ndarray:
    """Choose from all rows, which come in random order."""
    rng = default_rng(0)
    order = rng.permutation(len(places))
    return QuerySelection("representative").choose(order, rows, probs, rng, places)


def _clusters(*sizes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the cluster of each row, and its place near that cluster's own axis."""
    cluster = np.repeat(np.arange(len(sizes)), sizes)
    noise = default_rng(1).normal(size=(len(cluster), len(sizes)))
    return cluster, 10 * np.eye(len(sizes))[cluster] + 0.1 * noise


def test_representative_rows_are_the_middles_of_clusters() -> None:
    """One of each, the largest cluster first; equal rows are asked once each."""
    cluster, places = _clusters(50, 40, 30, 20, 10, 5)
    rows = _representative(places, 6)
    assert cluster[rows].tolist() == list(range(6))
    for row in rows:
        members = places[cluster == cluster[row]]
        from_middle = np.linalg.norm(members - members.mean(axis=0), axis=1)
        assert np.array_equal(members[from_middle.argmin()], places[row])
    assert len(set(_representative(np.ones_like(places), 5).tolist())) == 5


def test_later_rounds_ask_in_clusters_that_the_student_doubts() -> None:
    cluster, places = _clusters(50, 50, 50, 50)
    doubted = (cluster == 2) & (np.arange(200) % 2 == 0)
    probs = np.where(doubted[:, None], [0.5, 0.5], [1.0, 0.0])
    assert sorted(cluster[_representative(places, 4)].tolist()) == [0, 1, 2, 3]
    assert (cluster[_representative(places, 4, probs)] == 2).sum() >= 3
