"""The ε of several entries of the ledger together."""

from dataclasses import replace
from functools import reduce
from itertools import product
from operator import add
from pathlib import Path

import numpy as np
import pytest
from brute import gaussian_leak
from conftest import parametrize
from pytest import approx
from scipy.stats import norm
from sessions import release

import nzc
from nzc.accounting.rdp import CHOICES, ORDERS, adaptive_epsilon, to_epsilon
from nzc.privacy.ledger import Ledger

DELTA = 1e-5


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "store" / "ledger.sqlite")


@parametrize(("number", "delta"), [*product((1, 2, 100), (DELTA, 0.0201))])
def test_gaussian_releases_add_exactly_in_mu_squared(
    ledger: Ledger, number: int, delta: float
) -> None:
    """Second route: the closed form of δ. One costs ε = 0 at a δ above 0.02, several do not."""
    cost = nzc.Sums(sigma=40).cost(np.zeros((3, 2), np.int64), np.zeros(5, np.int64))
    for key in range(number):
        ledger.add("digest", cost, key=str(key))
    mu = number**0.5 * 2 / 40
    together = reduce(add, [cost] * number).epsilon(delta)
    for epsilon in (ledger.total("digest", delta), together.exact, together.data_independent):
        assert gaussian_leak(mu, epsilon) == approx(min(delta, 2 * norm.cdf(mu / 2) - 1), rel=1e-5)
    # Other releases beside them are composed by their Rényi costs, also of an entry that cost more.
    ledger.record(replace(release("0"), rdp=9 * ORDERS))
    rdp = 9 * CHOICES + (number - 1) * CHOICES * (2 / 40) ** 2 / 2
    if number > 1:
        assert ledger.total("digest", delta) == approx(adaptive_epsilon(rdp, delta))


def test_what_entries_use_of_delta_adds_up(ledger: Ledger) -> None:
    for key, leak in (("a", 4e-6), ("b", 3e-6), ("a", 1e-6)):
        ledger.record(replace(release(key), delta_cost=leak))
    assert ledger.total("digest", 7e-6) == np.inf
    rdp = 0.02 * CHOICES
    assert ledger.total("digest", DELTA) == approx(adaptive_epsilon(rdp, 3e-6))


def test_costs_between_different_neighbours_have_no_sum(ledger: Ledger) -> None:
    """Of patients and of wards, of labels and of records, and where it was not recorded what a cost
    compares.
    """
    kinds = ("one patient differs", "one ward differs", "one label differs", None)
    for first, second in product(kinds, repeat=2):
        dataset = f"{first} {second}"
        for key, neighbours in (("a", first), ("b", second)):
            facts = {} if neighbours is None else {"neighbours": neighbours}
            ledger.record(replace(release(key, dataset=dataset), facts=facts))
        total = ledger.total(dataset, DELTA)
        assert total > 0 and np.isinf(total) == (first != second)


def test_releases_on_other_orders_are_rounded_up(ledger: Ledger) -> None:
    """Never below the true composition, which is known here: both are Gaussian."""
    ledger.record(release("a", orders=np.arange(2.0, 64.0, 3)))
    ledger.record(release("b", orders=np.geomspace(1.1, 50, 40)))
    exact = to_epsilon(lambda a: 0.02 * a, DELTA)[0]
    assert exact <= ledger.total("digest", DELTA) < 1.3 * exact
