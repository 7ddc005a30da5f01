"""The exact Rényi cost where every record counts in one histogram only (`OwnCells`; proof: docs/proofs.md)."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nzc.accounting.data_independent import WorstCaseCost
from nzc.accounting.exact import ExactCost, Pairs
from nzc.accounting.rdp import ORDERS
from nzc.types import Floats, Ints


class JointCost(ABC):
    """What queries cost together, where that is no sum over queries. It has the methods of `ExactCost`."""

    queries: int
    paid: ClassVar[None] = None
    complete: ClassVar[bool] = False

    @abstractmethod
    def of_first(self, queries: int, orders: Floats) -> Floats:
        """Return the cost of so many first queries, [orders]."""

    def total(self, orders: Floats) -> Floats:
        return self.of_first(self.queries, orders)

    def first(self, counts: Ints) -> Floats:
        return np.stack([self.of_first(count, ORDERS) for count in counts.tolist()])

    def neighbourhoods(self, order: float) -> list[Iterable[tuple[Pairs, Ints]]]:
        return []


@dataclass(frozen=True, repr=False)
class OwnCellsCost(JointCost):
    """The cost where one record moves: of queries that a count moved in, left or entered. Others keep their law.

    Where a record may change in its label only, no count leaves a histogram or enters another: None.
    """

    moved: ExactCost
    left: ExactCost | None = None
    entered: ExactCost | None = None

    @property
    def queries(self) -> int:  # type: ignore[override]
        return len(self.moved.inverse)

    def neighbourhoods(self, order: float) -> list[Iterable[tuple[Pairs, Ints]]]:
        """Return the two dearest sets of neighbours at a Rényi order, for `composition.compose`."""
        at = np.array([order])
        moved = self.moved.per_query(at)[:, 0]
        sets: list[Iterable[tuple[Pairs, Ints]]] = [[self.moved.law(int(moved.argmax()))]]
        if len(moved) > 1 and self.left is not None and self.entered is not None:
            pair = self.left.per_query(at) + self.entered.per_query(at)[:, 0]
            np.fill_diagonal(pair, -1)
            leaves, enters = divmod(int(pair.argmax()), len(moved))
            sets.append([self.left.law(leaves), self.entered.law(enters)])
        return sets

    def of_first(self, queries: int, orders: Floats) -> Floats:
        if not queries:
            return np.zeros(len(orders))
        dearest = self.moved.per_query(orders)[:queries].max(axis=0)
        if queries > 1 and self.left is not None and self.entered is not None:
            # A count leaves the dearest histogram, and enters the dearest of the others; or the reverse.
            left, entered = (cost.per_query(orders)[:queries] for cost in (self.left, self.entered))
            for one, other in ((left, entered), (entered, left)):
                at = one.argmax(axis=0)
                rest = other.copy()
                rest[at, np.arange(len(orders))] = 0
                dearest = np.maximum(dearest, one.max(axis=0) + rest.max(axis=0))
        return np.asarray(dearest)


@dataclass(frozen=True, repr=False)
class KnownCost(JointCost):
    """A cost that is the same whatever the votes: that of noisy counts, and of several votes or records that move."""

    queries: int
    of: Callable[[int], tuple[tuple[int, WorstCaseCost], ...]]  # what so many queries cost: counts, and costs of each

    def of_first(self, queries: int, orders: Floats) -> Floats:
        parts = [count * cost.rdp(orders) for count, cost in self.of(queries) if count]
        return np.asarray(np.sum([np.zeros(len(orders)), *parts], axis=0))
