"""Sums of vectors: what one unit of privacy may change, whatever the records."""

from itertools import combinations, product
from typing import Any

import numpy as np
import torch
from conftest import parametrize

from nzc.mechanisms.noisy_sums import UNIT
from nzc.protocols.regression import contrasts
from nzc.protocols.vectors import PrivateSums
from nzc.representation.bounded import Bounded

#: Features that lie as far apart as they can, one that is too long, and none.
PLACES = np.array([[1.0, 0.0], [-1.0, 0.0], [0.6, 0.8], [-3.0, 4.0], [0.0, 0.0]])
RECORDS = list(product(range(len(PLACES)), range(3)))
CODES = [
    (np.eye(3) - guess) @ contrasts(3)
    for guess in ([1 / 3, 1 / 3, 1 / 3], [0.9, 0.09, 0.01], [0.5, 0.5, 0.0])
]


def _sums(units: list[list[tuple[int, int]]], **settings: object) -> PrivateSums:
    """Return the sums of units of privacy, which are lists of (place, label)."""
    records = [(number, *record) for number, unit in enumerate(units) for record in unit]
    persons, places, labels = np.array(records).T
    of_persons = persons if max(map(len, units)) > 1 or "most" in settings else None
    return PrivateSums(PLACES[places], labels, 3, persons=of_persons, **settings)  # type: ignore[arg-type]


def _apart(
    units: list[list[tuple[int, int]]], rest: Any, code: np.ndarray, **settings: object
) -> np.ndarray:
    """Return by how much class counts, and matrices, differ where one unit replaces another.

    [2, units, units], in units of noise.
    """
    whole = [_sums([unit, *rest], **settings) for unit in units]
    counts = np.array([sums.class_counts() for sums in whole])
    matrices = np.array([sums.matrix(code).ravel() for sums in whole])
    apart = [counts[:, None] - counts, matrices[:, None] - matrices]
    return np.array([np.linalg.norm(vectors, axis=2) for vectors in apart]) / UNIT


@parametrize("code", CODES)
@parametrize("labels_only", [False, True])
def test_a_replaced_record_moves_the_sums_by_two_at_most(
    code: np.ndarray, labels_only: bool
) -> None:
    records = [[record] for record in RECORDS]
    apart = _apart(records, [[(2, 0)], [(4, 1)]], code, labels_only=labels_only)
    places = np.array(RECORDS)[:, 0]
    if labels_only:  # the place is public
        apart = apart[:, places[:, None] == places]
    assert 1.99 < apart.max() <= 2


@parametrize("code", CODES)
@parametrize("most", [None, 1.0, 2.5])
def test_a_replaced_person_moves_the_sums_by_two_at_most(
    code: np.ndarray, most: float | None
) -> None:
    """Also a person with a record more or fewer, or with many."""
    persons = [[record] for record in RECORDS]
    persons += [list(pair) for pair in combinations(RECORDS, 2)]
    persons += [[record] * 7 for record in RECORDS]
    rest = [[(2, 0)], [(4, 1), (0, 2)]]
    counts, matrices = _apart(persons, rest, code, most=most)
    assert counts.max() <= 2
    assert 1.5 < matrices.max() <= 2
    first, last = (
        _sums(order, most=most) for order in ([persons[20], *rest], [*rest, persons[20]])
    )
    assert (first.matrix(code) == last.matrix(code)).all()  # the order of persons changes nothing


@parametrize("odd", [np.nan, np.inf, -np.inf, 1e308])
def test_a_row_of_no_finite_numbers_counts_as_zeros(odd: float) -> None:
    """In the sums, and of the features that the published model computes."""
    features = np.array([[1.0, 0.0], [odd, odd], [0.0, 1.0]])
    zeros = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    sums, expected = (PrivateSums(rows, np.arange(3), 3) for rows in (features, zeros))
    assert (sums.matrix(CODES[0]) == expected.matrix(CODES[0])).all()
    bounded = Bounded(torch.nn.Flatten(), np.float32(features[::2]))
    placed = bounded(torch.tensor(features, dtype=torch.float32)).numpy()
    assert not placed[1].any() and np.linalg.norm(placed, axis=1).max() <= 1 + 1e-9
