"""What a session promises before a vote is seen: what it may release, and the ε that this costs.

A session asks in rounds. Each `Round` has its size, its mechanism, and a privacy filter that keeps
the budget. The published ε of a run is `Promise.epsilon` (Mechanism.promise →
Cost.published → data_independent.compose_worst_cases), or with bound=sanitised a drawn one
(`Promise.published`).
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from nzc.accounting import Cost
from nzc.accounting.data_dependent import DataDependentBound
from nzc.accounting.data_independent import FREE, WorstCaseCost
from nzc.accounting.epsilon import DATA_INDEPENDENT, SANITISED
from nzc.accounting.privacy_filter import OPEN, PrivacyFilter, count_filter
from nzc.accounting.sanitised import SanitisedPlan
from nzc.mechanisms import Mechanism
from nzc.privacy.randomness import SEEDED
from nzc.storage.fingerprint import describe
from nzc.validation import InputError


@dataclass(frozen=True)
class Policy:
    """The rules of a session. They are fixed before a vote is seen."""

    mechanism: Mechanism
    seed: int  # public choices follow from it, and with rng=seeded the noise
    delta: float
    budget: float | None  # ε at δ that no release may exceed, whatever the votes; None: no limit
    plan: Callable[..., SanitisedPlan]  # of the sanitised ε (accounting.sanitised.plan_bound)
    audit_trials: int | None  # how often an audit runs the mechanism; None: no audit
    rng: str = SEEDED  # where noise comes from: seeded, or system
    answers: int | None = None  # how many labels all rounds release at most; None: no limit
    bound: str = DATA_INDEPENDENT  # that is published; or sanitised, a release of its own
    total: float | None = None  # ε of all folders about the same people; None: no limit

    def answered(self, queries: int) -> int:
        """Return how many of so many queries get labels at most."""
        return queries if self.answers is None else min(queries, self.answers)


@dataclass(frozen=True)
class Round:
    """One round of queries as it is planned."""

    size: int  # how many queries it asks at most
    mechanism: Mechanism
    filter: PrivacyFilter = OPEN  # admits the queries that fit into the budget


@dataclass(frozen=True)
class Promise:
    """What a session promises, from public facts alone. `Promise.of` makes it."""

    policy: Policy
    rounds: tuple[Round, ...]
    plan: SanitisedPlan | None  # of the sanitised ε; None: it is not published
    stated: tuple[float, float] | None = None  # ε and δ, where they follow from no round

    @classmethod
    def of(cls, policy: Policy, sizes: list[int]) -> "Promise":
        """Return the promise of a session with sizes[i] queries in round i.

        InputError: no promise can be kept, or the budget allows not one label.
        """
        mechanism = policy.mechanism
        first = mechanism.first or mechanism
        if len(sizes) > 1 and not first.adjacency.everywhere:
            raise InputError(
                "rounds", len(sizes), f"must be 1: the cost of {mechanism} counts over one round"
            )
        later = [Round(size, mechanism) for size in sizes[1:]]
        rounds = (Round(sizes[0], first), *later)
        unlimited = cls(policy, rounds, _plan(policy, rounds))
        return replace(unlimited, rounds=unlimited._within_budget())

    @property
    def sizes(self) -> list[int]:
        """How many queries each round asks at most."""
        return [planned.size for planned in self.rounds]

    @property
    def distinct(self) -> tuple[Round, ...]:
        """The first round alone where all have its mechanism, else all rounds."""
        alike = self.rounds[0].mechanism == self.rounds[-1].mechanism
        return self.rounds[:1] if alike else self.rounds

    @cached_property
    def descriptions(self) -> list[str]:
        """The mechanism of each round with the source of its code, as JSON."""
        return [json.dumps(describe(planned.mechanism), sort_keys=True) for planned in self.rounds]

    @cached_property
    def bound_cost(self) -> WorstCaseCost:
        """What the release of the sanitised ε costs."""
        return FREE if self.plan is None else self.plan.worst_case

    @property
    def cost_of_bound(self) -> Cost:
        """The same, to be added to that of labels."""
        return Cost(0, None, (), ((1, self.bound_cost),))

    @property
    def epsilon(self) -> float:
        """The ε of the guarantee."""
        return self.guarantee[0]

    @cached_property
    def guarantee(self) -> tuple[float, float]:
        """ε and δ of all that may be released, whatever the votes; a pure bound has δ = 0."""
        if self.stated is not None:
            return self.stated
        epsilon, delta = self._price
        if self.policy.budget is not None:
            epsilon = min(epsilon, self.policy.budget)
        return epsilon, delta

    def published(self, sanitised: float | None) -> float:
        """Return the ε to publish where a sanitised bound was drawn; None: none was."""
        if sanitised is None:
            return self.epsilon
        return sanitised if self.policy.budget is None else min(sanitised, self.epsilon)

    @cached_property
    def _price(self) -> tuple[float, float]:
        """ε and δ of all that the filters of the rounds admit, whatever the votes."""
        asked = self._asked()
        if len(self.distinct) == 1:  # then `answers` limits all rounds together, else each alone
            asked = [sum(asked)]
        cost = self.cost_of_bound
        for planned, queries in zip(self.distinct, asked, strict=True):
            cost += planned.mechanism.promise(queries, self.policy.answered(queries))
        return cost.published(self.policy.delta)

    def _asked(self) -> list[int]:
        """Return how many queries each round asks at most, whatever the votes."""
        asked = []
        spent = 0.0
        for planned in self.rounds:
            queries = planned.size
            if planned.mechanism.screen is None:  # then it is known how many are admitted
                queries = admits_answered(planned.filter, queries, spent)
                spent += planned.filter.spends(queries, queries)
            asked.append(queries)
        return asked

    def _within_budget(self) -> tuple[Round, ...]:
        """Return the rounds with filters that keep the budget, where they would exceed it."""
        budget = self.policy.budget
        if budget is None or self._price[0] <= budget:
            return self.rounds
        filters = [self._filter(planned.mechanism, budget) for planned in self.distinct]
        if filters[0].budget != filters[-1].budget:
            raise InputError(
                "budget.epsilon", budget, "must be null unless all noise is alike, or Gaussian"
            )
        later = [replace(planned, filter=filters[-1]) for planned in self.rounds[1:]]
        return replace(self.rounds[0], filter=filters[0]), *later

    def _filter(self, mechanism: Mechanism, budget: float) -> PrivacyFilter:
        """Return the filter of the budget. InputError: it admits no query."""
        policy = self.policy
        queries = sum(self.sizes)

        def price(count: int) -> float:
            return mechanism.promise(count, count).published(policy.delta)[0]

        if mechanism.screen is None and len(self.distinct) == 1 and self.plan is None:
            privacy_filter = count_filter(price, budget, policy.answered(queries))
        else:
            privacy_filter = mechanism.filter(budget, policy.delta, queries, self.bound_cost)
        if admits_answered(privacy_filter, 1):
            return privacy_filter
        least = price(1)
        allowed = f"must be null: {policy.mechanism} has no finite ε, so no budget can be kept"
        if np.isfinite(least):
            allowed = (
                f"must be at least {least:.6g}, which {policy.mechanism} costs at "
                f"delta={policy.delta:g}"
            )
        raise InputError("budget.epsilon", budget, allowed)


def _plan(policy: Policy, rounds: Sequence[Round]) -> SanitisedPlan | None:
    """Return the plan of the sanitised ε; None: it is not published."""
    if policy.bound != SANITISED:
        return None
    queries: list[tuple[int, DataDependentBound]] = []
    for planned in rounds:
        if not planned.mechanism.bounds:
            raise InputError(
                "bound",
                SANITISED,
                f"must be {DATA_INDEPENDENT}: no paper has a data-dependent bound for "
                f"{policy.mechanism}",
            )
        queries += [(planned.size, bound) for bound in planned.mechanism.bounds]
    return policy.plan(queries, policy.delta)


def admits_answered(privacy_filter: PrivacyFilter, queries: int, spent: float = 0.0) -> int:
    """Return how many of so many queries a filter admits where all of them are answered."""
    return int(privacy_filter.admit(np.ones(queries, dtype=bool), spent).sum())
