"""ε of Gaussian noise."""

import numpy as np
from scipy.special import log_ndtr


def gaussian(mu: float, delta: float) -> float:
    """Return the exact ε of Gaussian noise at mean shift μ, rounded up.

    Balle and Wang 2018, Theorem 8.
    """
    from scipy.optimize import brentq  # takes a fifth of a second to import

    if mu == 0:
        return 0.0
    if not mu <= 1e6:
        return np.inf

    def excess(eps: float) -> float:
        log_first, log_second = log_ndtr(-eps / mu + mu / 2), eps + log_ndtr(-eps / mu - mu / 2)
        rounding = 1e-14 * (1 - log_first)  # dominates the difference where μ is tiny
        return float(
            log_first
            + np.log(-np.expm1(min(log_second - log_first, 0.0) - rounding))
            - np.log(delta)
        )

    if excess(0.0) <= 0:
        return 0.0
    top = 1.0
    while excess(top) > 0:
        top *= 2
    return float(brentq(excess, 0.0, top, xtol=1e-300, rtol=1e-12, maxiter=2000)) * (1 + 1e-9)
