"""The composed ε of one round, against full enumeration and against Rényi accounting."""

from functools import reduce
from itertools import product

import brute
import numpy as np
import pytest
from conftest import parametrize
from dp_accounting.pld import privacy_loss_distribution as pld

import nzc
from nzc.accounting.rdp import to_epsilon
from nzc.mechanisms import NoisyArgmax
from nzc.mechanisms.presets import (
    GNMax,
    Gumbel,
    LNMax,
)


def _epsilon(p: np.ndarray, q: np.ndarray, delta: float) -> float:
    """Return the smallest ε with Σ (p − e^ε q)₊ ≤ δ.

    It is the largest over sets of outcomes with the highest p/q.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(-np.where(p > 0, p / q, 0))
        found = np.log((np.cumsum(p[order]) - delta) / np.cumsum(q[order]))
    return max(0.0, float(np.nanmax(found)))


def _enumerated(mechanism: nzc.NoisyArgmax, votes: np.ndarray, delta: float) -> float:
    """Return ε over all neighbours of all queries together, in both directions."""
    laws = [np.exp(mechanism.log_law(np.array([row, *brute.moves(row)]))) for row in votes]
    here = reduce(np.multiply.outer, [law[0] for law in laws]).ravel()
    largest = 0.0
    for neighbours in product(*laws):
        there = reduce(np.multiply.outer, neighbours).ravel()
        largest = max(largest, _epsilon(here, there, delta), _epsilon(there, here, delta))
    return largest


def _case(seed: int) -> tuple[nzc.NoisyArgmax, np.ndarray, float]:
    rng = np.random.default_rng(seed)
    scale = float(np.exp(rng.uniform(np.log(0.7), np.log(12))))
    mechanisms = [
        nzc.LNMax(1 / scale), nzc.GNMax(scale), nzc.Gumbel(1 / scale),
        nzc.PermuteAndFlip(1 / scale),
        nzc.Confident(threshold=rng.uniform(2, 20), sigma1=scale, sigma=rng.uniform(0.7, 5)),
        nzc.NZC(2.0, 1 / scale, "local"),
    ]  # fmt: skip
    teachers = int(rng.integers(3, 40))
    queries = int(rng.integers(1, 4))
    votes = rng.multinomial(teachers, rng.dirichlet(np.ones(3)), queries)
    return mechanisms[seed % len(mechanisms)], votes, float(10 ** rng.uniform(-6, -1))


@parametrize("seeds", [range(6), pytest.param(range(6, 300), marks=pytest.mark.slow)], ids=len)
def test_full_enumeration_lies_between_the_bounds(seeds: range) -> None:
    gaps = []
    for seed in seeds:
        mechanism, votes, delta = _case(seed)
        found = mechanism.cost(votes, np.zeros(len(votes), int)).epsilon(delta)
        true = _enumerated(mechanism, votes, delta)
        assert found.exact_lower <= true * (1 + 1e-9) + 1e-12, seed
        assert true * (1 - 1e-9) <= found.exact <= found.data_independent, seed
        if true > 0.01:
            gaps.append(found.exact / true)
    assert np.median(gaps) < 1.01


@parametrize("mechanism", [
    nzc.GNMax(0.1), nzc.GNMax(0.06), nzc.LNMax(30.0), nzc.LNMax(300.0), nzc.Gumbel(30.0),
    nzc.PermuteAndFlip(30.0),
], ids=repr)  # fmt: skip
@parametrize("top", [1, 4])
def test_losses_of_hundreds_are_no_ceiling_and_no_certain_leak(
    mechanism: nzc.NoisyArgmax, top: int
) -> None:
    """Outcomes below e^-700 at a neighbour: Rényi costs alone jump to the bound for any votes."""
    votes = np.array([[top, 1, 0]])
    found = mechanism.cost(votes, np.zeros(1, int)).epsilon(1e-5)
    true = _enumerated(mechanism, votes, 1e-5)
    assert found.exact_lower <= true * (1 + 1e-9) + 1e-9
    assert true * (1 - 1e-9) <= found.exact <= 1.04 * true


def test_a_certain_leak_has_no_finite_lower_bound() -> None:
    cost = nzc.NZC(1e100, 1e-10).cost(np.array([[5, 5, 1]]), np.zeros(1, int))
    assert cost.epsilon(1e-5).exact_lower == np.inf


def test_composition_never_exceeds_renyi_accounting() -> None:
    rng = np.random.default_rng(1)
    shares = rng.dirichlet([0.2] * 5, 20) * 0.6 + 0.4 * np.eye(5)[rng.integers(0, 5, 20)]
    votes = rng.multinomial(250, shares)
    pure = nzc.LNMax(0.05), nzc.Gumbel(0.1), nzc.PermuteAndFlip(0.1)
    for mechanism in (*pure, nzc.GNMax(40), nzc.Confident(200, 150, 40)):
        cost = mechanism.cost(votes, np.zeros(len(votes), int))
        found = cost.epsilon(1e-5)
        assert found.exact_lower <= found.exact <= to_epsilon(cost.rdp, 1e-5)[0] * (1 + 1e-12)
        assert found.exact < 1.015 * found.exact_lower


def peer(mechanism: NoisyArgmax, *votes: list[int], queries: int) -> float:
    """ε of labels of two classes at votes and at a neighbour; its grid rounds losses up."""
    laws = [dict(enumerate(mechanism.log_law(np.array([row]))[0, :2])) for row in votes]
    label = pld.from_two_probability_mass_functions(*laws, value_discretization_interval=1e-5)
    return float(label.self_compose(queries).get_epsilon_for_delta(1e-5))


@parametrize(
    ("mechanism", "first", "second", "queries"),
    [(LNMax(0.05), 140, 110, 20), (GNMax(40), 180, 70, 30), (Gumbel(0.05), 140, 110, 100)],
)
def test_exact_composition(mechanism: NoisyArgmax, first: int, second: int, queries: int) -> None:
    """Of queries with equal votes, between their two neighbours: ε lies between nzc's bounds."""
    votes = np.tile([first, second], (queries, 1))
    epsilon = mechanism.cost(votes, np.zeros(queries, int)).epsilon(1e-5)
    worst = max(
        peer(mechanism, [first, second], [first + moved, second - moved], queries=queries)
        for moved in (-1, 1)
    )
    assert epsilon.exact is not None
    assert epsilon.exact_lower is not None
    assert epsilon.exact_lower <= worst <= epsilon.exact < 1.02 * epsilon.exact_lower
