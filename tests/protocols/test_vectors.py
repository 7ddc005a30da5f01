"""Sums of vectors: what one unit of privacy may change, whatever the records."""

from itertools import combinations, product
from typing import Any

import numpy as np
import torch
from conftest import parametrize
from scipy.special import softmax

from nzc.mechanisms.noisy_sums import UNIT
from nzc.protocols.vectors import PrivateSums, Recentred, contrasts
from nzc.representation.bounded import Bounded, axes_worth

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
    units: list[list[tuple[int, int]]],
    rest: Any,
    code: np.ndarray,
    model: np.ndarray | None = None,
    **settings: object,
) -> np.ndarray:
    """Return by how much class counts, and matrices, differ where one unit replaces another.

    [2, units, units], in units of noise. `model` centres labels: the weights of a regression.
    """
    whole = [_sums([unit, *rest], **settings) for unit in units]
    counts = np.array([sums.class_counts() for sums in whole])
    centres = [None if model is None else softmax(sums.bounded @ model, axis=1) for sums in whole]
    matrices = np.array(
        [sums.matrix(code, at).ravel() for sums, at in zip(whole, centres, strict=True)]
    )
    apart = [counts[:, None] - counts, matrices[:, None] - matrices]
    return np.array([np.linalg.norm(vectors, axis=2) for vectors in apart]) / UNIT


@parametrize("code", CODES)
@parametrize("labels_only", [False, True])
@parametrize("weight", [None, 0.5, 30.0])
def test_a_replaced_record_moves_the_sums_by_two_at_most(
    code: np.ndarray, labels_only: bool, weight: float | None
) -> None:
    """Also of labels that the probabilities of a public model centre."""
    records = [[record] for record in RECORDS]
    model = None
    if weight is not None:
        model = weight * np.array([[1.0, -1.0, 0.2], [0.0, 0.4, -1.0]])
    apart = _apart(records, [[(2, 0)], [(4, 1)]], code, model, labels_only=labels_only)
    places = np.array(RECORDS)[:, 0]
    if labels_only:  # the place is public
        apart = apart[:, places[:, None] == places]
    assert apart.max() <= 2
    assert apart.max() > 1.99 or model is not None


def test_codes_add_to_zero_where_the_model_is_right() -> None:
    """And `by_class` is their transpose."""
    rng = np.random.default_rng(0)
    centre = rng.dirichlet([0.3, 1, 2], 50)
    centred = Recentred(centre, 0.7)
    assert np.abs(centred.codes(centre)).max() < 1e-12
    labels = rng.random((50, 3))
    slopes = rng.normal(size=(50, 2))
    by_class = (centred.by_class(slopes) * labels).sum()
    assert np.isclose((slopes * centred.codes(labels)).sum(), by_class)


@parametrize("noise", [1e-4, 0.01, 0.05, 0.3])
def test_axes_are_kept_that_a_share_of_the_length_is_worth(noise: float) -> None:
    """By Frank and Wolfe's way to the same maximum: each step gives length to the best axis."""
    spread = np.geomspace(1, 1e-2, 12)
    effects = spread**2.5 + 0.002
    effects *= 0.25 / effects.sum()
    shares = np.full(12, 1 / 12)
    for step in range(20_000):
        slopes = (effects * noise / (effects * shares + noise**2)) ** 2
        towards = np.eye(12)[slopes.argmax()]
        shares += 2 / (step + 25) * (towards - shares)
    assert axes_worth(spread, noise) == max(4, (shares > 1e-3).sum())


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
