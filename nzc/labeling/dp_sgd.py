"""DP-SGD: a linear classifier learns from the private records themselves, as a baseline for released labels.

    records (private)  →  DPSGD.learn  →  weights (public)

All records are one batch, each gradient is clipped to norm 1, and every step adds Gaussian noise to their sum (Abadi et
al. 2016, "Deep learning with differential privacy"; averaged weights: De et al. 2022, arXiv 2204.13650). Where records
have groups, the mean gradient of a group counts. One replaced record, or group, moves the sum by at most 2. So T steps
with noise of standard deviation s are one Gaussian release at mean shift μ = 2√T/s (Dong, Roth, Su 2019, Corollary 2).
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from nzc.accounting.data_independent import gaussian
from nzc.types import Floats, Ints

#: Steps of every fit, and the largest learning rate: nothing is tuned on the data.
STEPS, LARGEST_RATE = 60, 128.0
#: Of the noise that exact arithmetic needs, 1 % more: a group of another size may change how other rows are rounded.
_ROUNDING = 0.99


@dataclass(frozen=True)
class DPSGD:
    """Learns from so many `units`, groups or records, at mean shift `mu`."""

    mu: float
    units: int

    @classmethod
    def at(cls, epsilon: float, delta: float, units: int) -> "DPSGD":
        """Return the one that costs at most ε at δ."""
        from scipy.optimize import brentq  # takes a fifth of a second to import

        mu = brentq(lambda mu: gaussian(mu, delta) - epsilon, 1e-9, 1e5)
        return cls(_ROUNDING * float(mu), units)

    @property
    def noise(self) -> float:
        """Standard deviation of the noise in the sum of gradients."""
        return 2 * math.sqrt(STEPS) / self.mu

    @property
    def rate(self) -> float:
        """The learning rate at which the noise of all steps together moves a logit by 1, in standard deviations."""
        return min(LARGEST_RATE, self.mu * self.units / (2 * STEPS))

    def learn(self, x: Floats, y: Ints, groups: Ints | None, classes: int, rng: np.random.Generator) -> Floats:
        """Return weights [features, classes] for private rows x [rows, features] of length about 1."""
        weights, total = np.zeros((2, x.shape[1], classes))
        for step in range(STEPS):
            gradient = gradients(x, y, groups, weights) + self.noise * rng.normal(size=weights.shape)
            weights = weights - self.rate / self.units * gradient
            total += weights * (step >= STEPS // 2)
        return total / (STEPS - STEPS // 2)


def gradients(x: Floats, y: Ints, groups: Ints | None, weights: Floats) -> Floats:
    """Return the sum of the cross-entropy's clipped gradients [features, classes], each of norm 1 at most."""
    error = softmax(x @ weights, axis=1)  # the gradient of a record is the outer product of x and the error
    error[np.arange(len(y)), y] -= 1
    norms = np.linalg.norm(x, axis=1) * np.linalg.norm(error, axis=1)
    _, group, sizes = np.unique(np.arange(len(y)) if groups is None else groups, False, True, True)
    return np.asarray(x.T @ (error / (np.maximum(1, norms) * sizes[group])[:, None]))
