"""Privacy filter: which queries fit into the budget `budget.epsilon`, whatever the votes?

It counts data-independent costs and whether earlier queries were answered, which the labels show.
So stopping reveals nothing about the votes, and the adaptive total stays within the budget: by
Smith and Thakurta 2022 where all noise is Gaussian, by Feldman and Zrnic 2021 at one fixed Rényi
order elsewhere. A data-dependent ε must never decide.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nzc.accounting.gaussian import gaussian
from nzc.accounting.rdp import ORDERS, cks
from nzc.types import Bools, Floats, OneOrMore
from nzc.validation import positive


@dataclass(frozen=True)
class PrivacyFilter:
    """A budget and the costs counted against it.

    They are μ², Rényi costs, or labels, by the function that made the filter.
    """

    budget: float
    ask: float  # cost of asking a query: its screen; 0 without one
    answer: float  # further cost of answering it

    def admit(self, passes: Bools, spent: float = 0.0) -> Bools:
        """Return the queries before the first without room for its screen and label.

        `passes` are those that its screen passes, and `spent` what earlier queries cost.
        """
        asked = np.arange(1, len(passes) + 1)
        answered = np.cumsum(passes) - passes + 1
        return spent + self.ask * asked + self.answer * answered <= self.budget

    def spends(self, asked: int, answered: int) -> float:
        """Return the cost of so many queries."""
        # No query costs nothing, also where one has no bound.
        screens = self.ask * asked if asked else 0.0
        return screens + (self.answer * answered if answered else 0.0)


#: The filter that admits no query, and the one that admits all.
CLOSED = PrivacyFilter(0.0, np.inf, np.inf)
OPEN = PrivacyFilter(0.0, 0.0, 0.0)


def gaussian_filter(
    epsilon: float, delta: float, mu_ask: float, mu_answer: float, mu_other: float = 0.0
) -> PrivacyFilter:
    """Return the filter for Gaussian noise.

    Its mean shifts μ are 1/σ₁ for a screen, √2/σ for a label, and that of another release.
    """
    low = 0.0
    high = 1.0
    while gaussian(high, delta) <= epsilon:
        low = high
        high *= 2
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if gaussian(middle, delta) <= epsilon:
            low = middle
        else:
            high = middle
    return PrivacyFilter(low**2 - mu_other**2, mu_ask**2, mu_answer**2)


def count_filter(cost: Callable[[int], float], epsilon: float, queries: int) -> PrivacyFilter:
    """Return the filter for queries that are all answered; `cost` is the ε of so many.

    It admits at least 99 % of the most that the budget allows.
    """
    positive("epsilon", epsilon)
    low = 0  # cost(low) ≤ ε < cost(high)
    high = queries + 1
    tried = queries
    while high - low > max(1, low // 100):
        price = cost(tried)
        # ε grows like a power between 1/2 and 1 of the number of queries.
        guess = tried * min(epsilon / max(price, 1e-9 * epsilon), 1e3) ** (4 / 3)
        if price <= epsilon:
            low = tried
        else:
            high = tried
        tried = min(max(int(guess), low + 1), high - 1)
    return PrivacyFilter(float(low), 0.0, 1.0)


def renyi_filter(
    epsilon: float, delta: float, ask: Floats, answer: Floats, other: OneOrMore = 0
) -> PrivacyFilter:
    """Return the filter for any noise, from Rényi costs [len(ORDERS)].

    They are those of a screen, a label, and another release.
    """
    # It uses the one order that lets most queries be answered. To choose it after the first query
    # is not sound.
    limits = epsilon - cks(np.zeros(len(ORDERS)), ORDERS, delta) - other
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(np.isfinite(ask + answer) & (limits > 0), limits / (ask + answer), -np.inf)
    best = int(np.argmax(room))
    if room[best] == -np.inf:
        return CLOSED
    return PrivacyFilter(float(limits[best]), float(ask[best]), float(answer[best]))
