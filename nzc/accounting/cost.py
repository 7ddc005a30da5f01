"""The privacy cost of releases, before conversion to ε. Costs of several releases add."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from nzc.accounting import composition, data_independent, sanitised
from nzc.accounting.data_dependent import DataDependentBound, by_paper
from nzc.accounting.data_independent import FREE, WorstCaseCost
from nzc.accounting.epsilon import Epsilon
from nzc.accounting.exact import ExactCost
from nzc.accounting.induction import LARGEST
from nzc.accounting.own_cells import JointCost
from nzc.accounting.rdp import CHOICES, ORDERS, adaptive_epsilon, cks, to_epsilon
from nzc.accounting.sanitised import Plan
from nzc.types import AnyArray, Bools, Floats, Ints
from nzc.validation import InputError, between_0_and_1


@dataclass(frozen=True)
class Cost:
    """What releasing labels cost. `cost_1 + cost_2` is the cost of both releases, also of adaptive
    ones.
    """

    queries: int  # that were asked
    exact: tuple[ExactCost | JointCost, ...] | None = field(
        repr=False
    )  # to be added; None: there is no law. Private
    #: Pairs of a data-dependent bound and the histograms [queries, classes] to take it at; (): no
    #: theorem. Private.
    bounded: tuple[tuple[DataDependentBound, AnyArray], ...] = field(repr=False)
    worst_case: tuple[
        tuple[int, WorstCaseCost], ...
    ]  # pairs of a count and the cost of one release, for any votes
    delta_cost: float = 0.0  # the part of δ that the mechanism itself uses
    #: What the papers' own numbers follow from (`data_dependent.by_paper`); (): no theorem.
    #: Private.
    printed: tuple[tuple[DataDependentBound, AnyArray, Floats], ...] = field(default=(), repr=False)
    #: The ε that the authors claim, (queries, δ) → ε; None: they claim none of their own.
    claim: Callable[[int, float], float | None] | None = field(default=None, repr=False)
    parts: tuple["Cost", ...] = field(
        default=(), repr=False
    )  # of which it is the sum; (): it is none
    #: δ → what `exact_epsilon` found, which takes up to a minute: a run asks for a round, and again
    #: for all of them.
    _found: dict[float, tuple[float | None, float | None, float | None]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            queries=self.queries + other.queries,
            exact=None if self.exact is None or other.exact is None else self.exact + other.exact,
            bounded=self.bounded + other.bounded if self.bounded and other.bounded else (),
            worst_case=self.worst_case + other.worst_case,
            delta_cost=self.delta_cost + other.delta_cost,
            printed=self.printed + other.printed if self.printed and other.printed else (),
            claim=other.claim,
            parts=(self.parts or (self,)) + (other.parts or (other,)),
        )

    def dearer(self, other: "Cost") -> "Cost":
        """Return the most that some queries of this release and the rest of the other cost; both
        have equally many.
        """
        costs = self, other
        known = [
            [(count, *each.known()) for count, each in cost.worst_case if count] for cost in costs
        ]
        if known[0] == known[1] and self.delta_cost == other.delta_cost:
            return self
        one, two = (data_independent.added(cost.worst_case) for cost in costs)
        most = WorstCaseCost(
            lambda orders: np.maximum(one.rdp(orders), two.rdp(orders)), max(one.mu, two.mu)
        )
        return Cost(self.queries, None, (), ((1, most),), max(self.delta_cost, other.delta_cost))

    def rdp(self, orders: Floats) -> Floats:
        """Return the exact Rényi cost, [orders]; inf where the mechanism has no law."""
        if self.exact is None:
            return np.full(len(orders), np.inf)
        return np.asarray(np.sum([cost.total(orders) for cost in self.exact], axis=0))

    def epsilon(self, delta: float) -> Epsilon:
        """Return every ε at δ that needs no random draw; δ must lie strictly between 0 and 1."""
        between_0_and_1("delta", delta)
        exact, lower, order = self.exact_epsilon(delta)
        claimed = None if self.claim is None else self.claim(self.queries, delta)
        costs = [bound.cost(histograms) for bound, histograms in self.bounded]

        def total(orders: Floats) -> Floats:
            return np.asarray(np.sum([cost(orders).sum(axis=0) for cost in costs], axis=0))

        return Epsilon(
            exact=exact,
            exact_lower=lower,
            order=order,
            theorem=to_epsilon(total, delta)[0] if costs else None,
            paper=by_paper(self.printed, delta) if self.printed else claimed,
            data_independent=self.data_independent(delta),
            claimed=claimed,
        )

    def published(self, delta: float, rough: bool = False) -> tuple[float, float]:
        """Return an ε and its δ that hold for any votes: one pure release has δ = 0, all else the
        given δ.
        """
        releases = [
            (count, cost.pure) for count, cost in self.worst_case if count and cost is not FREE
        ]
        if (
            not self.delta_cost
            and len(releases) == 1
            and releases[0][0] == 1
            and releases[0][1] < np.inf
        ):
            return releases[0][1], 0.0
        return self.data_independent(delta, rough), delta

    def data_independent(self, delta: float, rough: bool = False) -> float:
        """Return ε at δ for any votes; `rough`: a slightly larger one, in milliseconds."""
        together = data_independent.compose(self.worst_case, delta - self.delta_cost, rough)
        paid = [
            part
            for part in self.parts
            if any(count and cost is not FREE for count, cost in part.worst_case)
        ]
        if len(paid) < 2:
            return together
        # Each part is (ε, δ/parts)-private whatever came before, and what it used of δ itself is a
        # part of that.
        return min(together, sum(part.data_independent(delta / len(paid), rough) for part in paid))

    def exact_epsilon(self, delta: float) -> tuple[float | None, float | None, float | None]:
        """Return the exact ε at δ, a lower bound on it, and the best Rényi order; None where there
        is none.

        One round is composed exactly (`composition`). Of several the Rényi costs add, as queries
        may depend on labels.
        """
        if delta not in self._found:
            self._found[delta] = self._exact_epsilon(delta)
        return self._found[delta]

    def _exact_epsilon(self, delta: float) -> tuple[float | None, float | None, float | None]:
        if self.exact is None:
            return None, None, None
        left = delta - self.delta_cost
        if left <= 0:
            return np.inf, None, np.nan
        if len(self.exact) > 1:
            return adaptive_epsilon(self.rdp(CHOICES), left), None, np.nan
        exact, order = to_epsilon(self.rdp, left)
        exact = min(exact, self.data_independent(delta))
        if exact == 0:
            return exact, 0.0, order
        bounds = [
            composition.compose(laws, left, exact, order)
            for laws in self.exact[0].neighbourhoods(order)
        ]
        if not bounds:
            return exact, None, order
        lower, upper = (max(ends) for ends in zip(*bounds, strict=True))
        if self.exact[0].complete:
            exact = min(exact, upper)
        # Noise that ends a run, or a part of δ, may hide what the laws of all queries show.
        if self.delta_cost > 0 or self.exact[0].paid is not None:
            return exact, None, order
        if exact < np.inf:  # e^-1000 counts as 0: an infinite loss is LARGEST at least
            lower = min(lower, LARGEST)
        if lower > exact * (1 + 1e-6) + 1e-9:
            allowed = (
                f"must hold for any votes; the law at these votes shows a larger ε at δ={delta:g}"
            )
            raise InputError("worst_case", self.data_independent(delta), allowed)
        return exact, lower, order

    def sanitised(self, delta: float, rng: np.random.Generator, plan: Plan) -> float:
        """Draw an upper bound that may be published; each call is a further release. It needs
        `bounded`.
        """
        return plan.convert(sanitised.sanitise(self.bounded, plan, delta, rng), delta)


def cost_curve(
    rounds: Sequence[tuple[Cost, Bools]], delta: float, points: int
) -> tuple[Ints, dict[str, Floats]]:
    """Return how ε grows from query to query: labels released so far [points], and ε at δ [points]
    by its name.

    A round is its cost, and which of its queries were answered, in the order of asking.
    """
    ends = np.unique(
        np.linspace(0, sum(len(answered) for _, answered in rounds), points + 1).astype(np.int64)
    )[1:]
    released, left, before = np.zeros_like(ends), np.full(len(ends), delta), 0
    known = {
        "exact": [cost.exact is not None for cost, _ in rounds],
        "theorem": [bool(c.bounded) for c, _ in rounds],
    }
    rdp = {name: np.zeros((len(ends), len(ORDERS))) for name, there in known.items() if all(there)}
    parts: list[tuple[Ints, WorstCaseCost]] = []
    for cost, answered in rounds:
        queries = np.clip(ends - before, 0, len(answered))
        labels = np.concatenate([[0], np.cumsum(answered)])[queries]
        # A release accompanies every label or every query; its count tells which.
        so_far = {int(answered.sum()): labels, len(answered): queries}
        if "exact" in rdp and cost.exact is not None:
            rdp["exact"] += sum(part.first(queries) for part in cost.exact)
        for bound, histograms in cost.bounded if "theorem" in rdp else ():
            grown = bound.cost(histograms)(ORDERS).cumsum(axis=0)
            rdp["theorem"] += np.concatenate([0 * ORDERS[None], grown])[so_far[len(histograms)]]
        parts += [(np.minimum(queries, count), worst_case) for count, worst_case in cost.worst_case]
        released, before = released + labels, before + len(answered)
        paid = max([1, *(count for count, _ in cost.worst_case)])
        left = left - cost.delta_cost * np.minimum(queries, paid) / paid
    left = np.maximum(left, 0)
    with np.errstate(divide="ignore"):
        least = {
            name: np.maximum(cks(cost, ORDERS, left[:, None]).min(axis=1), 0)
            for name, cost in rdp.items()
        }
    curves = {name: np.where(rdp[name].any(axis=1), values, 0.0) for name, values in least.items()}
    spent = [[(int(count[at]), release) for count, release in parts] for at in range(len(ends))]
    independent = [
        data_independent.compose(*pair, rough=True) for pair in zip(spent, left, strict=True)
    ]
    return released, curves | {"data_independent": np.array(independent)}
