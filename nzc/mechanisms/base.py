"""The abstract mechanism: what a session, a budget and a ledger ask of every mechanism."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import copy
from typing import Any, ClassVar, Self

import numpy as np
from numpy.random import Generator

from nzc.accounting.cost import Cost
from nzc.accounting.data_dependent import DataDependentBound
from nzc.accounting.data_independent import FREE, KnownCost, Release, WorstCaseCost
from nzc.accounting.privacy_filter import CLOSED, PrivacyFilter, gaussian_filter, renyi_filter
from nzc.accounting.rdp import ORDERS
from nzc.mechanisms.adjacency import Adjacency, Boost, Vectors
from nzc.mechanisms.noise.base import Noise, NoNoise
from nzc.mechanisms.own_parts import is_own, require_parts
from nzc.mechanisms.screen import Screen
from nzc.mechanisms.votes import Probs
from nzc.types import Floats, Ints
from nzc.validation import InputError, between_0_and_1, positive

__all__ = ["Mechanism"]

#: Counts and costs of asking queries and, further, of their labels.
Prices = tuple[Release, Release]


class Mechanism(ABC):
    """Noise on what private records add up to, and what the release costs. It does not change.

    A subclass is a frozen dataclass with those of these fields that its release depends on.

    noise      the law of the noise
    boost      what is added to the largest count; none by default
    screen     which queries are answered; None: all
    first      the mechanism before there is a student; None: this one
    adjacency  what one unit of privacy may change
    """

    noise: Noise
    boost: Boost = Boost()
    screen: Screen | None = None
    first: "Mechanism | None" = None
    adjacency: Adjacency = Adjacency()
    releases: ClassVar[str] = "labels"  # what `release` returns: labels, counts, sums, or truth
    #: The names that papers give it, by the classes of the parts that it has: see `__repr__`.
    names: ClassVar[Mapping[tuple[type, ...], str]]

    def __post_init__(self) -> None:
        require_parts(self)
        self._require_price()

    def __repr__(self) -> str:
        """Return the mechanism with all parameters, by the papers' name if all parts are nzc's."""
        parts: dict[str, Any] = {"boost": self.boost, "screen": self.screen, "noise": self.noise}
        if self.boost.plain:
            del parts["boost"]
        if self.screen is None:
            del parts["screen"]
        name = self.names.get(tuple(map(type, parts.values())))
        shown = parts
        if name is not None:
            shown = {}
            for part in parts.values():
                shown |= vars(part)
        if self.first is not None:
            shown["first"] = self.first
        if self.adjacency != type(self).adjacency:
            shown["adjacency"] = self.adjacency
        settings = ", ".join(f"{key}={value!r}" for key, value in shown.items())
        return f"{name or type(self).__name__}({settings})"

    @property
    def asks_student(self) -> bool:
        """Whether the screen uses `student_probs`."""
        return self.screen is not None and self.screen.asks_student

    @property
    def delta_cost(self) -> float | None:
        """The δ per query of a label without noise behind a screen that protects it; None: none."""
        if self.screen is None or not isinstance(self.noise, NoNoise):
            return None
        return self.screen.delta_cost

    def check(self, teachers: int) -> None:
        """Raise InputError where so few teachers make no sense for the screen."""
        for part in (self.screen, self.first):
            if part is not None:
                part.check(teachers)

    def between(self, adjacency: Adjacency) -> Self:
        """Return this mechanism for votes with other neighbours. InputError: it has no price."""
        # It is copied, not built anew: a class of the user's own may have an `__init__` of its own,
        # and a noise of the user's own is compared with its law only once.
        mechanism = copy(self)
        vars(mechanism).update(adjacency=adjacency)
        Mechanism.__post_init__(mechanism)
        if self.first is not None:
            vars(mechanism).update(first=self.first.between(adjacency))
        return mechanism

    def _require_price(self) -> None:
        """Raise InputError where there is no price between its neighbours."""
        adjacency = self.adjacency
        screen = self.screen
        if isinstance(adjacency, Vectors) != isinstance(type(self).adjacency, Vectors):
            name = repr(self).partition("(")[0]
            allowed = "must be nzc.Sums where sums are released (teachers=sums), else another one"
            raise InputError("_target_", name, allowed)
        if screen is None:
            return
        if not adjacency.everywhere:
            allowed = "must have no screen where records count in their own cells"
        elif adjacency.teachers is not None and is_own(screen):
            allowed = "must be a screen of nzc where teachers abstain: a vote may appear or vanish"
        else:
            return
        raise InputError("_target_", type(screen).__name__, allowed)

    @abstractmethod
    def release(self, votes: Ints, rng: Generator | int, student_probs: Probs = None) -> Ints:
        """Return what may be published of private votes or sums, at the ε of `cost`."""

    def labels_of(self, released: Ints) -> Ints:
        """Return the labels [queries] of what `release` returned: here, itself."""
        return released

    def reinforce(self, labels: Ints, student_probs: Floats) -> Ints:
        """Return labels with the sure student's own where a query was not answered.

        That is post-processing.
        """
        return labels if self.screen is None else self.screen.reinforce(labels, student_probs)

    @abstractmethod
    def cost(self, votes: Ints, labels: Ints, student_probs: Probs = None) -> Cost:
        """Return what `release` cost at these votes or sums, of which these labels follow."""

    @abstractmethod
    def worst_case(self, asked: int = 1, answered: int = 1) -> Prices:
        """Return counts and costs for any votes of asking queries and, further, of their labels."""

    def known_cost(self, queries: int) -> KnownCost:
        """Return the exact cost of so many queries where it is the same whatever the votes."""
        return KnownCost(queries, lambda count: self.worst_case(count, count))

    def promise(self, asked: int, answered: int) -> Cost:
        """Return what so many queries and labels cost at most, whatever the votes."""
        delta_cost = asked * (self.delta_cost or 0.0)
        return Cost(asked, None, (), self.worst_case(asked, answered), delta_cost)

    def worst_case_epsilon(
        self,
        queries: int,
        delta: float,
        rough: bool = False,
        answers: int | None = None,
        other: WorstCaseCost = FREE,
    ) -> float:
        """Return ε at δ of `queries` queries, whatever the votes and whichever `first` is asked.

        rough    see `Cost.data_independent`
        answers  how many queries are answered at most; None: all
        other    the cost of another release beside the labels
        """
        answered = queries if answers is None else min(queries, answers)
        labels = self.promise(queries, answered)
        if self.first is not None:
            labels = labels.dearer(self.first.promise(queries, answered))
        labels += Cost(0, None, (), ((1, other),))
        return labels.published(delta, rough)[0]

    def filter(
        self, epsilon: float, delta: float, queries: int, other: WorstCaseCost = FREE
    ) -> PrivacyFilter:
        """Return the filter that keeps `queries` queries and `other` within ε at δ, for any votes.

        other  the cost of another release beside the labels
        """
        epsilon = positive("epsilon", epsilon)
        left = between_0_and_1("delta", delta) - self.promise(queries, queries).delta_cost
        if left <= 0:
            return CLOSED
        (_, ask), (_, answer) = self.worst_case()
        if np.isfinite(ask.mu + answer.mu):
            return gaussian_filter(epsilon, left, ask.mu, answer.mu, other.mu)
        return renyi_filter(epsilon, left, ask.rdp(ORDERS), answer.rdp(ORDERS), other.rdp(ORDERS))

    @property
    def bounds(self) -> tuple[DataDependentBound, ...]:
        """The papers' data-dependent bounds, of the screen and of the label; () without theorem."""
        return ()
