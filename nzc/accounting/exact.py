"""The exact Rényi cost of a query: its largest divergence to any histogram one vote away, in both
directions.

Every result is an upper bound: the error of the laws (`error_of`) and the rounding of the sums are
added. Outcomes below e^-700 in both laws are ignored. docs/proofs.md says why all of this holds.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import logsumexp

from nzc.accounting.rdp import ORDERS
from nzc.types import AnyArray, Floats, Ints
from nzc.validation import InputError

IMPOSSIBLE = (
    -700.0
)  # smaller log-probabilities count as impossible. No δ in use is as small as all of them together.
#: Up to this |α log p/q| the sum is computed from its moments: 18 of them leave a relative error of
#: 2^18·2/20! < 1e-12.
_SMALL = 2.0
_POWERS = np.arange(2, 20)
_ROUNDING = 1e-11
_APART, _SURE = (
    5e-3,
    1e-6,
)  # a line needs orders so far apart, relative to α − 1, and divergences above this
_MOST_KEPT = 2**28  # bytes of the laws that a cost keeps
_LARGE = 650.0  # above this exponent e^(α log p/q) may overflow


def cores() -> int:
    """Return how many threads may work at once: one for each core of this process, at most
    OMP_NUM_THREADS.
    """
    given = os.environ.get("OMP_NUM_THREADS", "")
    return min(len(os.sched_getaffinity(0)), max(int(given), 1) if given.isdecimal() else 2**31)


def error_of(log_p: Floats) -> Floats:
    """Return how far a computed log-probability may be from the true one: 4e-14 at 1/2, 4e-12 at
    e^-700.
    """
    # A nearly certain outcome (log p near 0) is computed from all others, so its error is relative
    # to log p itself.
    size = np.where(np.isfinite(log_p), np.abs(log_p), 0.0)
    depth = np.maximum(size, -np.log(np.maximum(size, 1e-323)))
    return np.asarray(np.minimum(2 * size, 1.0) * (4e-14 + 5e-15 * depth))


@dataclass(frozen=True, repr=False)
class Pairs:
    """Laws of pairs of neighbouring histograms; all but `query` are [pairs, outcomes]."""

    query: Ints  # [pairs] the query that a pair belongs to, ascending
    here: Floats  # log-probabilities at the votes
    there: Floats  # log-probabilities one vote away
    copies: Floats  # how many outcomes each entry stands for

    @property
    def nbytes(self) -> int:
        return self.query.nbytes + self.here.nbytes + self.there.nbytes + self.copies.nbytes


def joined(*parts: Pairs) -> Pairs:
    """Return all pairs of the parts. A law of fewer outcomes gets further ones that stand for none."""
    query = np.concatenate([part.query for part in parts])
    order, most = np.argsort(query, kind="stable"), max(part.copies.shape[1] for part in parts)

    def column(name: str, missing: float) -> Floats:
        values = [getattr(part, name) for part in parts]
        widths = [((0, 0), (0, most - value.shape[1])) for value in values]
        padded = [
            np.pad(value, width, constant_values=missing)
            for value, width in zip(values, widths, strict=True)
        ]
        return np.asarray(np.concatenate(padded)[order])

    return Pairs(
        query[order], column("here", -np.inf), column("there", -np.inf), column("copies", 0.0)
    )


def largest_divergence(pairs: Pairs, queries: int, orders: Floats) -> Floats:
    """Return the largest Rényi divergence of each query's pairs, both directions, [queries,
    orders]; 0 without pairs.

    D_α grows with α, and (α − 1) D_α is convex in it. So is the largest one, which is above the
    line through its values at two lower orders. A pair that is below this line at the upper of two
    orders is never the largest between them. The grid of orders is bisected, and such pairs are
    dropped on the way.
    """
    ascending = np.argsort(orders)
    columns, last = np.zeros((len(orders), queries)), len(orders) - 1

    def least(low: int, high: int) -> Floats:
        """Return a lower bound on each query's largest divergence at the upper order, from those up
        to the lower.
        """
        known: Floats = columns[low]
        if not low:
            return known
        before, at, ahead = orders[ascending[[low - 1, low, high]]] - 1
        if at - before < _APART * at:
            return known
        value = known * at
        with np.errstate(invalid="ignore"):  # no pairs are left where the divergence is infinite
            line = (
                value + (value - columns[low - 1] * before) * (ahead - at) / (at - before)
            ) / ahead
        # Rounding is a larger part of smaller divergences. Above, it changes the line by less than
        # 1e-6 of itself.
        return np.asarray(np.where(known > _SURE, np.maximum(known, line * (1 - 1e-6)), known))

    def at(place: int, candidates: _Candidates) -> Floats:
        """Return all divergences at an order, and write the largest of each query into its column."""
        values = candidates.divergence(orders[ascending[place]])
        starts = np.flatnonzero(np.diff(candidates.query, prepend=-1))
        columns[place, candidates.query[starts]] = np.maximum.reduceat(values, starts)
        return values

    def bisect(
        candidates: _Candidates, low: int, high: int, at_low: Floats, at_high: Floats
    ) -> None:
        if high - low < 2:
            return
        alive = at_high >= least(low, high)[candidates.query] * (1 - 1e-9)
        if alive.sum() < 0.8 * len(alive):
            candidates, at_low, at_high = candidates.take(alive), at_low[alive], at_high[alive]
        middle = (low + high) // 2
        at_middle = at(middle, candidates)
        # Where D_α is nothing but rounding, its bound falls with α, and every candidate may have
        # been dropped.
        columns[middle] = np.maximum(columns[middle], np.minimum(columns[low], columns[high]))
        bisect(candidates, low, middle, at_low, at_middle)
        bisect(candidates, middle, high, at_middle, at_high)

    candidates = _Candidates.of(pairs)
    # An infinite divergence is infinite at every order.
    columns[:, candidates.query[np.isinf(candidates.linear)]] = np.inf
    candidates = candidates.take(
        (candidates.widest > 0) & np.isfinite(columns[0, candidates.query])
    )
    if len(candidates.query):
        bisect(candidates, 0, last, at(0, candidates), at(last, candidates))
    return columns[np.argsort(ascending)].T


class _Candidates(NamedTuple):
    """Ordered pairs of laws (P, Q), prepared for D_α(P ‖ Q) at any order.

    With r = p/q and Σp = Σq = 1, e^((α−1) D_α) − 1 = Σ q (r^α − 1 − α(r − 1)). All terms are ≥ 0
    and vanish to second order at r = 1. So nothing cancels, and moving every r away from 1 by the
    error of the laws gives an upper bound.
    """

    query: Ints  # [candidates]
    log_ratio: Floats  # [candidates, outcomes]
    log_q: Floats  # [candidates, outcomes], copies included
    q: Floats
    moments: Floats  # [candidates, powers] Σ q log(r)^k / k!
    linear: Floats  # Σ q (r − 1)
    linear_size: Floats  # Σ q |r − 1|
    widest: Floats  # max |log r|
    steepest: Floats  # max log r

    def __repr__(self) -> str:
        return type(self).__name__  # no numbers: they follow from votes

    @classmethod
    def of(cls, pairs: Pairs) -> "_Candidates":
        query, copies = np.repeat(pairs.query, 2), np.repeat(pairs.copies, 2, axis=0)
        laws = np.stack([pairs.here, pairs.there], axis=1)  # both directions of each pair
        log_p, log_q = (both.reshape(copies.shape) for both in (laws, laws[:, ::-1]))
        error_p = error_of(laws)
        error_p, error_q = (both.reshape(copies.shape) for both in (error_p, error_p[:, ::-1]))
        absent = (copies == 0) | (np.maximum(log_p, log_q) < IMPOSSIBLE)
        with np.errstate(invalid="ignore", divide="ignore"):
            log_ratio = np.where(absent, 0.0, log_p - log_q)
            log_ratio += np.where(absent, 0.0, np.copysign(error_p + error_q, log_ratio))
            log_q = np.where(absent, -np.inf, log_q + error_q + np.log(copies))
        q = np.exp(log_q)
        finite = np.where(np.isfinite(log_ratio), log_ratio, 0.0)
        term = q * finite
        moments = np.empty((len(q), len(_POWERS)))
        for column, power in enumerate(_POWERS):
            term *= finite / power
            moments[:, column] = term.sum(axis=1)
        with np.errstate(invalid="ignore"):
            change = np.where(
                log_ratio < 1, q * np.expm1(np.minimum(log_ratio, 1)), np.exp(log_ratio + log_q) - q
            )
        change[np.isposinf(log_ratio)] = np.inf
        linear, linear_size = change.sum(axis=1), np.abs(change).sum(axis=1)
        widest, steepest = np.abs(log_ratio).max(axis=1), log_ratio.max(axis=1)
        return cls(query, log_ratio, log_q, q, moments, linear, linear_size, widest, steepest)

    def take(self, rows: AnyArray) -> "_Candidates":
        return _Candidates._make(values[rows] for values in self)

    def divergence(self, order: float) -> Floats:
        """Return an upper bound of D_α(P ‖ Q), [candidates]."""
        log_total = np.empty(len(self.query))
        small = order * self.widest <= _SMALL
        log_total[small] = np.log1p(self.moments[small] @ (order**_POWERS - order))
        steep = order * self.steepest > _LARGE
        if len(rest := np.flatnonzero(~small & ~steep)):
            terms = self.q[rest] * np.expm1(order * self.log_ratio[rest])
            rounding = 2e-15 * (np.abs(terms).sum(axis=1) + order * self.linear_size[rest])
            log_total[rest] = np.log1p(terms.sum(axis=1) - order * self.linear[rest] + rounding)
        if len(
            far := np.flatnonzero(~small & steep)
        ):  # scipy's logsumexp is slow even where there is nothing to add
            power = logsumexp(order * self.log_ratio[far] + self.log_q[far], axis=1)
            offset = 1 - self.q[far].sum(axis=1) - order * self.linear[far] + 1e-14 * order
            log_total[far] = power + np.log1p(offset * np.exp(-np.maximum(power, -_LARGE))) + 1e-14
        return np.maximum(log_total, 0.0) * (1 + _ROUNDING) / (order - 1)


@dataclass(frozen=True, repr=False)
class ExactCost:
    """The exact Rényi cost of queries where a unit of privacy changes all histograms. Equal ones
    are computed once.
    """

    batches: list[
        tuple[Ints, Callable[[], Pairs]]
    ]  # numbers of distinct histograms, and their laws, which are large
    inverse: Ints  # [queries] the distinct histogram of each query
    ceiling: Callable[
        [Floats], Floats
    ]  # what asking a query and its label cost for any votes, orders → [2, orders]
    paid: int | None = (
        None  # all queries cost at most so often the ceiling of asking; None: no limit
    )
    complete: ClassVar[bool] = True  # whether `neighbourhoods` together are all neighbours
    _kept: dict[int, Pairs] = field(
        default_factory=dict, init=False, compare=False
    )  # laws of batches, by number

    def per_query(self, orders: Floats) -> Floats:
        """Return the cost of each query, [queries, orders]."""
        return (self._at_orders if orders is ORDERS else self._distinct(orders))[self.inverse]

    def total(self, orders: Floats) -> Floats:
        """Return the cost of all queries, [orders]. That at `rdp.ORDERS` is kept."""
        times = np.bincount(self.inverse)
        parts = (
            [(np.arange(len(times)), self._at_orders)] if orders is ORDERS else self._costs(orders)
        )
        total = sum((times[places] @ costs for places, costs in parts), np.zeros(len(orders)))
        return self._limited(total, np.asarray(len(self.inverse)), orders)

    def first(self, counts: Ints) -> Floats:
        """Return the cost of the first so many queries, [counts, orders] at `rdp.ORDERS`."""
        total = np.concatenate([0 * ORDERS[None], self._at_orders[self.inverse].cumsum(axis=0)])[
            counts
        ]
        return self._limited(total, counts[:, None])

    def _limited(self, total: Floats, queries: Ints, orders: Floats = ORDERS) -> Floats:
        """Return `total` of so many queries, or what they cost at most where that is smaller."""
        if self.paid is None:
            return total
        ask, label = self.ceiling(orders)
        with np.errstate(invalid="ignore"):
            return np.asarray(
                np.fmin(total, np.minimum(queries, self.paid) * ask + queries * label)
            )

    def neighbourhoods(self, order: float) -> list[Iterable[tuple[Pairs, Ints]]]:
        """Return sets of neighbours, for `composition.compose`: here one, of all neighbours of all
        histograms.
        """
        return [self.laws()]

    def laws(self) -> Iterator[tuple[Pairs, Ints]]:
        """Yield the laws of distinct histograms, and how many queries share each, [histograms].
        None is kept longer.
        """
        times = np.bincount(self.inverse)
        for number, (places, make) in enumerate(self.batches):
            kept = self._kept.pop(number, None)
            yield make() if kept is None else kept, times[places]

    def law(self, query: int) -> tuple[Pairs, Ints]:
        """Return the laws of one query, as `laws` of it alone."""
        places, make = next(batch for batch in self.batches if self.inverse[query] in batch[0])
        pairs = make()
        own = places[pairs.query] == self.inverse[query]
        return Pairs(
            pairs.query[own] * 0, pairs.here[own], pairs.there[own], pairs.copies[own]
        ), np.ones(1, np.int64)

    def _pairs(self, number: int) -> Pairs:
        """Return the laws of a batch, and keep them for other orders and for `laws` while all of
        them are small.
        """
        if (kept := self._kept.get(number)) is not None:
            return kept
        pairs = self.batches[number][1]()
        if pairs.nbytes + sum(other.nbytes for other in list(self._kept.values())) <= _MOST_KEPT:
            self._kept[number] = pairs
        return pairs

    @cached_property
    def _at_orders(self) -> Floats:
        return self._distinct(ORDERS)

    def _distinct(self, orders: Floats) -> Floats:
        costs = np.zeros((int(self.inverse.max(initial=-1)) + 1, len(orders)))
        for places, values in self._costs(orders):
            costs[places] = values
        return costs

    def _costs(self, orders: Floats) -> Iterator[tuple[Ints, Floats]]:
        ceiling = self.ceiling(orders).sum(axis=0)

        def cost(number: int) -> tuple[Ints, Floats]:
            places = self.batches[number][0]
            costs = largest_divergence(self._pairs(number), len(places), orders)
            # A bound for any votes cannot be below the cost at these votes. One of a user's own
            # noise may be wrong.
            if (
                np.isfinite(costs[:, 0]).all()
                and (costs[:, 0] > ceiling[0] * (1 + 1e-6) + 1e-9).any()
            ):
                allowed = f"must hold for any votes; at order {orders[0]:.4g} it is too small at these votes"
                raise InputError("worst_case", float(ceiling[0]), allowed)
            return places, np.minimum(costs, ceiling)

        with ThreadPoolExecutor(cores()) as pool:
            yield from pool.map(cost, range(len(self.batches)))
