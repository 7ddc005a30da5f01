"""Exact Rényi costs that are no sums over queries, as where every record counts in one histogram
only (`OwnCells`).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nzc.accounting.data_independent import WorstCaseCost, added
from nzc.accounting.exact import ExactCost, Pairs
from nzc.accounting.rdp import ORDERS
from nzc.types import Floats, Ints


@dataclass(frozen=True, repr=False)
class JointCost:
    """What queries cost together. It has the methods of `ExactCost`."""

    queries: int
    of_first: Callable[[int, Floats], Floats]  # the cost of so many first queries, [orders]
    neighbourhoods: Callable[[float], list[Iterable[tuple[Pairs, Ints]]]] = lambda order: []
    paid: ClassVar[None] = None
    complete: ClassVar[bool] = False

    def total(self, orders: Floats) -> Floats:
        return self.of_first(self.queries, orders)

    def first(self, counts: Ints) -> Floats:
        return np.stack([self.of_first(count, ORDERS) for count in counts.tolist()])


def known_cost(
    queries: int, of: Callable[[int], tuple[tuple[int, WorstCaseCost], ...]]
) -> JointCost:
    """Return a cost that is the same whatever the votes, such as that of noisy counts; `of` so many
    queries.
    """
    return JointCost(queries, lambda queries, orders: added(of(queries)).rdp(orders))


def own_cells_cost(
    moved: ExactCost, single: tuple[ExactCost, ExactCost] | None = None
) -> JointCost:
    """Return the cost where one record moves: of queries that a count `moved` in, or that it left
    and entered.

    Others keep their law. Where a record may change in its label only, `single` is None. Proof:
    docs/proofs.md.
    """

    def neighbourhoods(order: float) -> list[Iterable[tuple[Pairs, Ints]]]:
        """Return the two dearest sets of neighbours at a Rényi order, for `composition.compose`."""
        costs = moved.per_query(np.array([order]))[:, 0]
        sets: list[Iterable[tuple[Pairs, Ints]]] = [[moved.law(int(costs.argmax()))]]
        if len(costs) > 1 and single is not None:
            left, entered = (cost.per_query(np.array([order]))[:, 0] for cost in single)
            pair = left[:, None] + entered
            np.fill_diagonal(pair, -1)
            places = divmod(int(pair.argmax()), len(costs))
            sets.append([cost.law(at) for cost, at in zip(single, places, strict=True)])
        return sets

    def of_first(queries: int, orders: Floats) -> Floats:
        if not queries:
            return np.zeros(len(orders))
        dearest = moved.per_query(orders)[:queries].max(axis=0)
        if queries > 1 and single is not None:
            # A count leaves the dearest histogram, and enters the dearest of the others; or the
            # reverse.
            left, entered = (cost.per_query(orders)[:queries] for cost in single)
            for one, other in ((left, entered), (entered, left)):
                rest = other.copy()
                rest[one.argmax(axis=0), np.arange(len(orders))] = 0
                dearest = np.maximum(dearest, one.max(axis=0) + rest.max(axis=0))
        return np.asarray(dearest)

    return JointCost(len(moved.inverse), of_first, neighbourhoods)
