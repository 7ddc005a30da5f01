"""The privacy cost of releases, before conversion to ε. Costs of several releases add."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from operator import add

import numpy as np

from nzc.accounting import composition, data_independent, sanitised
from nzc.accounting.data_dependent import DataDependentBound, by_paper
from nzc.accounting.data_independent import KnownCost, Release, WorstCaseCost, added, paid
from nzc.accounting.epsilon import Bound, Delta, Epsilon, least_delta
from nzc.accounting.exact import ExactCost
from nzc.accounting.induction import LARGEST
from nzc.accounting.rdp import CHOICES, ORDERS, adaptive_epsilon, cks, to_epsilon
from nzc.accounting.sanitised import SanitisedPlan
from nzc.types import AnyArray, Bools, Floats, Ints
from nzc.validation import as_generator, between_0_and_1, not_negative, whole

#: The exact ε, a lower bound on it, and the best Rényi order; None where there is none.
ExactEpsilon = tuple[Bound, Bound, Bound]


@dataclass(frozen=True, eq=False)
class Cost:
    """What releasing labels cost.

    `cost_1 + cost_2` is the cost of both releases, also of adaptive ones, `cost * 3` that of three
    such releases, and `sum(costs)` that of all.
    """

    queries: int  # that were asked
    #: Exact costs, to be added; None: there is no law. Private.
    exact: tuple[ExactCost | KnownCost, ...] | None = field(repr=False)
    #: Pairs of a data-dependent bound and the histograms [queries, classes] to take it at; (): no
    #: theorem. Private.
    bounded: tuple[tuple[DataDependentBound, AnyArray], ...] = field(repr=False)
    #: Pairs of a count and the cost of one release, for any votes.
    worst_case: tuple[Release, ...]
    delta_cost: float = 0.0  # the part of δ that the mechanism itself uses
    #: What the papers' own numbers follow from (`data_dependent.by_paper`); (): no theorem.
    #: Private.
    printed: tuple[tuple[DataDependentBound, AnyArray, Floats], ...] = field(default=(), repr=False)
    #: The ε that the authors claim, (queries, δ) → ε; None: they claim none of their own.
    claim: Callable[[int, float], Bound] | None = field(default=None, repr=False)
    #: The costs of which it is the sum; (): it is none.
    parts: tuple["Cost", ...] = field(default=(), repr=False)
    #: δ → what `exact_epsilon` found, which takes up to a minute: a run asks for a round, and again
    #: for all of them.
    _found: dict[float, ExactEpsilon] = field(default_factory=dict, init=False, repr=False)

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

    def __radd__(self, nothing: int) -> "Cost":
        """Return this cost: `sum` begins with 0, and no other number can be added."""
        if nothing:
            return NotImplemented
        return self

    def __mul__(self, releases: int) -> "Cost":
        return reduce(add, [self] * whole("releases", releases, 1, 10**6))

    __rmul__ = __mul__

    def dearer(self, other: "Cost") -> "Cost":
        """Return the most that some queries of this release and the rest of the other cost.

        Both have equally many.
        """
        if self._public_facts() == other._public_facts():
            return self
        one = added(self.worst_case)
        two = added(other.worst_case)
        most = WorstCaseCost(
            lambda orders: np.maximum(one.rdp(orders), two.rdp(orders)), max(one.mu, two.mu)
        )
        return Cost(self.queries, None, (), ((1, most),), max(self.delta_cost, other.delta_cost))

    def _public_facts(self) -> object:
        """Return all that decides the cost for any votes, to be compared."""
        return self.delta_cost, [(count, cost.known()) for count, cost in paid(self.worst_case)]

    def rdp(self, orders: Floats) -> Floats:
        """Return the exact Rényi cost, [orders]; inf where the mechanism has no law."""
        if self.exact is None:
            return np.full(len(orders), np.inf)
        times = Counter(self.exact).items()
        return sum((count * cost.total(orders) for cost, count in times), 0 * orders)

    @property
    def mu(self) -> float:
        """The mean shift that is all of its cost, whatever the votes; inf: there is more to it."""
        return added(self.worst_case).mu if self._known else np.inf

    @property
    def _known(self) -> bool:
        """Whether these votes cost as much as any others."""
        return self.exact is not None and all(isinstance(cost, KnownCost) for cost in self.exact)

    def epsilon(self, delta: float) -> Epsilon:
        """Return every ε at δ that needs no random draw; δ must lie strictly between 0 and 1."""
        delta = between_0_and_1("delta", delta)
        exact, lower, order = self.exact_epsilon(delta)
        claimed = self.claim and self.claim(self.queries, delta)
        return Epsilon(
            exact=exact,
            exact_lower=lower,
            order=order,
            theorem=self._theorem_epsilon(delta),
            paper=by_paper(self.printed, delta) if self.printed else claimed,
            data_independent=self.data_independent(delta),
            claimed=claimed,
        )

    def delta(self, epsilon: float) -> Delta:
        """Return δ at ε, of three bounds: the least at which their ε is at most `epsilon`.

        It is rounded up. 1: there is no bound. To find it takes twenty times as long as to find ε.
        """
        least = partial(least_delta, epsilon=not_negative("epsilon", epsilon))
        return Delta(
            exact=least(lambda delta: self.exact_epsilon(delta)[0]),
            theorem=least(self._theorem_epsilon),
            data_independent=least(self.data_independent),
        )

    def _theorem_epsilon(self, delta: float) -> Bound:
        """Return ε at δ by the data-dependent theorem; None: there is none."""
        if not self.bounded:
            return None
        costs = [bound.cost(histograms) for bound, histograms in self.bounded]

        def rdp(orders: Floats) -> Floats:
            return sum((cost(orders).sum(axis=0) for cost in costs), 0 * orders)

        return to_epsilon(rdp, delta)[0]

    def published(self, delta: float, rough: bool = False) -> tuple[float, float]:
        """Return an ε and its δ that hold for any votes.

        One pure release has δ = 0, all else the given δ.
        """
        releases = paid(self.worst_case)
        if len(releases) == 1 and not self.delta_cost:
            count, cost = releases[0]
            if count == 1 and cost.pure < np.inf:
                return cost.pure, 0.0
        return self.data_independent(delta, rough), delta

    def data_independent(self, delta: float, rough: bool = False) -> float:
        """Return ε at δ for any votes; `rough`: a slightly larger one, in milliseconds."""
        together = data_independent.compose_worst_cases(
            self.worst_case, delta - self.delta_cost, rough
        )
        parts = [part for part in self.parts if paid(part.worst_case)]
        if len(parts) < 2:
            return together
        # Each part is (ε, δ/parts)-private whatever came before, and what it used of δ itself is a
        # part of that.
        share = delta / len(parts)
        times = Counter(parts).items()
        apart = sum(count * part.data_independent(share, rough) for part, count in times)
        return min(together, apart)

    def exact_epsilon(self, delta: float) -> ExactEpsilon:
        """Return the exact ε at δ, a lower bound on it, and the best Rényi order.

        One round is composed exactly (`composition`). Of several the Rényi costs add, as queries
        may depend on labels; what costs the same at any votes is composed as for any votes.
        """
        if delta not in self._found:
            self._found[delta] = self._exact_epsilon(delta)
        return self._found[delta]

    def _exact_epsilon(self, delta: float) -> ExactEpsilon:
        if self.exact is None:
            return None, None, None
        left = delta - self.delta_cost
        several = len(self.exact) > 1
        if left <= 0 or (several and self._known):
            return self.data_independent(delta), None, np.nan
        if several:
            return adaptive_epsilon(self.rdp(CHOICES), left), None, np.nan
        (cost,) = self.exact
        exact, order = to_epsilon(cost.total, left)
        exact = min(exact, self.data_independent(delta))
        if exact == 0:
            return exact, 0.0, order
        if isinstance(cost, KnownCost):
            return exact, None, order
        lower, upper = composition.compose(cost.laws(), left, exact, order)
        exact = min(exact, upper)
        if self.delta_cost > 0:  # a part of δ may hide what the laws of all queries show
            return exact, None, order
        if exact < np.inf:  # e^-1000 counts as 0: an infinite loss is LARGEST at least
            lower = min(lower, LARGEST)
        return exact, lower, order

    def sanitised(self, delta: float, rng: np.random.Generator, plan: SanitisedPlan) -> float:
        """Draw an upper bound that may be published; each call is a further release.

        It needs `bounded`.
        """
        rdp = sanitised.sanitise(self.bounded, plan, delta, as_generator(rng))
        return plan.convert(rdp, delta)


def cost_curve(
    rounds: Sequence[tuple[Cost, Bools]], delta: float, points: int
) -> tuple[Ints, dict[str, Floats]]:
    """Return how ε grows from query to query: labels released so far, and ε at δ by its name.

    A round is its cost, and which of its queries were answered, in the order of asking. All that is
    returned is [points].
    """
    asked = sum(len(answered) for _, answered in rounds)
    ends = np.unique(np.linspace(0, asked, points + 1).astype(np.int64))[1:]
    released = np.zeros_like(ends)
    left = np.full(len(ends), delta)
    exact = np.zeros((len(ends), len(ORDERS)))
    theorem = np.zeros_like(exact)
    worst_case: list[tuple[Ints, WorstCaseCost]] = []
    before = 0
    for cost, answered in rounds:
        queries = np.clip(ends - before, 0, len(answered))
        labels = np.append(0, np.cumsum(answered))[queries]
        # A release accompanies every label or every query; its count tells which.
        so_far = {int(answered.sum()): labels, len(answered): queries}
        for part in cost.exact or ():
            exact += part.first(queries)
        for bound, histograms in cost.bounded:
            grown = np.cumsum(bound.cost(histograms)(ORDERS), axis=0)
            theorem += np.vstack([0 * ORDERS, grown])[so_far[len(histograms)]]
        paying = 1
        for count, release in cost.worst_case:
            worst_case.append((np.minimum(queries, count), release))
            paying = max(paying, count)
        released += labels
        before += len(answered)
        left -= cost.delta_cost * np.minimum(queries, paying) / paying
    left = np.maximum(left, 0)
    curves = {}
    if all(cost.exact is not None for cost, _ in rounds):
        curves["exact"] = _epsilons(exact, left)
    if all(cost.bounded for cost, _ in rounds):
        curves["theorem"] = _epsilons(theorem, left)
    curves["data_independent"] = _worst_case_curve(worst_case, left)
    return released, curves


def _worst_case_curve(worst_case: list[tuple[Ints, WorstCaseCost]], deltas: Floats) -> Floats:
    """Return ε for any votes after so many releases, which are [points], each at its own δ."""
    epsilons = []
    for point, delta in enumerate(deltas):
        releases = [(int(counts[point]), release) for counts, release in worst_case]
        epsilons.append(data_independent.compose_worst_cases(releases, delta, rough=True))
    return np.array(epsilons)


def _epsilons(rdp: Floats, deltas: Floats) -> Floats:
    """Return ε of Rényi costs [points, len(ORDERS)], each at its own δ; 0 of no cost."""
    with np.errstate(divide="ignore"):
        least = np.maximum(cks(rdp, ORDERS, deltas[:, None]).min(axis=1), 0)
    return np.where(rdp.any(axis=1), least, 0.0)
