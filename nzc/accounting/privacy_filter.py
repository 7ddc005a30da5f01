"""Privacy filter: which queries may still be asked without exceeding a budget, whatever the votes?
(`budget.epsilon`)

It counts data-independent costs and whether earlier queries were answered, which the labels show.
So stopping reveals nothing about the votes, and the adaptive total stays within the budget: by
Smith and Thakurta 2022 where all noise is Gaussian, by Feldman and Zrnic 2021 at one fixed Rényi
order elsewhere. A data-dependent ε must never decide.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nzc.accounting.data_independent import gaussian
from nzc.accounting.rdp import ORDERS, cks
from nzc.types import Bools, Floats
from nzc.validation import between_0_and_1, positive


@dataclass(frozen=True)
class PrivacyFilter:
    """A budget and the costs counted against it: μ², Rényi costs, or labels, by the function that
    made it.
    """

    budget: float
    ask: float  # cost of asking a query: its screen; 0 without one
    answer: float  # further cost of answering it

    def admit(self, passes: Bools, spent: float = 0.0) -> Bools:
        """Return the queries before the first without room for its screen and label, after earlier
        costs `spent`.
        """
        asked, answered = np.arange(1, len(passes) + 1), np.cumsum(passes) - passes + 1
        return np.asarray(spent + self.ask * asked + self.answer * answered <= self.budget)

    def spends(self, asked: int, answered: int) -> float:
        """Return the cost of so many queries."""
        return (self.ask * asked if asked else 0.0) + (self.answer * answered if answered else 0.0)


#: Filters that admit no query, and all of them.
CLOSED, OPEN = PrivacyFilter(0.0, np.inf, np.inf), PrivacyFilter(0.0, 0.0, 0.0)


def gaussian_filter(
    epsilon: float, delta: float, mu_ask: float, mu_answer: float, mu_other: float = 0.0
) -> PrivacyFilter:
    """Return the filter for Gaussian noise of mean shifts μ: 1/σ₁ for a screen, √2/σ for a label,
    another release.
    """
    positive("epsilon", epsilon)
    between_0_and_1("delta", delta)
    low, high = 0.0, 1.0
    while gaussian(high, delta) <= epsilon:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian(middle, delta) <= epsilon else (low, middle)
    return PrivacyFilter(low**2 - mu_other**2, mu_ask**2, mu_answer**2)


def count_filter(cost: Callable[[int], float], epsilon: float, queries: int) -> PrivacyFilter:
    """Return the filter for queries that are all answered: at least 99 % of the most that `cost`,
    their ε, allows.
    """
    positive("epsilon", epsilon)
    low, high, tried = 0, queries + 1, queries  # cost(low) ≤ ε < cost(high)
    while high - low > max(1, low // 100):
        price = cost(tried)
        low, high = (tried, high) if price <= epsilon else (low, tried)
        # ε grows like a power between 1/2 and 1 of the number of queries.
        guess = tried * min(epsilon / max(price, 1e-9 * epsilon), 1e3) ** (4 / 3)
        tried = min(max(int(guess), low + 1), high - 1)
    return PrivacyFilter(float(low), 0.0, 1.0)


def renyi_filter(
    epsilon: float, delta: float, ask: Floats, answer: Floats, other: Floats | float = 0
) -> PrivacyFilter:
    """Return the filter for any noise, from Rényi costs [len(ORDERS)] of a screen, a label, and
    another release.
    """
    # It uses the one order that lets most queries be answered. To choose it after the first query
    # is not sound.
    positive("epsilon", epsilon)
    between_0_and_1("delta", delta)
    limits = epsilon - cks(np.zeros(len(ORDERS)), ORDERS, delta) - other
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(np.isfinite(ask + answer) & (limits > 0), limits / (ask + answer), -np.inf)
    best = int(np.argmax(room))
    if room[best] == -np.inf:
        return CLOSED
    return PrivacyFilter(float(limits[best]), float(ask[best]), float(answer[best]))
