"""Bounds that hold for any votes, from public facts only (how many queries were asked, how many labels released)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln, log_ndtr, logsumexp

from nzc._types import Floats
from nzc.privacy.conversion import epsilon

# Beyond e^-700 the smaller probability is no float64 any more: what is sampled is deterministic.
_DETERMINISTIC = 700.0


@dataclass(frozen=True)
class Release:
    """What one release costs, whatever the data.

    rdp   its Rényi cost, orders → [orders]
    mu    it is post-processing of Gaussian noise at a mean shift of μ standard deviations (inf: it is not)
    pure  it is (ε₀, 0)-private (inf: it is not)
    """

    rdp: Callable[[Floats], Floats]
    mu: float = np.inf
    pure: float = np.inf


def _infinite(orders: Floats) -> Floats:
    return np.full(len(orders), np.inf)


def _nothing(orders: Floats) -> Floats:
    return np.zeros(len(orders))


#: What has no bound, and what is not released at all.
UNBOUNDED, FREE = Release(_infinite), Release(_nothing, mu=0.0, pure=0.0)


def gaussian_release(mu: float) -> Release:
    """Gaussian noise at mean shift μ: αμ²/2."""
    return Release(lambda orders: orders * mu**2 / 2, mu=mu) if mu < 1e6 else UNBOUNDED


def pure_release(epsilon0: float) -> Release:
    """An (ε₀, 0)-private release."""
    return Release(lambda orders: pure_rdp(epsilon0, orders), pure=epsilon0) if epsilon0 < _DETERMINISTIC else UNBOUNDED


def bounded_range_release(eta: float) -> Release:
    """A release whose privacy loss lies within a range of η, as the exponential mechanism's does."""
    return Release(lambda orders: bounded_range_rdp(eta, orders), pure=eta) if eta < _DETERMINISTIC else UNBOUNDED


def compose(parts: list[tuple[int, Release]], delta: float) -> float:
    """ε of many releases, each given with how often it was made: the best of the compositions that apply.

    Rényi always; exact where all noise is Gaussian (μ² = Σ μᵢ²: Dong, Roth, Su 2019, Corollary 2); optimal where all
    are (ε₀, 0)-private with one ε₀ (Kairouz, Oh, Viswanath 2015).
    """
    parts = [(count, release) for count, release in parts if count and release is not FREE]
    if not parts:
        return 0.0
    bounds = [
        epsilon(lambda orders: np.sum([count * release.rdp(orders) for count, release in parts], axis=0), delta)[0]
    ]
    bounds.append(gaussian(float(np.sqrt(sum(count * release.mu**2 for count, release in parts))), delta))
    if len({release.pure for _, release in parts}) == 1:
        bounds.append(optimal_pure(parts[0][1].pure, sum(count for count, _ in parts), delta))
    return min(bounds)


def pure_rdp(epsilon0: float, orders: Floats) -> Floats:
    """The largest Rényi divergence that ε₀-privacy allows, [orders]: randomised response's (Mironov 2017, Prop. 5).

    Its (p^α q^(1−α) + q^α p^(1−α)) − 1 is (e^(αε₀) − 1)(1 − e^((1−α)ε₀))/(1 + e^ε₀), in which nothing cancels.
    """
    up, down = orders * epsilon0, (orders - 1) * epsilon0
    log_more = up + np.log(-np.expm1(-up)) + np.log(-np.expm1(-down)) - np.logaddexp(0, epsilon0)
    return np.asarray(np.logaddexp(0, log_more) / (orders - 1) * (1 + 1e-12))


def bounded_range_rdp(eta: float, orders: Floats) -> Floats:
    """The largest Rényi divergence that a privacy loss within a range of η allows, [orders]; never above αη²/8.

    The worst pair has two outcomes with losses t and t − η (Dong, Durfee, Rogers 2020, Lemma 3.4); its divergence
    log(B e^((α−1)t) + e^(αt) (e^(−αη) − B e^(−η)))/(α − 1), B = (1 − e^(−αη))/(1 − e^(−η)), is here at its largest t.
    """
    log_b = np.log(np.expm1(-orders * eta) / np.expm1(-eta))
    ahead = orders - 1
    t = np.log(ahead / orders) + np.log(-np.expm1(-orders * eta)) + eta - np.log(-np.expm1(-ahead * eta))
    rounding = 1e-14 * (1 + orders) / ahead
    return np.asarray(np.minimum((log_b - np.log(orders)) / ahead + t + rounding, orders * eta**2 / 8))


def optimal_pure(epsilon0: float, releases: int, delta: float) -> float:
    """The exact ε of `releases` (ε₀, 0)-private releases. Kairouz, Oh, Viswanath 2015, Theorem 3.3, at any ε.

    δ(ε) = Σ_l C(k, l) (e^((k−l) ε₀) − e^(ε + l ε₀))₊ / (1 + e^ε₀)^k: the worst case is randomised response.
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
    top = releases * epsilon0
    low, high = 0.0, top
    while high - low > 1e-10 * top:
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return float(high * (1 + 1e-9))  # never below the root


def gaussian(mu: float, delta: float) -> float:
    """The exact ε of Gaussian noise at mean shift μ standard deviations (Balle and Wang 2018, Theorem 8).

    Composition is exact too: shifts add in quadrature, μ² = Σ μᵢ² (Dong, Roth, Su 2019, Corollary 2).
    """
    if mu == 0:
        return 0.0
    if not np.isfinite(mu) or mu > 1e6:
        return np.inf

    def excess(eps: float) -> float:
        log_first, log_second = log_ndtr(-eps / mu + mu / 2), eps + log_ndtr(-eps / mu - mu / 2)
        rounding = 1e-14 * (1 - log_first)  # what is left of their difference where μ is tiny
        return float(log_first + np.log(-np.expm1(min(log_second - log_first, 0.0) - rounding)) - np.log(delta))

    if excess(0.0) <= 0:
        return 0.0
    top = 1.0
    while excess(top) > 0:
        top *= 2
    return float(brentq(excess, 0.0, top, xtol=1e-300, rtol=1e-12, maxiter=2000)) * (1 + 1e-9)  # never below the root
