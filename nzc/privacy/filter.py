"""Which queries may still be asked without passing a budget, whatever the votes? (`budget.epsilon`)

Only data-independent costs are counted, and whether earlier queries were answered, which the released labels show. So
stopping tells nothing about the votes, and the adaptive total is covered by a filter: Smith and Thakurta 2022 where all
noise is Gaussian (Σμ² within that of the budget), Feldman and Zrnic 2021 at one fixed Rényi order elsewhere.
Data-dependent ε must never decide when to stop: then the number of answers is itself a release.
"""

from dataclasses import dataclass

import numpy as np

from nzc._types import Bools, Floats
from nzc.errors import positive, share
from nzc.privacy.conversion import ORDERS, cks
from nzc.privacy.independent import gaussian


@dataclass(frozen=True)
class Filter:
    """A budget and what queries take from it, in one unit: μ² (`gaussian_filter`) or Rényi cost (`renyi_filter`).

    limit    the whole budget
    ask      what asking a query costs: its screen; 0 without one
    answer   what answering it costs besides
    """

    limit: float
    ask: float
    answer: float

    def admit(self, passes: Bools, spent: float = 0.0) -> Bools:
        """Which queries may be asked, [queries], in their order, where passes [queries] says which pass the screen.

        `spent` is what earlier rounds took.

        A query is asked only if there is room for its screen and its label, before its screen is looked at: the first
        query for which there is none ends the run. So the mask depends on the screens of asked queries only.
        """
        before = np.arange(len(passes))
        answered_before = np.concatenate([[0], np.cumsum(passes)])[before]
        after = spent + self.ask * (before + 1) + self.answer * (answered_before + 1)
        admitted: Bools = after <= self.limit
        return admitted

    def spends(self, asked: int, answered: int) -> float:
        """What so many queries take."""
        return (self.ask * asked if asked else 0.0) + (self.answer * answered if answered else 0.0)


def gaussian_filter(epsilon: float, delta: float, mu_ask: float, mu_answer: float) -> Filter:
    """All noise Gaussian: μ is the mean shift in standard deviations that one moved vote causes, 1/σ₁ and √2/σ.

    The limit is the largest Σμ² with `independent.gaussian` ≤ ε.
    """
    _check(epsilon, delta)
    low, high = 0.0, 1.0
    while gaussian(high, delta) <= epsilon:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian(middle, delta) <= epsilon else (low, middle)
    return Filter(low**2, mu_ask**2, mu_answer**2)


def renyi_filter(epsilon: float, delta: float, ask: Floats, answer: Floats) -> Filter:
    """Any noise: Rényi costs, at conversion.ORDERS, of a screen and of a label; taken at the one order that lets most
    queries be answered.

    The order follows from public facts only, before the first query: a filter that picks it afterwards is not sound.
    """
    _check(epsilon, delta)
    limits = epsilon - cks(np.zeros(len(ORDERS)), ORDERS, delta)
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(np.isfinite(ask + answer) & (limits > 0), limits / (ask + answer), -np.inf)
    best = int(np.argmax(room))
    if room[best] == -np.inf:
        return Filter(0.0, np.inf, np.inf)
    return Filter(float(limits[best]), float(ask[best]), float(answer[best]))


def _check(epsilon: float, delta: float) -> None:
    positive(epsilon=epsilon)
    share(delta=delta)
