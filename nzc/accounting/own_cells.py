"""Exact Rényi costs that are no sums over queries: a record counts in one histogram only."""

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
    """Return a cost that is the same whatever the votes, such as that of noisy counts.

    `of` returns the releases of so many queries, with their counts.
    """
    return JointCost(queries, lambda queries, orders: added(of(queries)).rdp(orders))


def own_cells_cost(
    moved: ExactCost, single: tuple[ExactCost, ExactCost] | None = None
) -> JointCost:
    """Return the cost where one record moves; all other queries keep their law.

    moved   cost of a query in which a count moved
    single  costs of a query that a count left, and of one that it entered; None: a record may
            change in its label only

    Proof: docs/proofs.md, "Own cells".
    """

    def neighbourhoods(order: float) -> list[Iterable[tuple[Pairs, Ints]]]:
        """Return the two dearest sets of neighbours at a Rényi order, for `composition.compose`."""
        orders = np.array([order])
        dearest = int(moved.per_query(orders).argmax())
        sets: list[Iterable[tuple[Pairs, Ints]]] = [[moved.law(dearest)]]
        if len(moved.inverse) > 1 and single is not None:
            left, entered = single
            pairs = left.per_query(orders) + entered.per_query(orders).T
            np.fill_diagonal(pairs, -1)
            row, column = divmod(int(pairs.argmax()), len(pairs))
            sets.append([left.law(row), entered.law(column)])
        return sets

    def of_first(queries: int, orders: Floats) -> Floats:
        if not queries:
            return np.zeros(len(orders))
        dearest = moved.per_query(orders)[:queries].max(axis=0)
        if queries > 1 and single is not None:
            # A count leaves the dearest histogram, and enters the dearest of the others; or the
            # reverse.
            left = single[0].per_query(orders)[:queries]
            entered = single[1].per_query(orders)[:queries]
            for costs, others in ((left, entered), (entered, left)):
                rest = others.copy()
                rest[costs.argmax(axis=0), np.arange(len(orders))] = 0
                dearest = np.maximum(dearest, costs.max(axis=0) + rest.max(axis=0))
        return np.asarray(dearest)

    return JointCost(len(moved.inverse), of_first, neighbourhoods)
