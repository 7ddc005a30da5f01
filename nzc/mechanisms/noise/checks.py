"""A noise of the user's own against its own law: does `sample` draw it, and does `worst_case` hold
for it?
"""

from fractions import Fraction

import mpmath
import numpy as np
from scipy.special import chdtrc, ndtri_exp

from nzc.accounting.exact import Pairs, largest_divergence
from nzc.accounting.exact_noise import ExactGenerator, ExactNoise
from nzc.accounting.rdp import ORDERS
from nzc.mechanisms.noise.base import DEEPEST, Noise
from nzc.mechanisms.noise.continuous import ContinuousNoise
from nzc.types import Floats, Ints
from nzc.validation import InputError, is_shipped

_DRAWS = (
    2**15,
    16,
)  # draws [queries, classes] to judge a sampler by; they show 2 % too little or too much noise
_FEW, _MANY = (
    2**15,
    2**18,
)  # labels to judge a noisy argmax by, where `_below` judges the noise, and where it cannot
_SHARES = (0.5, 0.75, 0.9)  # of these labels that are the class ahead, at three gaps
_FALSE_ALARM = 1e-12  # the probability that a right sampler is refused
_ROUNDING, _LEAST = (
    1e-4,
    1e-9,
)  # a bound may be so far below the law, relatively and absolutely: both are rounded


def require_worst_case(noise: Noise, shift: float) -> None:
    """Raise InputError where `worst_case` is below what the law of two classes shows: at a tie and
    at larger gaps.

    shift  the most by which a moved vote shifts a count
    """
    further = (
        noise.unit * 4.0 ** np.arange(4)
        if isinstance(noise, ContinuousNoise)
        else 2.0 ** np.arange(-20, 40)
    )
    gap = np.array([0.0, shift, *further])
    here = np.stack([gap, np.zeros_like(gap)], axis=1)
    there = here + np.array([-shift, shift])
    # A noise may know classes apart, so that each of the two leads once.
    here = np.concatenate([here, here[:, ::-1]])
    there = np.concatenate([there, there[:, ::-1]])
    # A probability that the law rounds to 0 counts as e^DEEPEST: its ratio is at least as large.
    p, q = np.maximum([noise.log_law(here), noise.log_law(there)], DEEPEST)
    # Two classes show all of μ by Φ⁻¹(p) − Φ⁻¹(q) ≤ μ (Dong, Roth, Su 2019).
    z_p, z_q = (
        np.where(law[:, 1] < law[:, 0], ndtri_exp(law[:, 1]), -ndtri_exp(law[:, 0]))
        for law in (p, q)
    )
    orders = ORDERS[::16]
    divergence = largest_divergence(Pairs(np.arange(len(p)), p, q, np.ones_like(p)), len(p), orders)
    cost = noise.worst_case(shift)
    named = [f"Rényi cost at order {order:.4g}" for order in orders]
    bounds = list(zip(named, divergence.T, cost.rdp(orders), strict=True))
    bounds += [
        ("`pure`", np.abs(p - q).max(axis=1), cost.pure),
        ("`mu`", np.abs(z_p - z_q), cost.mu),
    ]
    for name, needed, bound in bounds:
        if not needed.max() <= bound * (1 + _ROUNDING) + _LEAST:
            allowed = f"must hold for any votes; its {name} is {needed.max():.6g} or more by the law at two counts"
            raise InputError("worst_case", float(bound), allowed)


def require_draws(noise: Noise) -> None:
    """Raise InputError where either generator draws another noise than the law's (χ² tests), or a
    seed decides nothing.

    `exact` is compared with `log_cdf` as well, and its further bits with its first ones.
    """
    _require_rng(noise)
    if noise.exact is not None:
        _require_exact(noise, noise.exact)
    scores, laws = _gaps_and_laws(noise)
    for rng in (np.random.default_rng(0), ExactGenerator(np.random.PCG64(0))):
        if isinstance(noise, ContinuousNoise):
            _require_law(noise, *_below(noise, rng))
        _require_law(noise, _winners(noise, rng, scores), laws)


def _require_rng(noise: Noise) -> None:
    """Raise InputError where `sample` does not take all its randomness from the generator that it
    is given.
    """
    shape = (64, 16)
    first, again, other = (noise.sample(shape, np.random.default_rng(seed)) for seed in (0, 0, 1))
    if np.shape(first) != shape or not np.isfinite(first).all():
        raise InputError(
            "noise", noise, "must draw finite noise of the shape that `sample` is asked for"
        )
    varies = np.ptp(first) > 0
    if not np.array_equal(first, again) or (varies and np.array_equal(first, other)):
        raise InputError(
            "noise", noise, "must draw in `sample` from the generator `rng`, and from nothing else"
        )


def _require_exact(noise: Noise, exact: ExactNoise) -> None:
    """Raise InputError where `exact` is of another class's noise, or its quantiles are not those of
    the law.
    """
    kinds = type(noise).__mro__
    defining = next(kind for kind in kinds if "exact" in vars(kind))
    newer = [kind for kind in kinds[: kinds.index(defining)] if not is_shipped(kind)]
    for name in ("sample", "unit", "log_law", "log_density", "log_cdf"):
        if any(name in vars(kind) for kind in newer):
            allowed = f"must define `exact` again, or return None in it: `{name}` is not that of {defining.__name__}"
            raise InputError("noise", noise, allowed)
    if isinstance(noise, ContinuousNoise):
        at = np.arange(1, 4096) / 4096
        quantiles = exact.law.quantile(at) * float(exact.scale / Fraction(float(noise.unit)))
        if not (off := np.abs(np.exp(noise.log_cdf(quantiles)) - at).max()) < 1e-9:
            allowed = f"must have quantiles in `exact` of the law that `log_cdf` says; they differ by {off:.2g}"
            raise InputError("noise", noise, allowed)
    precise_context = mpmath.mp.clone()
    precise_context.prec = 200
    shares = np.array([2.0**-20, 0.25, 0.75, 1 - 2.0**-20])
    precise = np.array(
        [float(exact.law.precise(precise_context, precise_context.mpf(share))) for share in shares]
    )
    near = exact.law.quantile(shares)
    if not (np.abs(near - precise) <= 2.0**-33 * (1 + np.abs(near))).all():
        raise InputError(
            "noise", noise, "must have the same quantiles by mpmath as in float64, in `exact`"
        )


def _require_law(noise: Noise, counts: Ints, law: Floats) -> None:
    """Raise InputError where draws are not by the law: counts and probabilities, both [samples,
    outcomes].
    """
    expected = counts.sum(axis=1, keepdims=True) * law
    # An outcome that hardly ever occurs says little: its square counts as if it were expected ten
    # times.
    statistic = ((counts - expected) ** 2 / np.maximum(expected, 10)).sum()
    if chdtrc(law.size - len(law), statistic) >= _FALSE_ALARM:
        return
    shares = counts / counts.sum(axis=1, keepdims=True)
    apart = np.nan_to_num(np.abs(np.cumsum(shares - law, axis=1)), nan=1.0)
    row, last = np.unravel_index(apart.argmax(), apart.shape)
    found = 100 * shares[row, : last + 1].sum()
    said = 100 * law[row, : last + 1].sum()
    allowed = f"must draw with `sample`, in votes, what its law says: {found:.3g} % of draws, by law {said:.3g} %"
    raise InputError("noise", noise, allowed)


def _below(noise: ContinuousNoise, rng: np.random.Generator) -> tuple[Ints, Floats]:
    """Return counts of draws in 18 cells, between quantiles of other draws, and what `log_cdf` says
    of each.
    """
    edges = np.unique(
        np.sort(noise.sample((64, 16), rng), axis=None)[[7, *range(63, 1000, 64), -8]]
    )
    drawn = noise.sample(_DRAWS, rng)
    below = np.array([np.count_nonzero(drawn <= edge) for edge in edges])
    with np.errstate(divide="ignore"):
        expected = np.exp(noise.log_cdf(edges / noise.unit))
    return np.diff(below, prepend=0, append=drawn.size)[None], np.diff(
        expected, prepend=0, append=1
    )[None]


def _gaps_and_laws(noise: Noise) -> tuple[Floats, Floats]:
    """Return scores of three classes, a tie and each class in turn ahead, and `log_law` of them as
    probabilities.
    """
    steps = (
        noise.unit * 2.0 ** np.arange(-6, 9)
        if isinstance(noise, ContinuousNoise)
        else 2.0 ** np.arange(-100, 101)
    )
    gaps = np.array([0.0, *steps])
    scores = np.stack([np.zeros_like(gaps), -gaps, -gaps], axis=1)
    first = np.exp(noise.log_law(scores))[:, 0]
    chosen = [np.abs(first - share).argmin() for share in _SHARES]
    scores = np.stack(
        [scores[0], *(np.roll(scores[gap], ahead) for ahead, gap in enumerate(chosen))]
    )
    laws = np.exp(noise.log_law(scores))
    if not np.allclose(laws, np.exp(noise.log_law(scores[::-1]))[::-1], rtol=0, atol=1e-9):
        raise InputError(
            "noise", noise, "must have a law of each row of scores alone, wherever it stands"
        )
    return scores, laws


def _winners(noise: Noise, rng: np.random.Generator, scores: Floats) -> Ints:
    """Return how often each class wins, [scores, classes]."""
    labels = _FEW if isinstance(noise, ContinuousNoise) else _MANY
    offset = 8 * np.abs(scores).max()  # the law is of gaps alone
    counts = []
    for at, row in enumerate(scores):
        size = 1.0 + at % 2  # a boost may enlarge scores and noise
        winners = noise.winner(
            np.tile(size * (row + offset), (labels, 1)), np.full(labels, size), rng
        )
        counts.append(np.bincount(winners, minlength=len(row)))
    return np.array(counts)
