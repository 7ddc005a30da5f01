"""Where a unit of privacy moves votes on a few queries only: promises against full enumeration."""

from itertools import combinations, product

import numpy as np
import pytest

import nzc
from nzc.accounting.epsilon import Epsilon
from nzc.mechanisms import NoisyArgmax

DELTA = 1e-3
MECHANISMS = [nzc.GNMax(1.5), nzc.Gumbel(0.4), nzc.LNMax(0.5), nzc.Confident(4, 2, 2), nzc.Stable(5, 1.2)]


def _joint(mechanism: NoisyArgmax, votes: np.ndarray) -> np.ndarray:
    """The law of all labels together."""
    law = np.ones(1)
    for each in np.exp(mechanism.log_law(votes)):
        law = np.outer(law, each).ravel()
    return law


def _neighbours(votes: np.ndarray, moved: int) -> list[np.ndarray]:
    """Every other set of histograms of which at most `moved` differ, each by one moved vote."""
    moves = [(a, b) for a, b in product(range(votes.shape[1]), repeat=2) if a != b]
    found = []
    for queries in combinations(range(len(votes)), moved):
        for chosen in product(moves, repeat=moved):
            other = votes.copy()
            for query, (a, b) in zip(queries, chosen, strict=True):
                other[query, a] -= 1
                other[query, b] += 1
            if (other >= 0).all():
                found.append(other)
    return found


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_promises_hold_for_the_law_of_all_labels(mechanism: NoisyArgmax) -> None:
    rng = np.random.default_rng(0)
    for _ in range(3):
        votes = rng.multinomial(6, [0.5, 0.3, 0.2], size=4)
        moving = mechanism.moving(2)
        cost: Epsilon = moving.cost(votes, votes.argmax(axis=1)).epsilon(DELTA)
        assert cost.exact is not None and cost.exact <= cost.data_independent * (1 + 1e-9)
        assert cost.exact_lower is None
        here = _joint(moving, votes)
        for other in _neighbours(votes, 2):
            there = _joint(moving, other)
            for p, q in ((here, there), (there, here)):
                assert np.maximum(p - np.exp(cost.exact) * q, 0).sum() <= DELTA * (1 + 1e-9)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_so_many_queries_are_paid_for_however_many_are_asked(mechanism: NoisyArgmax) -> None:
    two = mechanism.worst_case_epsilon(2, DELTA)
    assert mechanism.moving(2).worst_case_epsilon(500, DELTA) == two < mechanism.worst_case_epsilon(500, DELTA)
    assert mechanism.moving(2).worst_case_epsilon(1, DELTA) == mechanism.worst_case_epsilon(1, DELTA)


def test_a_sparse_vector_counts_over_the_whole_run() -> None:
    sparse = nzc.SparseStable(cutoff=5, teachers=100, delta=1e-5)
    assert sparse.moving(2).worst_case_epsilon(50, 1e-4) == sparse.worst_case_epsilon(50, 1e-4)


def test_an_audit_moves_votes_on_as_many_queries() -> None:
    mechanism = nzc.GNMax(2).moving(2)
    found = nzc.audit(mechanism, teachers=20, classes=3, queries=50, trials=20_000, rng=np.random.default_rng(0))
    assert 0 < found <= mechanism.worst_case_epsilon(50, 1e-5) == nzc.GNMax(2).worst_case_epsilon(2, 1e-5)


def test_what_comes_first_moves_the_same_queries() -> None:
    interactive = nzc.Interactive(threshold=5, sigma1=3, sigma=3, confidence=0.9)
    assert interactive.moving(2).first.moved == 2 and interactive.moving(2).moving(None).first.moved is None
    with pytest.raises(nzc.InputError, match=r"^moved=0: "):
        nzc.GNMax(2).moving(0)


def test_a_screen_within_its_budget_asks_everything() -> None:
    confident = nzc.Confident(5, 5, 5).moving(2)
    whole = confident.worst_case_epsilon(50, DELTA)
    assert confident.pricing.filter(1.001 * whole, DELTA, 50).admit(np.ones(50, dtype=bool)).all()
    assert not confident.pricing.filter(0.999 * whole, DELTA, 50).admit(np.ones(50, dtype=bool)).all()


def test_a_budget_buys_any_number_of_queries() -> None:
    sigma = nzc.calibrate(lambda sigma: nzc.GNMax(sigma).moving(2), epsilon=1, delta=1e-5, queries=1000)
    assert sigma == nzc.calibrate(nzc.GNMax, epsilon=1, delta=1e-5, queries=2)
