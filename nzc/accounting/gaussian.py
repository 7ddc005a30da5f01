"""ε of Gaussian noise."""

import numpy as np
from scipy.special import log_ndtr

_POWERS = np.append(0.0, np.ldexp(1.0, np.arange(-80, 46)))  # ε is between two of these;
_TIMES = 5  # so often, the interval is divided
_PARTS = 256  # into so many


def gaussian(mu: float, delta: float) -> float:
    """Return the exact ε of Gaussian noise at mean shift μ, rounded up.

    Balle and Wang 2018, Theorem 8.
    """
    if mu == 0:
        return 0.0
    if not mu <= 1e6:
        return np.inf
    enough = 0.0
    tried = _POWERS
    for _ in range(_TIMES + 1):
        with np.errstate(over="ignore", invalid="ignore"):  # far away, all of δ vanishes
            log_first = log_ndtr(mu / 2 - tried / mu)
            log_second = tried + log_ndtr(-mu / 2 - tried / mu)
            rounding = 1e-14 * (1 - log_first)  # dominates the difference where μ is tiny
            less = np.minimum(log_second - log_first, 0.0) - rounding
            place = int((log_first + np.log(-np.expm1(less)) > np.log(delta)).argmin())
        if place == 0:
            break
        enough = float(tried[place])
        tried = np.linspace(tried[place - 1], enough, _PARTS + 1)
    return enough * (1 + 1e-9)
