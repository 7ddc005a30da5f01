"""Bounds that hold for any votes, from public facts only (how many labels were released)."""

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr

from nzc._types import Floats
from nzc.privacy.conversion import epsilon


def pure_rdp(epsilon0: float, orders: Floats) -> Floats:
    """The largest Rényi divergence of an ε₀-private release, [orders]: randomised response's (Mironov 2017)."""
    stay, flip = -np.logaddexp(0, -epsilon0), -np.logaddexp(0, epsilon0)
    up = orders * stay + (1 - orders) * flip
    down = orders * flip + (1 - orders) * stay
    rdp: Floats = np.logaddexp(up, down) / (orders - 1)
    return rdp


def compose_pure(epsilon0: float, releases: int, delta: float) -> float:
    """ε of `releases` ε₀-private releases: the better of basic and Rényi composition."""
    if releases == 0:
        return 0.0
    # Beyond e^-700 the smaller probability is no float64 any more: what is sampled is deterministic.
    if epsilon0 > 700:
        return np.inf
    return min(releases * epsilon0, epsilon(lambda orders: releases * pure_rdp(epsilon0, orders), delta)[0])


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
        return float(log_first + np.log(-np.expm1(min(log_second - log_first, -1e-300))) - np.log(delta))

    if excess(0.0) <= 0:
        return 0.0
    top = 1.0
    while excess(top) > 0:
        top *= 2
    return float(brentq(excess, 0.0, top, xtol=1e-12, rtol=1e-12)) * (1 + 1e-9)  # never below the root
