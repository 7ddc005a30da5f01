"""The papers' data-dependent bounds, in log space.

They follow from an upper bound q on Pr[the label is not the plurality].
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from scipy.special import log_ndtr, logsumexp

from nzc.accounting.rdp import RenyiCost
from nzc.types import AnyArray, Floats

#: The orders over which PATE 2017 minimises (the moments accountant): l = α − 1 from 1 to 8.
MOMENTS: Floats = np.arange(2.0, 10.0)
#: Those of Scalable PATE 2018: of the authors' scripts (tensorflow/privacy,
#: research/pate_2018/ICLR2018).
RENYI_ORDERS: Floats = np.concatenate([np.arange(2.0, 101.0, 0.5), np.geomspace(100, 500, 100)])


@dataclass(frozen=True)
class DataDependentBound:
    """One theorem of the papers: the cost of a release as a function of q at its votes."""

    log_flip: Callable[[AnyArray], Floats]  # votes [queries, classes] → log q [queries]
    #: log q, orders → [queries, orders]; at q = 1 the data-independent cost.
    rdp: Callable[[Floats, Floats], Floats]
    spread: float  # standard deviation of the noise, in votes
    #: Of the paper that has it.
    orders: Floats = field(default_factory=RENYI_ORDERS.copy, repr=False, compare=False)

    def cost(self, votes: AnyArray) -> RenyiCost:
        """Return the Rényi cost of releases at these votes: orders → [queries, orders]."""
        return partial(self.rdp, self.log_flip(votes))

    def worst_case(self, orders: Floats) -> Floats:
        """Return the Rényi cost of one release whatever the votes, [orders]."""
        return np.asarray(self.rdp(np.zeros(1), orders)[0])


def gaussian_bound(sigma: float) -> DataDependentBound:
    """Return the bound for argmax(n + N(0, σ²)): Scalable PATE 2018, Theorem 6."""
    return DataDependentBound(
        partial(log_flip_gaussian, sigma=sigma), partial(gaussian_rdp, sigma=sigma), sigma
    )


def laplace_bound(gamma: float) -> DataDependentBound:
    """Return the bound for argmax(n + Lap(1/γ)): PATE 2017, Theorem 3."""
    return DataDependentBound(
        partial(log_flip_laplace, gamma=gamma),
        partial(laplace_rdp, gamma=gamma),
        np.sqrt(2) / gamma,
        MOMENTS,
    )


def by_paper(
    released: Sequence[tuple[DataDependentBound, AnyArray, Floats]], delta: float
) -> float:
    """Return ε at δ by the papers' own method.

    It takes their orders, and the conversion of Mironov 2017, Proposition 3. Each release is a
    bound, histograms [queries, classes], and the probability that each is answered [queries]: as in
    the authors' scripts, a label behind a screen costs its share. Gaussian noise decides the orders
    of a mixture.
    """
    orders = max((bound.orders for bound, _, _ in released), key=len)
    rdp = np.zeros(len(orders))
    for bound, histograms, share in released:
        rdp += share @ bound.cost(histograms)(orders)
    return max(0.0, float((rdp - np.log(delta) / (orders - 1)).min()))


def gaps(votes: AnyArray) -> Floats:
    """Return how many votes each other class is behind the plurality, ascending.

    The result is [queries, classes − 1].
    """
    ordered = np.sort(votes.astype(np.float64), axis=1)[:, ::-1]
    return ordered[:, :1] - ordered[:, 1:]


def log_flip_laplace(votes: AnyArray, gamma: float) -> Floats:
    """Return log q of argmax(n + Lap(1/γ)), [queries].

    q = Σ (2 + γΔ)/(4 e^(γΔ)): PATE 2017, Lemma 4.
    """
    scaled = gamma * gaps(votes)
    return _log_total(np.log((2 + scaled) / 4) - scaled)


def log_flip_gaussian(votes: AnyArray, sigma: float) -> Floats:
    """Return log q of argmax(n + N(0, σ²)), [queries].

    q = Σ Φ(−Δ/(√2 σ)): Scalable PATE 2018, Proposition 7.
    """
    return _log_total(log_ndtr(-gaps(votes) / (np.sqrt(2) * sigma)))


def _log_total(log_q: Floats) -> Floats:
    """Return log Σ q over the other classes, at most that of a tie of all classes."""
    tie = np.log1p(-1 / (log_q.shape[1] + 1))
    return np.minimum(logsumexp(log_q, axis=1), tie)


def laplace_rdp(log_q: Floats, orders: Floats, gamma: float) -> Floats:
    """Return the Rényi cost of a (2γ, 0)-private query with flip probability at most q.

    The result is [queries, orders]. PATE 2017, Theorem 3 (its moment l is (α − 1) times the cost at
    α = l + 1); where q > 1/(e^(2γ) + 1), Theorem 2.
    """
    pure = 2 * gamma
    more = orders - 1
    independent = np.minimum(pure, pure**2 * orders / 2)
    rdp = np.tile(independent, (len(log_q), 1))
    valid = log_q <= -np.logaddexp(0, pure)
    q = log_q[valid, None]
    keep = np.log1p(-np.exp(q))
    stay = keep + more * (keep - _log1mexp(pure + q))
    rdp[valid] = np.minimum(independent, np.logaddexp(stay, q + pure * more) / more)
    return rdp


def gaussian_rdp(log_q: Floats, orders: Floats, sigma: float) -> Floats:
    """Return the Rényi cost of argmax(n + N(0, σ²)) with flip probability at most q.

    The result is [queries, orders]. Scalable PATE 2018, Theorem 6 with μ₁ and μ₂ of Proposition 10;
    where its conditions fail, α/σ² (Proposition 8).
    """
    independent = orders / sigma**2
    rdp = np.tile(independent, (len(log_q), 1))
    mu2 = sigma * np.sqrt(-log_q)
    mu1 = mu2 + 1
    e2 = mu2 / sigma**2
    with np.errstate(divide="ignore", invalid="ignore"):
        ceiling = (mu2 - 1) * e2 - mu2 * (np.log1p(1 / (mu1 - 1)) + np.log1p(1 / (mu2 - 1)))
    rows = np.flatnonzero((mu2 > 1) & (-log_q > e2) & (log_q <= ceiling))
    q = log_q[rows, None]
    mu2 = mu2[rows, None]
    e2 = e2[rows, None]
    mu1 = mu1[rows, None]
    e1 = mu1 / sigma**2
    more = orders - 1
    keep = np.log1p(-np.exp(q))
    log_a = more * (keep - _log1mexp((q + e2) * (1 - 1 / mu2)))
    log_b = more * (e1 - q / (mu1 - 1))
    bound = np.logaddexp(keep + log_a, q + log_b) / more
    rdp[rows] = np.where(mu1 > orders, np.minimum(independent, bound), independent)
    return rdp


def _log1mexp(x: Floats) -> Floats:
    """Return log(1 − e^x) for x < 0."""
    return np.where(x > -np.log(2), np.log(-np.expm1(x)), np.log1p(-np.exp(x)))
