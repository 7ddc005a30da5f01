"""Laplace noise: LNMax (PATE 2017) and NZC."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from nzc.accounting.data_dependent import DataDependentBound, laplace_bound
from nzc.accounting.data_independent import WorstCaseCost, pure_cost
from nzc.accounting.exact_noise import LAPLACE
from nzc.accounting.kinds import Hint, Kind
from nzc.mechanisms.noise.base import ScaledNoise
from nzc.mechanisms.noise.continuous import ContinuousNoise, panels
from nzc.types import Floats, FloatsPair, Shape

__all__ = ["LaplaceNoise"]

_X, _W = np.polynomial.legendre.leggauss(8)


@dataclass(frozen=True)
class LaplaceNoise(ScaledNoise, ContinuousNoise):
    """Lap(1/γ) on every count: density γ/2 e^(−γ|z|).

    One label is (2γ, 0)-private (PATE 2017, Theorem 2).
    """

    standard = LAPLACE
    reach = 720.0

    def worst_case(self, shift: float) -> WorstCaseCost:
        """A label follows from noisy counts: some rise by `shift` in all, others fall as much."""
        cost = pure_cost(2 * self.gamma * shift, pure_parts=2)
        if shift != 1:
            return cost
        return replace(cost, hint=Hint(Kind.LAPLACE, self.gamma))

    @property
    def unit(self) -> float:
        return 1 / self.gamma

    def sample(self, shape: Shape, rng: Generator) -> Floats:
        return rng.laplace(scale=1 / self.gamma, size=shape)

    def log_density(self, x: Floats) -> Floats:
        return -np.abs(x) - np.log(2)

    def log_cdf(self, x: Floats) -> Floats:
        log_f = x - np.log(2)
        above = ~(x < 0)
        log_f[above] = np.log1p(-0.5 * np.exp(-x[above]))
        return log_f

    def nodes(self, leads: Floats, copies: Floats, step: Floats) -> FloatsPair:
        """Return Gauss-Legendre nodes between the kinks: the counts, and the counts one vote away.

        Below all kinks the integrand is e^(Kt): one node carries the whole tail exactly. Above them
        it is a polynomial of degree K − 1 in e^(−t): ⌈K/2⌉ nodes are exact. Between two kinks it is
        e^(kt) times factors 1 − e^(−x)/2: where its logarithm changes by at most 3 in a panel, 8
        nodes leave an error below 1e-15.
        """
        vote = step[:, None]
        in_reach = leads > -self.reach
        copies = np.where(in_reach, copies, 0.0)
        leads = np.where(in_reach, leads, 0.0)
        kinks = np.sort(np.concatenate([leads - vote, leads, leads + vote], axis=1), axis=1)
        left, width = _split(kinks[:, :-1], np.diff(kinks), np.ceil(np.diff(kinks)))
        behind = left[:, :, None] - leads[:, None, :] - vote[:, :, None]
        steepness = 1 + np.einsum("qpk,qk->qp", np.exp(-np.maximum(behind, 0)), copies)
        left, width = _split(left, width, np.ceil(steepness * width / 3))
        t, log_weight = panels(left, width, _X, _W)

        classes = copies.sum(axis=1)
        y, w = np.polynomial.legendre.leggauss(int(classes.max() + 1) // 2)
        y = (y + 1) / 2
        w = w / 2
        above = kinks[:, -1:] - np.log(y)
        log_above = np.tile(np.log(w / y), (len(leads), 1))
        log_below = -np.log(classes)[:, None]
        return (
            np.concatenate([kinks[:, :1], t, above], axis=1),
            np.concatenate([log_below, log_weight, log_above], axis=1),
        )

    @property
    def bound(self) -> DataDependentBound:
        return laplace_bound(self.gamma)

    def claimed(self, queries: int, delta: float) -> float:
        """Return 4Tγ² + 2γ √(2T ln 1/δ) (NZC, KDD 2020, Theorem 4 and the text below it)."""
        by_order = 2 * self.gamma * np.sqrt(2 * queries * np.log(1 / delta))
        return float(4 * queries * self.gamma**2 + by_order)


def _split(left: Floats, width: Floats, pieces: Floats) -> FloatsPair:
    """Cut panels [queries, panels] into so many equal pieces: left ends, widths, padded with 0."""
    times = pieces.astype(np.int64).ravel()
    within = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
    size = np.repeat(width.ravel() / np.maximum(times, 1), times)
    count = pieces.sum(axis=1)
    used = np.arange(count.max(initial=0)) < count[:, None]
    new_left, new_width = np.zeros((2, *used.shape))
    new_left[used] = np.repeat(left.ravel(), times) + within * size
    new_width[used] = size
    return new_left, new_width
