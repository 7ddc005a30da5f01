"""How many rows to ask, and how many labels are right, from public facts."""

import numpy as np
from conftest import parametrize
from numpy.random import default_rng
from pytest import approx

from nzc.mechanisms import Counts
from nzc.planning.expected import expected_in_cells, rows_to_ask


@parametrize("noise_std", [1e-3, 10.0, 1e9])
def test_rows_are_between_one_and_a_quarter_of_the_public_rows(noise_std: float) -> None:
    for public in (1, 40, 4_000):
        assert 1 <= rows_to_ask(60_000, 10, public, noise_std) <= max(public / 4, 1)
    assert rows_to_ask(60_000, 10, 40_000, 1e9) == 10


def test_right_labels_are_expected_by_the_law_of_the_noise() -> None:
    mechanism = Counts(gamma=0.05)
    noise = default_rng(0).laplace(scale=20, size=(200_000, 4))
    right = np.mean((np.array([60.0, 20, 20, 20]) + noise).argmax(axis=1) == 0)
    assert expected_in_cells(mechanism, 1_200, 4, 10, 0.5) == (1, approx(right, abs=0.005))
    assert expected_in_cells(mechanism, 10**6, 10, 10) == (1, approx(1))
    assert expected_in_cells(mechanism, 1, 10, 1_000) == (1, approx(0.1, abs=0.01))
