"""A noise of the user's own against its own law: does `sample` draw it, and does `worst_case` hold for it?"""

from fractions import Fraction

import numpy as np
from scipy.special import chdtrc, ndtri_exp

from nzc.accounting.exact import Pairs, largest_divergence
from nzc.accounting.rdp import ORDERS
from nzc.mechanisms.noise.base import DEEPEST, Noise
from nzc.mechanisms.noise.continuous import ContinuousNoise
from nzc.types import Floats
from nzc.validation import InputError

_DRAWS = (2**15, 16)  # draws [queries, classes] to judge a sampler by; they show 2 % too little or too much noise
_FALSE_ALARM = 1e-12  # the probability that a right sampler is refused
_ROUNDING, _LEAST = 1e-4, 1e-9  # a bound may be so far below the law, relatively and absolutely: both are rounded


def require_worst_case(noise: Noise, shift: float) -> None:
    """Raise InputError where `worst_case` is below what the law of two classes shows: at a tie and at larger gaps.

    shift  the most by which a moved vote shifts a count
    """
    further = noise.unit * 4.0 ** np.arange(4) if isinstance(noise, ContinuousNoise) else 2.0 ** np.arange(-20, 40)
    gap = np.array([0.0, shift, *further])
    here = np.stack([gap, np.zeros_like(gap)], axis=1)
    # A probability that the law rounds to 0 counts as e^DEEPEST: its ratio is at least as large.
    p, q = np.maximum([noise.log_law(here), noise.log_law(here + np.array([-shift, shift]))], DEEPEST)
    # Two classes show all of μ by Φ⁻¹(p) − Φ⁻¹(q) ≤ μ (Dong, Roth, Su 2019).
    z_p, z_q = (np.where(law[:, 1] < law[:, 0], ndtri_exp(law[:, 1]), -ndtri_exp(law[:, 0])) for law in (p, q))
    orders = ORDERS[::16]
    divergence = largest_divergence(Pairs(np.arange(len(gap)), p, q, np.ones_like(p)), len(gap), orders)
    cost = noise.worst_case(shift)
    named = [f"Rényi cost at order {order:.4g}" for order in orders]
    bounds = list(zip(named, divergence.T, cost.rdp(orders), strict=True))
    bounds += [("`pure`", np.abs(p - q).max(axis=1), cost.pure), ("`mu`", np.abs(z_p - z_q), cost.mu)]
    for name, needed, bound in bounds:
        if not needed.max() <= bound * (1 + _ROUNDING) + _LEAST:
            allowed = f"must hold for any votes; its {name} is {needed.max():.6g} or more by the law at two counts"
            raise InputError("worst_case", float(bound), allowed)


def require_draws(noise: Noise) -> None:
    """Raise InputError where `sample` does not draw what the law says (χ² test), or where `exact` contradicts it."""
    share, law = _below(noise) if isinstance(noise, ContinuousNoise) else _winners(noise)
    worst = int(np.nan_to_num(np.abs(np.cumsum(share - law)), nan=1.0).argmax())
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.where(share == law, 0.0, np.prod(_DRAWS) * (share - law) ** 2 / law).sum()
    if not chdtrc(len(law) - 1, statistic) >= _FALSE_ALARM:
        found, said = 100 * share[: worst + 1].sum(), 100 * law[: worst + 1].sum()
        allowed = f"must draw with `sample`, in votes, what its law says: {found:.3g} % of draws, by law {said:.3g} %"
        raise InputError("noise", noise, allowed)
    if isinstance(noise, ContinuousNoise) and noise.exact is not None:
        at = np.arange(1, 4096) / 4096
        quantiles = noise.exact.law.quantile(at) * float(noise.exact.scale / Fraction(float(noise.unit)))
        if not (off := np.abs(np.exp(noise.log_cdf(quantiles)) - at).max()) < 1e-9:
            allowed = f"must have quantiles in `exact` of the law that `log_cdf` says; they differ by {off:.2g}"
            raise InputError("noise", noise, allowed)


def _below(noise: ContinuousNoise) -> tuple[Floats, Floats]:
    """Return shares of draws in 18 cells, between quantiles of other draws, and what `log_cdf` says of each."""
    rng = np.random.default_rng(0)
    edges = np.unique(np.sort(noise.sample((64, 16), rng), axis=None)[[7, *range(63, 1000, 64), -8]])
    drawn = noise.sample(_DRAWS, rng)
    below = np.array([np.count_nonzero(drawn <= edge) for edge in edges]) / drawn.size
    with np.errstate(divide="ignore"):
        expected = np.exp(noise.log_cdf(edges / noise.unit))
    return np.diff(below, prepend=0, append=1), np.diff(expected, prepend=0, append=1)


def _winners(noise: Noise) -> tuple[Floats, Floats]:
    """Return how often each of three classes wins, and `log_law`, where the first wins in about 75 %."""
    gaps = 2.0 ** np.arange(-30, 60)
    scores = np.stack([gaps, 0 * gaps, 0 * gaps], axis=1)
    laws = np.exp(noise.log_law(scores))
    at, draws = int(np.abs(laws[:, 0] - 0.75).argmin()), int(np.prod(_DRAWS))
    winners = noise.winner(np.tile(scores[at], (draws, 1)), np.ones(draws), np.random.default_rng(0))
    return np.bincount(winners, minlength=3) / draws, laws[at]
