"""The exact Rényi cost of a query: its largest divergence to a histogram one vote away.

Divergences are taken in both directions. Every result is an upper bound: the error of the laws
(`error_of`) and the rounding of the sums are added. Outcomes below e^-700 in both laws are ignored.
docs/proofs.md says why all of this holds.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from nzc.accounting.rdp import ORDERS, RenyiCost
from nzc.types import AnyArray, Floats, FloatsPair, Ints
from nzc.validation import InputError

#: Smaller log-probabilities count as impossible. No δ in use is as small as all of them together.
IMPOSSIBLE = -700.0
#: Up to this |α log p/q| the sum is computed from its moments: 18 of them leave a relative error of
#: 2^18·2/20! < 1e-12.
_SMALL = 2.0
_POWERS = np.arange(2, 20)
_ROUNDING = 1e-11
_APART = 5e-3  # a line needs orders so far apart, relative to α − 1,
_SURE = 1e-6  # and divergences above this
_MOST_KEPT = 2**28  # bytes of the laws that a cost keeps
_LARGE = 650.0  # above this exponent e^(α log p/q) may overflow
_sum = partial(np.einsum, "ij->i")  # of few numbers a row; .sum(axis=1) takes five times as long


def cores() -> int:
    """Return how many threads may work at once: one a core, at most OMP_NUM_THREADS."""
    available = len(os.sched_getaffinity(0))
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return min(available, max(int(limit), 1)) if limit.isdecimal() else available


def error_of(log_p: Floats) -> Floats:
    """Return how far computed log-probabilities may be from the true ones.

    It is 4e-14 at 1/2, 4e-12 at e^-700.
    """
    # A nearly certain outcome (log p near 0) is computed from all others, so its error is relative
    # to log p itself.
    size = np.where(np.isfinite(log_p), np.abs(log_p), 0.0)
    depth = np.maximum(size, -np.log(np.maximum(size, 1e-323)))
    return np.minimum(2 * size, 1.0) * (4e-14 + 5e-15 * depth)


@dataclass(frozen=True, repr=False)
class Pairs:
    """Laws of pairs of neighbouring histograms; all but `query` are [pairs, outcomes]."""

    query: Ints  # [pairs] the query that a pair belongs to, ascending
    here: Floats  # log-probabilities at the votes
    there: Floats  # log-probabilities one vote away
    copies: Floats  # how many outcomes each entry stands for

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in vars(self).values())


def joined(*parts: Pairs) -> Pairs:
    """Return all pairs. A law of fewer outcomes gets further ones that stand for none."""
    if len(parts) == 1:
        return parts[0]
    query = np.concatenate([part.query for part in parts])
    order = np.argsort(query, kind="stable")
    most = max(part.copies.shape[1] for part in parts)

    def column(name: str, missing: float) -> Floats:
        padded = [
            np.pad(
                getattr(part, name),
                ((0, 0), (0, most - part.copies.shape[1])),
                constant_values=missing,
            )
            for part in parts
        ]
        return np.concatenate(padded)[order]

    return Pairs(
        query[order], column("here", -np.inf), column("there", -np.inf), column("copies", 0.0)
    )


def largest_divergence(pairs: Pairs, queries: int, orders: Floats) -> Floats:
    """Return the largest Rényi divergence of each query's pairs, both directions; 0 without pairs.

    The result is [queries, orders]. D_α grows with α, and (α − 1) D_α is convex in it. So is the
    largest one, which is above the line through its values at two lower orders. A pair that is
    below this line at the upper of two orders is never the largest between them. The grid of orders
    is bisected, and such pairs are dropped on the way.
    """
    ascending = np.argsort(orders)
    columns = np.zeros((len(orders), queries))

    def least(low: int, high: int) -> Floats:
        """Return a lower bound on each query's largest divergence at the order `high`.

        It follows from those at the orders up to `low`.
        """
        at_low: Floats = columns[low]
        if not low:
            return at_low
        before, ahead, far = orders[ascending[[low - 1, low, high]]] - 1
        if ahead - before < _APART * ahead:
            return at_low
        height = at_low * ahead
        with np.errstate(invalid="ignore"):  # no pairs are left where the divergence is infinite
            slope_rise = (height - columns[low - 1] * before) * (far - ahead) / (ahead - before)
            line = (height + slope_rise) / far
        # Rounding is a larger part of smaller divergences. Above, it changes the line by less than
        # 1e-6 of itself.
        return np.where(at_low > _SURE, np.maximum(at_low, line * (1 - 1e-6)), at_low)

    def fill(place: int, candidates: _Candidates) -> Floats:
        """Write each query's largest divergence at an order, and return those of all candidates."""
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
            candidates = candidates.take(alive)
            at_low = at_low[alive]
            at_high = at_high[alive]
        middle = (low + high) // 2
        at_middle = fill(middle, candidates)
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
        last = len(orders) - 1
        bisect(candidates, 0, last, fill(0, candidates), fill(last, candidates))
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
        """Return both directions of each pair, one after the other."""
        copies = np.repeat(pairs.copies, 2, axis=0)

        def directions(both: Floats) -> FloatsPair:
            return both.reshape(copies.shape), both[:, ::-1].reshape(copies.shape)

        laws = np.stack([pairs.here, pairs.there], axis=1)
        log_p, log_q = directions(laws)
        error_p, error_q = directions(error_of(laws))
        absent = (copies == 0) | (np.maximum(log_p, log_q) < IMPOSSIBLE)
        with np.errstate(invalid="ignore", divide="ignore"):
            log_ratio = log_p - log_q
            log_ratio += np.copysign(error_p + error_q, log_ratio)
            log_q = log_q + error_q + np.log(copies)
        log_ratio[absent] = 0.0
        log_q[absent] = -np.inf
        q = np.exp(log_q)
        finite = np.where(np.isfinite(log_ratio), log_ratio, 0.0)
        term = q * finite
        moments = np.empty((len(q), len(_POWERS)))
        for column, power in enumerate(_POWERS):
            term *= finite / power
            moments[:, column] = _sum(term)
        with np.errstate(invalid="ignore"):
            near = q * np.expm1(np.minimum(log_ratio, 1))
            change = np.where(log_ratio < 1, near, np.exp(log_ratio + log_q) - q)
        change[np.isposinf(log_ratio)] = np.inf
        return cls(
            query=np.repeat(pairs.query, 2),
            log_ratio=log_ratio,
            log_q=log_q,
            q=q,
            moments=moments,
            linear=_sum(change),
            linear_size=_sum(np.abs(change)),
            widest=np.abs(log_ratio).max(axis=1),
            steepest=log_ratio.max(axis=1),
        )

    def take(self, rows: AnyArray) -> "_Candidates":
        return _Candidates._make(values[rows] for values in self)

    def divergence(self, order: float) -> Floats:
        """Return an upper bound of D_α(P ‖ Q), [candidates]."""
        log_total = np.empty(len(self.query))
        small = order * self.widest <= _SMALL
        log_total[small] = np.log1p(self.moments[small] @ (order**_POWERS - order))
        steep = order * self.steepest > _LARGE
        rest = np.flatnonzero(~small & ~steep)
        if len(rest):
            terms = self.q[rest] * np.expm1(order * self.log_ratio[rest])
            rounding = 2e-15 * (_sum(np.abs(terms)) + order * self.linear_size[rest])
            log_total[rest] = np.log1p(_sum(terms) - order * self.linear[rest] + rounding)
        far = np.flatnonzero(~small & steep)
        if len(far):  # scipy's logsumexp takes four times as long
            powers = order * self.log_ratio[far] + self.log_q[far]
            top = powers.max(axis=1)
            power = top + np.log(_sum(np.exp(powers - top[:, None])))
            offset = 1 - _sum(self.q[far]) - order * self.linear[far] + 1e-14 * order
            log_total[far] = power + np.log1p(offset * np.exp(-np.maximum(power, -_LARGE))) + 1e-14
        return np.maximum(log_total, 0.0) * (1 + _ROUNDING) / (order - 1)


@dataclass(frozen=True, eq=False, repr=False)
class ExactCost:
    """The exact Rényi cost of queries where a unit of privacy changes all histograms.

    Equal histograms are computed once.
    """

    #: Numbers of distinct histograms, and their laws, which are large.
    batches: Sequence[tuple[Ints, Callable[[], Pairs]]]
    inverse: Ints  # [queries] the distinct histogram of each query
    #: What asking a query and its label cost for any votes, orders → [2, orders].
    ceiling: RenyiCost
    #: Laws of batches, by number.
    _kept: dict[int, Pairs] = field(default_factory=dict, init=False)

    def per_query(self, orders: Floats) -> Floats:
        """Return the cost of each query, [queries, orders]."""
        costs = self._at_grid if orders is ORDERS else self._distinct(orders)
        return costs[self.inverse]

    def total(self, orders: Floats) -> Floats:
        """Return the cost of all queries, [orders]."""
        times = np.bincount(self.inverse)
        if orders is ORDERS:
            return times @ self._at_grid
        total = np.zeros(len(orders))
        for places, costs in self._costs(orders):
            total += times[places] @ costs
        return total

    def first(self, counts: Ints) -> Floats:
        """Return the cost of the first so many queries, [counts, orders] at `rdp.ORDERS`."""
        totals = np.zeros((len(self.inverse) + 1, len(ORDERS)))
        np.cumsum(self.per_query(ORDERS), axis=0, out=totals[1:])
        return totals[counts]

    def laws(self) -> Iterator[tuple[Pairs, Ints]]:
        """Yield the laws of distinct histograms, and how many queries share each, [histograms].

        None is kept longer. They are for `composition.compose`.
        """
        times = np.bincount(self.inverse)
        for number, (places, make) in enumerate(self.batches):
            pairs = self._kept.pop(number, None)
            yield pairs or make(), times[places]

    def _pairs(self, number: int) -> Pairs:
        """Return the laws of a batch.

        They are kept for other orders and for `laws` while all of them are small.
        """
        if number in self._kept:
            return self._kept[number]
        pairs = self.batches[number][1]()
        if pairs.nbytes + sum(other.nbytes for other in list(self._kept.values())) <= _MOST_KEPT:
            self._kept[number] = pairs
        return pairs

    @cached_property
    def _at_grid(self) -> Floats:
        return self._distinct(ORDERS)

    def _distinct(self, orders: Floats) -> Floats:
        costs = np.zeros((int(self.inverse.max(initial=-1)) + 1, len(orders)))
        for places, values in self._costs(orders):
            costs[places] = values
        return costs

    def _costs(self, orders: Floats) -> Iterator[tuple[Ints, Floats]]:
        """Yield numbers of distinct histograms, and their costs, [histograms, orders]."""
        ceiling = self.ceiling(orders).sum(axis=0)

        def cost(number: int) -> tuple[Ints, Floats]:
            places = self.batches[number][0]
            costs = largest_divergence(self._pairs(number), len(places), orders)
            # A bound for any votes cannot be below the cost at these votes. One of a user's own
            # noise may be wrong.
            largest = costs[:, 0].max(initial=0.0)
            if ceiling[0] * (1 + 1e-6) + 1e-9 < largest < np.inf:
                reason = f"at order {orders[0]:.4g} it is too small at these votes"
                raise InputError(
                    "worst_case", float(ceiling[0]), f"must hold for any votes; {reason}"
                )
            return places, np.minimum(costs, ceiling)

        with ThreadPoolExecutor(cores()) as pool:
            yield from pool.map(cost, range(len(self.batches)))
