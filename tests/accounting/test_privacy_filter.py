"""The budget: what was spent is always within it, and nothing but public facts decides."""

from itertools import product

import numpy as np
from conftest import parametrize
from pytest import approx

from nzc.accounting.data_independent import compose_worst_cases, pure_cost, pure_rdp
from nzc.accounting.gaussian import gaussian
from nzc.accounting.privacy_filter import count_filter, gaussian_filter, renyi_filter
from nzc.accounting.rdp import ORDERS, cks

SIGMA = 40.0
SIGMA1 = 150.0
DELTA = 1e-5
NOTHING = np.zeros(len(ORDERS))


def admitted(budget, most):
    """How many queries are admitted that are all answered."""
    return int(budget.admit(np.ones(most, dtype=bool)).sum())


@parametrize("epsilon", [0.05, 8.0])
@parametrize("share", [0.0, 0.3, 1.0])
@parametrize("beside", [0.0, 0.01])
def test_gaussian_budget_is_kept_and_used_up(epsilon, share, beside):
    """By the mean shifts of all screens and labels, and of another release beside them."""
    budget = gaussian_filter(epsilon, DELTA, 1 / SIGMA1, np.sqrt(2) / SIGMA, beside)
    passes = np.random.default_rng(0).random(200_000) < share
    asked = budget.admit(passes)

    def spent(more):
        screens = (asked.sum() + more) / SIGMA1**2
        labels = ((asked & passes).sum() + more) * 2 / SIGMA**2
        return gaussian(np.sqrt(screens + labels + beside**2), DELTA)

    assert spent(0) <= epsilon < spent(1)


@parametrize("epsilon", [0.05, 0.5, 8.0])
def test_laplace_budget_is_kept(epsilon):
    cost = pure_cost(0.02)
    answered = admitted(renyi_filter(epsilon, DELTA, NOTHING, cost.rdp(ORDERS)), 100_000)
    assert compose_worst_cases([(answered, cost)], DELTA) <= epsilon
    assert answered == 0 or compose_worst_cases([(int(1.3 * answered) + 2, cost)], DELTA) > epsilon


def test_renyi_filter_with_a_screen_keeps_the_budget():
    ask = ORDERS / (2 * SIGMA1**2)
    answer = pure_rdp(0.1, ORDERS)
    budget = renyi_filter(1.0, DELTA, ask, answer)
    passes = np.random.default_rng(1).random(5000) < 0.4
    asked = budget.admit(passes)
    assert 0 < asked.sum() < 5000
    spent = asked.sum() * ask + (asked & passes).sum() * answer
    order = int(np.flatnonzero(answer == budget.answer)[0])
    assert cks(spent, ORDERS, DELTA)[order] <= 1.0 + 1e-12
    most = ((1.0 - cks(NOTHING, ORDERS, DELTA)) / (ask + answer)).max()  # at the best order
    assert budget.budget / (budget.ask + budget.answer) == approx(most)


def test_a_label_without_bound_is_never_answered():
    assert admitted(renyi_filter(5.0, DELTA, NOTHING, NOTHING + np.inf), 3) == 0
    assert admitted(gaussian_filter(5.0, DELTA, 0.0, np.inf), 3) == 0
    assert admitted(count_filter(lambda count: np.inf, 1.0, 100), 5) == 0
    assert admitted(count_filter(lambda count: 0.0, 1.0, 100), 100) == 100


@parametrize("power", [0.5, 0.8, 1.0])
def test_a_number_fixed_beforehand_uses_the_budget_up(power):
    """ε grows like a power of the number of queries; at most 1 % of the queries are lost."""
    for epsilon, queries in product((1e-6, 0.03, 0.99, 40.0), (1, 20, 1000, 50_000)):
        budget = count_filter(lambda count: 0.02 * count**power, epsilon, queries)
        found = admitted(budget, queries)
        most = min(queries, int((epsilon / 0.02) ** (1 / power) * (1 + 1e-12)))
        assert most - max(1, most // 100) < found <= most or found == most
