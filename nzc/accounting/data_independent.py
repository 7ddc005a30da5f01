"""Upper bounds that hold for any votes.

They follow from public facts: noise, queries asked, labels released.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np
from scipy.special import gammaln

from nzc.accounting.adaptive import together
from nzc.accounting.gaussian import gaussian
from nzc.accounting.kinds import Hint, Kind
from nzc.accounting.rdp import ORDERS, RenyiCost, to_epsilon
from nzc.types import Floats, Ints

#: e^-700 is about the smallest float64. A pure ε₀ of this size or above is treated as no bound.
_DETERMINISTIC = 700.0


@dataclass(frozen=True)
class WorstCaseCost:
    """What one release costs, whatever the votes."""

    rdp: RenyiCost = field(repr=False)
    #: It is post-processing of Gaussian noise at a mean shift of μ deviations; inf: it is not.
    mu: float = np.inf
    pure: float = np.inf  # the release is (ε₀, 0)-private; inf: it is not
    delta_cost: ClassVar[float] = 0.0  # the part of δ that it uses itself
    pure_parts: int = 1  # it is so many releases, each (ε₀/pure_parts, 0)-private
    #: For a sharper composition of releases that all have one.
    hint: Hint | None = field(default=None, repr=False)

    def known(self) -> dict[str, object]:
        """Return all that is known of the cost, to be compared with that of another."""
        return vars(self) | {"rdp": self.rdp(ORDERS).tolist()}


Release = tuple[int, WorstCaseCost]  # so many releases, and the cost of one

#: The cost of a release without a bound, and the cost of no release.
UNBOUNDED = WorstCaseCost(lambda orders: np.full(len(orders), np.inf))
FREE = WorstCaseCost(lambda orders: np.zeros(len(orders)), mu=0.0, pure=0.0)


def gaussian_cost(mu: float) -> WorstCaseCost:
    """Gaussian noise at mean shift μ: ρ(α) = αμ²/2."""
    if not mu < 1e6:
        return UNBOUNDED
    return WorstCaseCost(lambda orders: orders * mu**2 / 2, mu=mu)


def pure_cost(epsilon0: float, pure_parts: int = 1) -> WorstCaseCost:
    """So many releases that are (ε₀/pure_parts, 0)-private, together."""
    if not epsilon0 < _DETERMINISTIC:
        return UNBOUNDED
    return WorstCaseCost(
        lambda orders: pure_parts * pure_rdp(epsilon0 / pure_parts, orders),
        pure=epsilon0,
        pure_parts=pure_parts,
    )


def bounded_range_cost(eta: float) -> WorstCaseCost:
    """A privacy loss that lies in a range of width η, such as that of the exponential mechanism."""
    if not eta < _DETERMINISTIC:
        return UNBOUNDED
    return WorstCaseCost(partial(bounded_range_rdp, eta), pure=eta, hint=Hint(Kind.RANGE, eta))


def paid(releases: Iterable[Release]) -> list[Release]:
    """Return the releases that cost something."""
    return [(count, cost) for count, cost in releases if count and cost is not FREE]


def added(releases: Iterable[Release]) -> WorstCaseCost:
    """Return the Rényi cost and the mean shift of all releases: μ² = Σ μᵢ²."""
    releases = paid(releases)

    def rdp(orders: Floats) -> Floats:
        return sum((count * cost.rdp(orders) for count, cost in releases), 0 * orders)

    return WorstCaseCost(rdp, float(np.sqrt(sum(count * cost.mu**2 for count, cost in releases))))


@dataclass(frozen=True, eq=False, repr=False)
class KnownCost:
    """What queries cost where that is the same whatever the votes, such as that of noisy counts.

    It has the methods of `ExactCost`.
    """

    queries: int
    releases: Callable[[int], Iterable[Release]]  # of so many queries

    def total(self, orders: Floats) -> Floats:
        return added(self.releases(self.queries)).rdp(orders)

    def first(self, counts: Ints) -> Floats:
        return np.stack([added(self.releases(count)).rdp(ORDERS) for count in counts.tolist()])


def compose_worst_cases(releases: Sequence[Release], delta: float, rough: bool = False) -> float:
    """Return ε at δ of all releases: the smallest ε of the compositions that apply.

    At δ = 0 it is that of pure releases, and below it is inf. `rough` leaves out composition by
    induction, which takes up to a second.
    """
    if delta < 0:
        return np.inf
    releases = paid(releases)
    if delta == 0 or not releases:
        return float(sum(count * cost.pure for count, cost in releases))
    # Rényi composition always applies. Gaussian noise composes exactly (Dong, Roth, Su 2019,
    # Corollary 2).
    whole = added(releases)
    bounds = [
        to_epsilon(whole.rdp, delta)[0],
        gaussian(whole.mu, delta),
        _pure_epsilon(releases, delta),
    ]
    if rough:
        return min(bounds)
    counts, costs = zip(*releases, strict=True)
    # What has a hint composes by induction.
    hints = [cost.hint for cost in costs]
    if None not in hints:
        bounds.append(together(list(zip(counts, hints, strict=True)), delta))
    return min(bounds)


def _pure_epsilon(releases: Sequence[Release], delta: float) -> float:
    """Return ε of (ε₀, 0)-private releases of one ε₀, which compose exactly; inf: there is none.

    Kairouz, Oh, Viswanath 2015.
    """
    epsilons = {cost.pure / cost.pure_parts for _, cost in releases}
    if len(epsilons) > 1:
        return np.inf
    return optimal_pure(
        epsilons.pop(), sum(count * cost.pure_parts for count, cost in releases), delta
    )


def pure_rdp(epsilon0: float, orders: Floats) -> Floats:
    """Return the largest Rényi divergence of an ε₀-private release, [orders].

    Mironov 2017, Proposition 5.
    """
    # It is that of randomised response: log(1 + (e^(αε₀) − 1)(1 − e^((1−α)ε₀))/(1 + e^ε₀))/(α − 1).
    up = orders * epsilon0
    down = (orders - 1) * epsilon0
    log_more = up + np.log(-np.expm1(-up)) + np.log(-np.expm1(-down)) - np.logaddexp(0, epsilon0)
    return np.logaddexp(0, log_more) / (orders - 1) * (1 + 1e-12)


def bounded_range_rdp(eta: float, orders: Floats) -> Floats:
    """Return the largest Rényi divergence of a privacy loss in a range η: at most αη²/8."""
    # The worst pair has two outcomes with losses t and t − η (Dong, Durfee, Rogers 2020, Lemma
    # 3.4). Its divergence is log(B e^((α−1)t) + e^(αt) (e^(−αη) − B e^(−η)))/(α − 1) with B = (1 −
    # e^(−αη))/(1 − e^(−η)), taken at the best t.
    ahead = orders - 1
    falls = np.expm1(-orders * eta)
    log_b = np.log(falls / np.expm1(-eta))
    t = np.log(ahead / orders) + np.log(-falls) + eta - np.log(-np.expm1(-ahead * eta))
    rounding = 1e-14 * (1 + orders) / ahead
    worst = (log_b - np.log(orders)) / ahead + t + rounding
    return np.minimum(worst, orders * eta**2 / 8)


def optimal_pure(epsilon0: float, releases: int, delta: float) -> float:
    """Return the exact ε of `releases` (ε₀, 0)-private releases, rounded up.

    Kairouz, Oh, Viswanath 2015, Theorem 3.3: δ(ε) = Σ_l C(k, l) (e^((k−l) ε₀) − e^(ε + l ε₀))₊ /
    (1 + e^ε₀)^k is that of randomised response; by bisection.
    """
    if not epsilon0 < _DETERMINISTIC:
        return np.inf
    lies = np.arange(releases + 1)
    choose = gammaln(releases + 1) - gammaln(lies + 1) - gammaln(releases - lies + 1)
    p = np.exp(choose + (releases - lies) * epsilon0 - releases * np.logaddexp(0, epsilon0))
    loss = (releases - 2 * lies) * epsilon0

    def enough(epsilon: float) -> bool:
        worse = loss > epsilon
        return float((p[worse] * -np.expm1(epsilon - loss[worse])).sum()) <= delta

    if enough(0.0):
        return 0.0
    low = 0.0
    high = releases * epsilon0
    while high - low > 1e-10 * releases * epsilon0:
        middle = (low + high) / 2
        if enough(middle):
            high = middle
        else:
            low = middle
    return float(high * (1 + 1e-9))
