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


def require_consistent(noise: Noise, shift: float) -> None:
    """Raise InputError where `worst_case`, `sample` or `exact` contradict the law of the noise.

    shift  the most by which a moved vote shifts a count; inf: no bound is used, so none is checked
    """
    if np.isfinite(shift):
        _require_worst_case(noise, shift)
    if isinstance(noise, ContinuousNoise):
        _require_draws(noise)
    else:
        _require_winners(noise)


def _require_worst_case(noise: Noise, shift: float) -> None:
    """Compare `worst_case` with the law of two classes before and after a moved vote: at a tie and at larger gaps."""
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


def _require_draws(noise: ContinuousNoise) -> None:
    """Compare the draws with `log_cdf` in 18 cells, between quantiles of draws of their own; and `exact` with it."""
    rng = np.random.default_rng(0)
    edges = np.unique(np.sort(noise.sample((64, 16), rng), axis=None)[[7, *range(63, 1000, 64), -8]])
    drawn = noise.sample(_DRAWS, rng)
    below = np.array([np.count_nonzero(drawn <= edge) for edge in edges]) / drawn.size
    with np.errstate(divide="ignore"):
        expected = np.exp(noise.log_cdf(edges / noise.unit))
    worst = int(np.nan_to_num(np.abs(below - expected), nan=1.0).argmax())
    share, law = np.diff(below, prepend=0, append=1), np.diff(expected, prepend=0, append=1)
    of = f"`log_cdf` says: shares below {edges[worst]:.4g} votes"
    _require_plausible(noise, share, law, of, below[worst], expected[worst])
    if noise.exact is not None:
        at = np.arange(1, 4096) / 4096
        quantiles = noise.exact.law.quantile(at) * float(noise.exact.scale / Fraction(float(noise.unit)))
        if not (off := np.abs(np.exp(noise.log_cdf(quantiles)) - at).max()) < 1e-9:
            allowed = f"must have quantiles in `exact` of the law that `log_cdf` says; they differ by {off:.2g}"
            raise InputError("noise", noise, allowed)


def _require_winners(noise: Noise) -> None:
    """Compare the winners of three classes with `log_law`, where the first wins in about 75 %."""
    gaps = 2.0 ** np.arange(-30, 60)
    scores = np.stack([gaps, 0 * gaps, 0 * gaps], axis=1)
    laws = np.exp(noise.log_law(scores))
    at, draws = int(np.abs(laws[:, 0] - 0.75).argmin()), int(np.prod(_DRAWS))
    winners = noise.winner(np.tile(scores[at], (draws, 1)), np.ones(draws), np.random.default_rng(0))
    share, law = np.bincount(winners, minlength=3) / draws, laws[at]
    _require_plausible(noise, share, law, f"`log_law` says: wins {gaps[at]:g} votes ahead", share[0], law[0])


def _require_plausible(noise: Noise, share: Floats, law: Floats, of: str, drawn: float, expected: float) -> None:
    """Require that shares of independent draws [cells] may come from a law [cells] (χ² test)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.where(share == law, 0.0, np.prod(_DRAWS) * (share - law) ** 2 / law).sum()
    if not chdtrc(len(law) - 1, statistic) >= _FALSE_ALARM:
        allowed = f"must draw with `sample`, in votes, what {of} are {100 * drawn:.3g} %, by law {100 * expected:.3g} %"
        raise InputError("noise", noise, allowed)
