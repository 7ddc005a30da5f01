"""What asking cost: everything that the ε of a release is counted from. Costs of several rounds add."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from nzc._types import AnyArray, Floats
from nzc.privacy import independent, release
from nzc.privacy.conversion import ORDERS, epsilon
from nzc.privacy.epsilon import Epsilon
from nzc.privacy.exact import ExactCost
from nzc.privacy.release import Plan
from nzc.privacy.theorem import Bound


@dataclass(frozen=True)
class Cost:
    """The cost of what was asked and answered, before a conversion at δ.

    Later queries may follow from earlier labels: Rényi costs add all the same, as earlier labels are released.

    queries   how many were asked
    exact     exact Rényi costs, to be added; None: the mechanism has no law
    bounded   the papers' bounds, and the histograms [queries, classes] at which each is to be taken; (): no theorem
    releases  how often what was released, as bounds for any votes see it
    leak      the δ that the mechanism itself takes
    claim     what its authors claim, (queries, δ) → ε; None: nothing else
    """

    queries: int
    exact: tuple[ExactCost, ...] | None
    bounded: tuple[tuple[Bound, AnyArray], ...]
    releases: tuple[tuple[int, independent.Release], ...]
    leak: float = 0.0
    claim: Callable[[int, float], float | None] | None = None

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            queries=self.queries + other.queries,
            exact=None if self.exact is None or other.exact is None else self.exact + other.exact,
            bounded=self.bounded + other.bounded if self.bounded and other.bounded else (),
            releases=self.releases + other.releases,
            leak=self.leak + other.leak,
            claim=other.claim,
        )

    def rdp(self, orders: Floats) -> Floats:
        """The exact Rényi cost, [orders]; inf without a law."""
        if self.exact is None:
            return np.full(len(orders), np.inf)
        each = [cost.at_orders if orders is ORDERS else cost.total(orders) for cost in self.exact]
        return np.asarray(np.sum(each, axis=0))

    def epsilon(self, delta: float) -> Epsilon:
        """Every ε at δ that needs no draw."""
        left = delta - self.leak
        exact, order = (np.inf, np.nan) if left <= 0 or self.exact is None else epsilon(self.rdp, left)
        return Epsilon(
            exact=None if self.exact is None else exact,
            order=None if self.exact is None else order,
            theorem=self.theorem(delta),
            data_independent=independent.compose(list(self.releases), left) if left > 0 else np.inf,
            claimed=None if self.claim is None else self.claim(self.queries, delta),
        )

    def theorem(self, delta: float) -> float | None:
        """ε by the papers' data-dependent bounds."""
        if not self.bounded:
            return None
        costs = [bound.cost(histograms) for bound, histograms in self.bounded]
        return epsilon(lambda orders: np.sum([cost(orders).sum(axis=0) for cost in costs], axis=0), delta)[0]

    def sanitised(self, delta: float, rng: np.random.Generator, plan: Plan | None) -> float | None:
        """An upper bound that may be published, drawn anew at each call; None without a theorem, or a plan.

        `plan` was made from public facts, before a vote was seen.
        """
        if not self.bounded or plan is None:
            return None
        return release.sanitise(self.bounded, plan, delta, rng).epsilon


def planned(parts: Sequence[tuple[int, Sequence[Bound]]], make: Callable[..., Plan], delta: float) -> Plan | None:
    """The plan of a sanitised release, `make`d for rounds of so many queries each under such bounds; None without."""
    if not all(bounds for _, bounds in parts):
        return None
    return make([(queries, bound) for queries, bounds in parts for bound in bounds], delta)
