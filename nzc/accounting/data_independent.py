"""Upper bounds that hold for any votes. They follow from public facts: noise, queries asked, labels
released.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from scipy.special import gammaln, logsumexp

from nzc.accounting.adaptive import together
from nzc.accounting.rdp import ORDERS, to_epsilon
from nzc.accounting.shown import Kind as Kind
from nzc.accounting.shown import Shown as Shown
from nzc.accounting.shown import gaussian as gaussian
from nzc.types import Floats

_DETERMINISTIC = 700.0  # e^-700 is about the smallest float64. A pure ε₀ of this size or above is treated as no bound.


@dataclass(frozen=True)
class WorstCaseCost:
    """What one release costs, whatever the votes."""

    rdp: Callable[[Floats], Floats] = field(repr=False)  # the Rényi cost, orders → [orders]
    mu: float = (
        np.inf
    )  # it is post-processing of Gaussian noise at a mean shift of μ deviations; inf: it is not
    pure: float = np.inf  # the release is (ε₀, 0)-private; inf: it is not
    many: Callable[[int, float], float] | None = field(
        default=None, repr=False
    )  # (releases, δ) → ε; None: not known
    pures: int = 1  # it is so many releases, each (ε₀/pures, 0)-private
    shown: Shown | None = field(
        default=None, repr=False
    )  # for a sharper composition of releases that all have one

    def known(self) -> tuple[object, ...]:
        """Return all that is known of the cost, to be compared with that of another."""
        return self.mu, self.pure, self.pures, self.shown, self.many, self.rdp(ORDERS).tolist()


#: The cost of a release without a bound, and the cost of no release.
UNBOUNDED = WorstCaseCost(lambda orders: np.full(len(orders), np.inf))
FREE = WorstCaseCost(lambda orders: np.zeros(len(orders)), mu=0.0, pure=0.0)


def gaussian_cost(mu: float) -> WorstCaseCost:
    """Gaussian noise at mean shift μ: ρ(α) = αμ²/2."""
    return WorstCaseCost(lambda orders: orders * mu**2 / 2, mu=mu) if mu < 1e6 else UNBOUNDED


def pure_cost(epsilon0: float, pures: int = 1) -> WorstCaseCost:
    """So many releases that are (ε₀/pures, 0)-private, together."""
    if not epsilon0 < _DETERMINISTIC:
        return UNBOUNDED
    return WorstCaseCost(
        lambda orders: pures * pure_rdp(epsilon0 / pures, orders), pure=epsilon0, pures=pures
    )


def bounded_range_cost(eta: float) -> WorstCaseCost:
    """A release whose privacy loss lies in a range of width η, such as the exponential mechanism."""
    if not eta < _DETERMINISTIC:
        return UNBOUNDED
    return WorstCaseCost(partial(bounded_range_rdp, eta), pure=eta, shown=Shown(Kind.RANGE, eta))


def added(parts: Iterable[tuple[int, WorstCaseCost]]) -> WorstCaseCost:
    """Return the Rényi cost and the mean shift of all releases, given as (count, cost of one): μ² =
    Σ μᵢ².
    """
    counted = [(count, cost) for count, cost in parts if count]

    def rdp(orders: Floats) -> Floats:
        return np.asarray(
            np.sum(
                [np.zeros(len(orders)), *(count * cost.rdp(orders) for count, cost in counted)],
                axis=0,
            )
        )

    return WorstCaseCost(rdp, float(np.sqrt(sum(count * cost.mu**2 for count, cost in counted))))


def compose(parts: Sequence[tuple[int, WorstCaseCost]], delta: float, rough: bool = False) -> float:
    """Return ε at δ of all releases, given as (count, cost of one): the smallest ε of the
    compositions that apply.

    For δ ≤ 0 it is inf. `rough` leaves out composition by induction, which takes up to a second.
    """
    # Rényi composition always applies. Gaussian noise composes exactly (Dong, Roth, Su 2019,
    # Corollary 2), and so do (ε₀, 0)-private releases of one ε₀ (Kairouz, Oh, Viswanath 2015). What
    # is `shown` composes by induction.
    if delta <= 0:
        return np.inf
    parts = [(count, cost) for count, cost in parts if count and cost is not FREE]
    if not parts:
        return 0.0
    whole = added(parts)
    bounds = [to_epsilon(whole.rdp, delta)[0], gaussian(whole.mu, delta)]
    if len(pure := {cost.pure / cost.pures for _, cost in parts}) == 1:
        bounds.append(
            optimal_pure(pure.pop(), sum(count * cost.pures for count, cost in parts), delta)
        )
    if (
        (many := parts[0][1].many) is not None
        and not rough
        and all(cost.many == many for _, cost in parts)
    ):
        bounds.append(many(sum(count for count, _ in parts), delta))
    shown = [(count, cost.shown) for count, cost in parts if cost.shown is not None]
    if len(shown) == len(parts) and not rough:
        bounds.append(together(shown, delta, min(bounds)))
    return min(bounds)


def pure_rdp(epsilon0: float, orders: Floats) -> Floats:
    """Return the largest Rényi divergence of an ε₀-private release, [orders] (Mironov 2017,
    Proposition 5).
    """
    # It is that of randomised response: log(1 + (e^(αε₀) − 1)(1 − e^((1−α)ε₀))/(1 + e^ε₀))/(α − 1).
    up, down = orders * epsilon0, (orders - 1) * epsilon0
    log_more = up + np.log(-np.expm1(-up)) + np.log(-np.expm1(-down)) - np.logaddexp(0, epsilon0)
    return np.asarray(np.logaddexp(0, log_more) / (orders - 1) * (1 + 1e-12))


def bounded_range_rdp(eta: float, orders: Floats) -> Floats:
    """Return the largest Rényi divergence of a release with privacy loss in a range η, [orders]; at
    most αη²/8.
    """
    # The worst pair has two outcomes with losses t and t − η (Dong, Durfee, Rogers 2020, Lemma
    # 3.4). Its divergence is log(B e^((α−1)t) + e^(αt) (e^(−αη) − B e^(−η)))/(α − 1) with B = (1 −
    # e^(−αη))/(1 − e^(−η)), taken at the best t.
    log_b = np.log(np.expm1(-orders * eta) / np.expm1(-eta))
    ahead = orders - 1
    t = (
        np.log(ahead / orders)
        + np.log(-np.expm1(-orders * eta))
        + eta
        - np.log(-np.expm1(-ahead * eta))
    )
    rounding = 1e-14 * (1 + orders) / ahead
    return np.asarray(
        np.minimum((log_b - np.log(orders)) / ahead + t + rounding, orders * eta**2 / 8)
    )


def optimal_pure(epsilon0: float, releases: int, delta: float) -> float:
    """Return the exact ε of `releases` (ε₀, 0)-private releases, rounded up (Kairouz, Oh, Viswanath
    2015, Theorem 3.3).

    δ(ε) = Σ_l C(k, l) (e^((k−l) ε₀) − e^(ε + l ε₀))₊ / (1 + e^ε₀)^k is that of randomised response;
    by bisection.
    """
    if not epsilon0 < _DETERMINISTIC:
        return np.inf
    lies = np.arange(releases + 1)
    choose = gammaln(releases + 1) - gammaln(lies + 1) - gammaln(releases - lies + 1)
    log_p = choose + (releases - lies) * epsilon0 - releases * np.logaddexp(0, epsilon0)
    loss = (releases - 2 * lies) * epsilon0

    def excess(eps: float) -> float:
        worse = loss > eps
        return float(logsumexp(log_p[worse] + np.log(-np.expm1(eps - loss[worse]))) - np.log(delta))

    if excess(0.0) <= 0:
        return 0.0
    low, high = 0.0, releases * epsilon0
    while high - low > 1e-10 * releases * epsilon0:
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return float(high * (1 + 1e-9))
