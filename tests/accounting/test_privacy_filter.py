"""The budget: is what was spent always within it, and does nothing but public facts decide?"""

from itertools import product

import numpy as np
import pytest

from nzc.accounting.data_independent import compose, gaussian, pure_cost, pure_rdp
from nzc.accounting.privacy_filter import count_filter, gaussian_filter, renyi_filter
from nzc.accounting.rdp import ORDERS, cks

SIGMA, SIGMA1, DELTA = 40.0, 150.0, 1e-5


def one_by_one(budget, passes):
    """The protocol in words, as a loop: the second route."""
    spent, admitted = 0.0, np.zeros(len(passes), bool)
    for i, passed in enumerate(passes):
        if spent + budget.ask + budget.answer > budget.budget * (1 + 1e-12):
            break
        admitted[i] = True
        spent += budget.ask + (budget.answer if passed else 0)
    return admitted


@pytest.mark.parametrize("epsilon", [0.05, 8.0])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_gaussian_budget_is_kept_and_used_up(epsilon, share):
    budget = gaussian_filter(epsilon, DELTA, 1 / SIGMA1, np.sqrt(2) / SIGMA)
    passes = np.random.default_rng(0).random(200_000) < share
    asked = budget.admit(passes)
    answered = asked & passes

    def spent(asked, answered):
        return gaussian(np.sqrt(asked / SIGMA1**2 + 2 * answered / SIGMA**2), DELTA)

    assert spent(asked.sum(), answered.sum()) <= epsilon
    assert spent(asked.sum() + 1, answered.sum() + 1) > epsilon or asked.all()
    assert (~asked).sum() > 0  # what is refused can be reported


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 8.0])
def test_laplace_budget_is_kept(epsilon):
    gamma = 0.01
    budget = renyi_filter(epsilon, DELTA, np.zeros(len(ORDERS)), pure_rdp(2 * gamma, ORDERS))
    answered = int(budget.admit(np.ones(100_000, bool)).sum())
    assert compose([(answered, pure_cost(2 * gamma))], DELTA) <= epsilon
    assert (
        answered == 0 or compose([(int(1.3 * answered) + 2, pure_cost(2 * gamma))], DELTA) > epsilon
    )


def test_renyi_filter_with_a_screen_keeps_the_budget_at_its_order():
    ask, answer = ORDERS / (2 * SIGMA1**2), pure_rdp(0.1, ORDERS)
    budget, passes = (
        renyi_filter(1.0, DELTA, ask, answer),
        np.random.default_rng(1).random(5000) < 0.4,
    )
    asked = budget.admit(passes)
    order = ORDERS[np.flatnonzero(answer == budget.answer)[0]]
    spent = asked.sum() * order / (2 * SIGMA1**2) + (asked & passes).sum() * pure_rdp(
        0.1, np.array([order])
    )
    assert cks(spent, np.array([order]), DELTA)[0] <= 1.0 + 1e-12
    assert 0 < asked.sum() < 5000


def test_vectorised_is_the_loop():
    rng = np.random.default_rng(2)
    for _ in range(200):
        budget = gaussian_filter(
            float(rng.uniform(0.05, 1)), DELTA, float(rng.uniform(0, 0.05)), 0.05
        )
        passes = rng.random(rng.integers(0, 400)) < rng.random()
        assert (budget.admit(passes) == one_by_one(budget, passes)).all()


def test_a_label_without_bound_is_never_answered():
    unbounded = np.full(len(ORDERS), np.inf)
    assert (
        not renyi_filter(5.0, DELTA, np.zeros(len(ORDERS)), unbounded).admit(np.ones(3, bool)).any()
    )
    assert not gaussian_filter(5.0, DELTA, 0.0, np.inf).admit(np.ones(3, bool)).any()
    assert not count_filter(lambda count: np.inf, 1.0, 100).admit(np.ones(5, bool)).any()
    assert count_filter(lambda count: 0.0, 1.0, 100).admit(np.ones(100, bool)).all()


@pytest.mark.parametrize("power", [0.5, 0.8, 1.0])
def test_a_number_fixed_beforehand_uses_the_budget_up(power):
    """ε grows like a power of the number of queries, as by composition; at most 1 % of the queries
    are lost.
    """
    for epsilon, queries in product((1e-6, 0.03, 0.99, 40.0), (1, 20, 1000, 50_000)):
        asked = []

        def cost(count, asked=asked):
            asked.append(count)
            return 0.02 * count**power

        admitted = int(count_filter(cost, epsilon, queries).admit(np.ones(queries, bool)).sum())
        most = min(queries, int((epsilon / 0.02) ** (1 / power) * (1 + 1e-12)))
        assert most - max(1, most // 100) < admitted <= most or admitted == most
        assert len(asked) <= 14


def test_a_budget_pays_for_another_release_beside_the_labels() -> None:
    """By hand: the mean shifts of all admitted labels and of the other release stay within ε, and
    one more does not.
    """
    shift, other, epsilon, delta = 0.01, 0.15, 1.0, 1e-5
    admitted = int(
        gaussian_filter(epsilon, delta, 0.0, shift, other).admit(np.ones(10_000, dtype=bool)).sum()
    )
    assert 0 < admitted < 10_000
    spent, more = (
        gaussian(float(np.hypot(shift * labels**0.5, other)), delta)
        for labels in (admitted, admitted + 1)
    )
    assert spent <= epsilon * (1 + 1e-9) < more
