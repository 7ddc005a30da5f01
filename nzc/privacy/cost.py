"""What asking cost: everything that the ε of a release is counted from. Costs of several rounds add."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from nzc._types import AnyArray, Bools, Floats, Ints
from nzc.privacy import independent, sanitised
from nzc.privacy.conversion import ORDERS, cks, epsilon
from nzc.privacy.epsilon import Epsilon
from nzc.privacy.exact import ExactCost
from nzc.privacy.sanitised import Plan
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
        exact, order = self.exactly(delta)
        return Epsilon(
            exact=exact,
            order=order,
            theorem=self.theorem(delta),
            data_independent=self.independent(delta),
            claimed=None if self.claim is None else self.claim(self.queries, delta),
        )

    def independent(self, delta: float) -> float:
        """ε by bounds that hold for any votes."""
        return _independent(self.releases, delta - self.leak)

    def exactly(self, delta: float) -> tuple[float | None, float | None]:
        """Exact ε, and its Rényi order; None without a law."""
        if self.exact is None:
            return None, None
        left = delta - self.leak
        return epsilon(self.rdp, left) if left > 0 else (np.inf, np.nan)

    def theorem(self, delta: float) -> float | None:
        """ε by the papers' data-dependent bounds."""
        if not self.bounded:
            return None
        costs = [bound.cost(histograms) for bound, histograms in self.bounded]
        return epsilon(lambda orders: np.sum([cost(orders).sum(axis=0) for cost in costs], axis=0), delta)[0]

    def sanitised(self, delta: float, rng: np.random.Generator, plan: Plan) -> float:
        """An upper bound that may be published, drawn anew at each call; only where a theorem applies.

        `plan` was made from public facts, before a vote was seen.
        """
        return sanitised.sanitise(self.bounded, plan, delta, rng).epsilon


def growth(rounds: Sequence[tuple[Cost, Bools]], delta: float, points: int) -> tuple[Ints, dict[str, Floats]]:
    """How ε grew from query to query: labels released so far, and ε at δ by its name, at so many points.

    rounds   the cost of each, and which of its queries were answered, in the order of asking
    """
    ends = np.unique(np.linspace(0, sum(len(answered) for _, answered in rounds), points + 1).astype(np.int64))[1:]
    released, left, before = np.zeros_like(ends), np.full(len(ends), delta), 0
    known = {"exact": [cost.exact is not None for cost, _ in rounds], "theorem": [bool(c.bounded) for c, _ in rounds]}
    rdp = {name: np.zeros((len(ends), len(ORDERS))) for name, there in known.items() if all(there)}
    releases: list[tuple[Ints, independent.Release]] = []
    for cost, answered in rounds:
        queries = np.clip(ends - before, 0, len(answered))
        labels = np.concatenate([[0], np.cumsum(answered)])[queries]
        # A release comes with every label, or with every query: its count says which.
        so_far = {int(answered.sum()): labels, len(answered): queries}
        if "exact" in rdp and cost.exact is not None:
            rdp["exact"] += sum(each.first(queries) for each in cost.exact)
        for bound, histograms in cost.bounded if "theorem" in rdp else ():
            each = bound.cost(histograms)(ORDERS)
            rdp["theorem"] += np.concatenate([0 * ORDERS[None], each.cumsum(axis=0)])[so_far[len(histograms)]]
        releases += [(so_far[count], release) for count, release in cost.releases]
        released, before = released + labels, before + len(answered)
        left = left - cost.leak * queries / max(1, len(answered))
    left = np.maximum(left, 0)
    with np.errstate(divide="ignore"):
        least = {name: np.maximum(cks(cost, ORDERS, left[:, None]).min(axis=1), 0) for name, cost in rdp.items()}
    found = {name: np.where(rdp[name].any(axis=1), values, 0.0) for name, values in least.items()}
    made = [[(int(count[at]), release) for count, release in releases] for at in range(len(ends))]
    found["data_independent"] = np.array([_independent(parts, rest) for parts, rest in zip(made, left, strict=True)])
    return released, found


def _independent(releases: Sequence[tuple[int, independent.Release]], delta: float) -> float:
    return independent.compose(list(releases), delta) if delta > 0 else np.inf
