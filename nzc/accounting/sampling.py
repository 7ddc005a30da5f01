"""Privacy amplification: each release uses a secret Poisson sample of the records.

Neighbours: one record is replaced. Proof: docs/proofs.md, "Secret samples".
"""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtr

from nzc.accounting.data_independent import WorstCaseCost, pure_cost
from nzc.accounting.exact import IMPOSSIBLE, Pairs, largest_divergence
from nzc.accounting.induction import chord, tails
from nzc.types import Floats

#: Intervals of z, up to where P* has less than e^-700.
_INTERVALS = 2_000
_END = 37.6
_CELLS = 2**17  # of the grid of losses
#: Parts of δ for rounding (a coin of 53 bits included), and for what is cut off.
_ROUNDING = 1e-6
_CUT = 1e-9


def sampled(cost: WorstCaseCost, probability: float) -> WorstCaseCost:
    """Return the cost of a release from a Poisson sample, given that from all records."""
    if probability == 1:
        return cost
    if cost.mu < 10:
        law = SampledGaussian(probability, float(cost.mu))
        return WorstCaseCost(law.rdp, composed_epsilon=law)
    if cost.mu < np.inf:  # far from private, sampled or not
        return replace(cost, hint=None)
    return pure_cost(float(np.log1p(probability * (1 + 1e-12) * np.expm1(cost.pure))))


@dataclass(frozen=True)
class SampledGaussian:
    """Gaussian noise at mean shift μ, of a Poisson sample.

    Called with (releases, δ) it returns their ε, rounded up.
    """

    probability: float
    mu: float

    @cached_property
    def law(self) -> Pairs:
        """The dominating pair.

        Each interval of z becomes its two ends, with the same P* and Q*: H can only grow.
        """
        z = np.linspace(self.mu / 2, self.mu + _END, _INTERVALS + 1)
        ratio = 1 + self.probability * np.expm1(self.mu * (z - self.mu / 2))
        beyond = ndtr(-z)
        shifted = ndtr(self.mu - z)
        q = -np.diff(beyond)
        # P* less the ratio at the lower end times Q*; it becomes the share of the upper end.
        excess = self.probability * (-np.diff(shifted) - q) - (ratio[:-1] - 1) * q
        wide = np.diff(ratio)
        upper = np.clip(np.divide(excess, wide, out=q.copy(), where=wide > 0), 0, q)
        at_ends = np.append(q - upper, 0.0) + np.append(0.0, upper)
        rest = 1 - beyond[0] - (beyond[0] + self.probability * (shifted[0] - beyond[0]))
        with np.errstate(divide="ignore"):
            log_q = np.log(at_ends)
            log_rest = np.log([max(rest, 0.0)])
        log_p = log_q + np.log(ratio)
        here = np.concatenate([log_p, log_q, log_rest])[None]
        there = np.concatenate([log_q, log_p, log_rest])[None]
        return Pairs(np.zeros(1, np.int64), here, there, np.ones(here.shape))

    def rdp(self, orders: Floats) -> Floats:
        """Return the Rényi cost of one release, [orders].

        Beyond the intervals P*/Q* is at most s e^(μz − μ²/2).
        """
        s = self.probability + (1 - self.probability) * np.exp(-self.mu * (self.mu / 2 + _END))
        whole = orders * self.mu**2 / 2
        ahead = orders - 1
        beyond = ahead * whole + orders * np.log(s) + log_ndtr(orders * self.mu - self.mu - _END)
        within = ahead * largest_divergence(self.law, 1, orders)[0]
        return np.minimum(np.logaddexp(within, beyond) / ahead, whole)

    def __call__(self, releases: int, delta: float) -> float:
        return _composed(self, releases, delta)


@lru_cache(maxsize=256)
def _composed(release: SampledGaussian, releases: int, delta: float) -> float:
    """Return ε at δ of so many releases, rounded up, from the law of the sum of their losses.

    The law is on a grid (`chord`). The FFT is of the law times e^(λ loss), so its error is small
    beside δ where the sum is near ε. What is beyond the grid's upper end counts to δ (Chernoff);
    what is below its lower end comes out above, which can only enlarge δ.
    """
    log_p = release.law.here[0]
    log_q = release.law.there[0]
    possible = np.maximum(log_p, log_q) > IMPOSSIBLE
    log_p = log_p[possible]
    loss = log_p - log_q[possible]
    tilts = np.geomspace(1e-3, 1e5, 300)
    moments = releases * np.array([max(logsumexp(log_p + tilt * loss), 0.0) for tilt in tilts])
    end = float(((moments - np.log(_CUT * delta)) / tilts).min())
    best = int(((moments - np.log(delta)) / tilts).argmin())
    tilt = float(tilts[best])

    step = end / (_CELLS // 2 - 2)
    inside = loss < end
    cell, share_below = chord(loss[inside], step, 2 - _CELLS // 2)
    places = np.append(cell, cell + 1)
    shares = np.append(share_below, 1 - share_below)
    log_weights = np.tile(log_p[inside], 2) + tilt * places * step - moments[best] / releases
    law = np.bincount(places % _CELLS, shares * np.exp(log_weights), _CELLS)
    total = law.sum()
    sums = np.fft.irfft(np.fft.rfft(law / total) ** releases, _CELLS)[: _CELLS // 2].clip(0)

    losses = step * np.arange(len(sums))  # from 0 on
    with np.errstate(divide="ignore"):
        log_sums = np.log(sums) - tilt * losses + moments[best] + releases * np.log(total)
    more = tails(np.exp(np.minimum(log_sums, 300)))
    less = tails(np.exp(np.minimum(log_sums - losses, 300)))
    with np.errstate(over="ignore", invalid="ignore"):
        reached = more - np.exp(losses) * less
    allowed = delta * (1 - _ROUNDING - _CUT) - releases * float(np.exp(log_p[~inside]).sum())
    first = np.flatnonzero(~(reached <= allowed)).max(initial=-1) + 1
    return float(losses[first]) * (1 + 1e-9) if first < len(losses) else np.inf
