"""What a labeling session promises before a vote is seen: what it may release, and what that costs
at most.

The published ε of a run is `Promise.epsilon`: NoisyArgmax.promise → Cost.data_independent →
data_independent.compose.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from nzc.accounting import Cost
from nzc.accounting.data_independent import FREE, gaussian, gaussian_cost
from nzc.accounting.epsilon import DATA_INDEPENDENT, SANITISED
from nzc.accounting.privacy_filter import OPEN, PrivacyFilter, count_filter
from nzc.accounting.sanitised import Plan
from nzc.labeling.group_budgets import Share
from nzc.labeling.query_selection import QuerySelection
from nzc.labeling.randomness import SEEDED
from nzc.mechanisms import NoisyArgmax
from nzc.validation import InputError


@dataclass(frozen=True)
class LabelingPolicy:
    """The rules of a session. They are fixed before a vote is seen."""

    mechanism: NoisyArgmax
    selection: QuerySelection
    seed: int
    delta: float
    budget: float | None  # ε at δ that no release may exceed, whatever the votes; None: no limit
    plan: Callable[..., Plan]  # chooses the plan of the sanitised ε (accounting.sanitised.plan)
    audit_trials: (
        int | None
    )  # how often the mechanism is run for a lower bound on ε; None: no audit
    rng: str = SEEDED  # where noise comes from: seeded, or system. Public choices always follow from `seed`
    answers: int | None = (
        None  # how many labels are released at most, in all rounds; None: no limit
    )
    bound: str = DATA_INDEPENDENT  # that is published; or sanitised, which is a release of its own
    total: float | None = (
        None  # ε that all published folders about the same people may have; None: no limit
    )
    shares: Mapping[str, Share] = field(
        default_factory=dict
    )  # individual budgets by the names of groups; {}: none


class Promise:
    """The promise of a session with sizes[i] queries in round i, from public facts alone.
    InputError: none is kept.
    """

    def __init__(self, policy: LabelingPolicy, sizes: list[int]) -> None:
        self.policy, self.sizes, rounds = policy, sizes, len(sizes)
        first = policy.mechanism.first or policy.mechanism
        self.mechanisms = [first, *[policy.mechanism] * (rounds - 1)]  # of each round
        if rounds > 1 and any(mechanism.one_round for mechanism in self.mechanisms):
            raise InputError(
                "rounds", rounds, f"must be 1: the cost of {policy.mechanism} counts over one round"
            )
        if rounds > 1 and not policy.mechanism.adjacency.everywhere:
            raise InputError("rounds", rounds, "must be 1 where records count in their own cells")
        self.plan: Plan | None = (
            None  # of the sanitised ε, a release of its own; None: it is not published
        )
        if policy.bound == SANITISED:
            bounds = [mechanism.bounds for mechanism in self.mechanisms]
            if not all(bounds):
                allowed = f"must be {DATA_INDEPENDENT}: no paper has a data-dependent bound for {policy.mechanism}"
                raise InputError("bound", SANITISED, allowed)
            planned = [
                (size, bound) for size, parts in zip(sizes, bounds, strict=True) for bound in parts
            ]
            self.plan = policy.plan(planned, policy.delta)
        self.bound_cost = FREE if self.plan is None else gaussian_cost(1 / self.plan.noise)
        self.cost_of_bound = Cost(0, None, (), ((1, self.bound_cost),))
        self.alike = all(mechanism == first for mechanism in self.mechanisms)
        fits = (
            policy.budget is not None
            and self._price(self.mechanisms, [OPEN] * rounds)[0] <= policy.budget
        )
        at_first = OPEN if fits else self._filter(first)
        later = at_first if self.alike or fits else self._filter(policy.mechanism)
        self.filters = [
            at_first,
            *[later] * (rounds - 1),
        ]  # of each round; None: there is no budget
        if at_first is not None and later is not None and at_first.budget != later.budget:
            raise InputError(
                "budget.epsilon",
                policy.budget,
                "must be null unless all noise is alike, or Gaussian",
            )
        self.individual = (
            self._individual()
        )  # ε of a record of each budget group, at the δ of `bound`

    @property
    def epsilon(self) -> float:
        """The ε of `bound`."""
        return self.bound[0]

    @cached_property
    def bound(self) -> tuple[float, float]:
        """ε and δ of everything that the session may release, whatever the votes; δ = 0 where the
        bound is pure.
        """
        epsilon, delta = self._price(self.mechanisms, self.filters)
        return epsilon if self.policy.budget is None else min(epsilon, self.policy.budget), delta

    def published(self, sanitised: float | None) -> float:
        """Return the ε to publish where a sanitised bound was drawn; None: none was."""
        if sanitised is None:
            return self.epsilon
        return sanitised if self.policy.budget is None else min(sanitised, self.epsilon)

    def _individual(self) -> dict[str, float]:
        """Return the ε of each group. InputError: one exceeds what the group allows."""
        policy, kept, epsilons = self.policy, self.filters[0], dict[str, float]()
        largest = max((share.weight for share in policy.shares.values()), default=1)
        screened = any(mechanism.screen is not None for mechanism in self.mechanisms)
        finite = np.isfinite(
            [cost.mu for mechanism in self.mechanisms for _, cost in mechanism.worst_case()]
        ).all()
        for name, share in policy.shares.items():
            epsilon = self.epsilon
            if share.weight < largest:
                own = [mechanism.between(share.adjacency) for mechanism in self.mechanisms]
                epsilon = self._price(own, self.filters)[0]
                if (
                    kept is not None and screened and finite
                ):  # the filter keeps Σμ² of the largest weight
                    mu = float(np.sqrt(kept.budget)) * share.weight / largest
                    epsilon = min(epsilon, gaussian(mu, policy.delta))
            if epsilon > share.budget * (1 + 1e-9):
                raise InputError(
                    f"budget.groups.{name}",
                    share.budget,
                    f"must be at least {epsilon:.6g}; or leave noise null",
                )
            epsilons[name] = epsilon
        return epsilons

    def _price(
        self, mechanisms: Sequence[NoisyArgmax], filters: Sequence[PrivacyFilter | None]
    ) -> tuple[float, float]:
        """Return ε and δ of all that the filters admit, with the price of these mechanisms; one of
        each a round.
        """
        policy, spent, cost = self.policy, 0.0, self.cost_of_bound
        left = sum(self.sizes) if policy.answers is None else policy.answers
        for size, mechanism, privacy_filter in zip(self.sizes, mechanisms, filters, strict=True):
            queries = size
            if (
                privacy_filter is not None and mechanism.screen is None
            ):  # then it is known how many it admits
                queries = int(privacy_filter.admit(np.ones(size, dtype=bool), spent).sum())
                spent += privacy_filter.spends(queries, queries)
            answered = min(queries, left)
            left -= (
                answered if self.alike else 0
            )  # else a dear round may have all of them, after a cheap one had none
            cost += mechanism.promise(queries, answered)
        return cost.published(policy.delta)

    def _filter(self, mechanism: NoisyArgmax) -> PrivacyFilter | None:
        policy, budget, delta = self.policy, self.policy.budget, self.policy.delta
        if budget is None:
            return None

        def price(count: int) -> float:
            return mechanism.promise(count, count).published(delta)[0]

        queries = sum(self.sizes)
        if mechanism.screen is None and self.alike and self.plan is None:
            queries = queries if policy.answers is None else min(queries, policy.answers)
            privacy_filter = count_filter(price, budget, queries)
        else:
            privacy_filter = mechanism.filter(budget, delta, queries, self.bound_cost)
        if not privacy_filter.admit(np.ones(1, dtype=bool)).all():
            least = price(queries if mechanism.one_round else 1)
            allowed = (
                f"must be at least {least:.6g}, which {policy.mechanism} costs at delta={delta:g}"
            )
            if not np.isfinite(least):
                allowed = (
                    f"must be null: {policy.mechanism} has no finite ε, so no budget can be kept"
                )
            raise InputError("budget.epsilon", budget, allowed)
        return privacy_filter
