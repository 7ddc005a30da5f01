"""A noise of the user's own against its law: does `sample` draw it, does `worst_case` hold?"""

import mpmath
import numpy as np
from numpy.random import Generator
from scipy.special import chdtrc, ndtri_exp

from nzc.accounting.exact import Pairs, largest_divergence
from nzc.accounting.exact_noise import ExactGenerator, ExactNoise
from nzc.accounting.rdp import ORDERS
from nzc.mechanisms.noise.base import DEEPEST, Noise
from nzc.mechanisms.noise.continuous import ContinuousNoise
from nzc.types import Floats, Ints
from nzc.validation import InputError

#: Draws [queries, classes] to judge a sampler by; they show 2 % too little or too much noise.
_DRAWS = (2**15, 16)
#: Labels to judge a noisy argmax by, where `_cells` judges the noise, and where it cannot.
_FEW, _MANY = 2**15, 2**18
_SHARES = (0.5, 0.75, 0.9)  # of these labels that are the class ahead, at three gaps
_FALSE_ALARM = 1e-12  # the probability that a right sampler is refused
#: A bound may be so far below the law, relatively and absolutely: both are rounded.
_ROUNDING, _LEAST = 1e-4, 1e-9


def require_worst_case(noise: Noise, shift: float) -> None:
    """Raise InputError where `worst_case` is below what the law of two classes shows.

    shift  the most by which a moved vote shifts a count
    """
    further = 2.0 ** np.arange(-20, 40)
    if isinstance(noise, ContinuousNoise):
        further = noise.unit * 4.0 ** np.arange(4)  # where the default nodes are precise
    gap = np.array([0.0, shift, *further])
    here = np.stack([gap, np.zeros_like(gap)], axis=1)
    there = here + np.array([-shift, shift])
    # A noise may know classes apart, so that each of the two leads once.
    here = np.concatenate([here, here[:, ::-1]])
    there = np.concatenate([there, there[:, ::-1]])
    # A probability that the law rounds to 0 counts as e^DEEPEST: its ratio is at least as large.
    p, q = np.maximum([noise.log_law(here), noise.log_law(there)], DEEPEST)
    orders = ORDERS[::16]
    laws = Pairs(np.arange(len(p)), p, q, np.ones_like(p))
    divergence = largest_divergence(laws, len(p), orders).max(axis=0)
    # Φ⁻¹ of a probability moves by μ at most (Dong, Roth, Su 2019).
    moved = np.abs(_quantiles(p) - _quantiles(q)).max()
    cost = noise.worst_case(shift)
    names = [f"Rényi cost at order {order:.4g}" for order in orders]
    names += ["`pure`", "`mu`"]
    needed = [*divergence, np.abs(p - q).max(), moved]
    stated = [*cost.rdp(orders), cost.pure, cost.mu]
    for name, least, bound in zip(names, needed, stated, strict=True):
        if not least <= bound * (1 + _ROUNDING) + _LEAST:
            found = f"its {name} is {least:.6g} or more by the law at two counts"
            raise InputError("worst_case", float(bound), f"must hold for any votes; {found}")


def _quantiles(log_p: Floats) -> Floats:
    """Return Φ⁻¹ of Pr[second class] in laws of two classes, precise in both tails."""
    first, second = log_p.T
    return np.where(second < first, ndtri_exp(second), -ndtri_exp(first))


def require_draws(noise: Noise) -> None:
    """Raise InputError where a generator does not draw what the law says, or ignores its seed."""
    _require_rng(noise)
    if noise.exact is not None:
        _require_quantiles(noise, noise.exact)
    scores = _scores(noise)
    law = np.exp(noise.log_law(scores))
    backwards = np.exp(noise.log_law(scores[::-1]))
    if not np.allclose(law, backwards[::-1], rtol=0, atol=1e-9):
        allowed = "must have a law of each row of scores alone, wherever it stands"
        raise InputError("noise", noise, allowed)
    for rng in (np.random.default_rng(0), ExactGenerator(np.random.PCG64(0))):
        if isinstance(noise, ContinuousNoise):
            _require_law(noise, *_cells(noise, rng))
        _require_law(noise, _winners(noise, rng, scores), law)


def _require_rng(noise: Noise) -> None:
    """Raise InputError where `sample` does not draw from its generator, and only from that."""
    first, again, other = (noise.sample((64, 16), np.random.default_rng(n)) for n in (0, 0, 1))
    good = np.shape(first) == (64, 16) and np.isfinite(first).all()
    if not good or (first != again).any() or (np.ptp(first) > 0 and (first == other).all()):
        allowed = "must draw finite noise of the shape that `sample` gets, from its `rng` alone"
        raise InputError("noise", noise, allowed)


def _require_quantiles(noise: Noise, exact: ExactNoise) -> None:
    """Raise InputError where quantiles of `exact` are not those of the law, or of mpmath."""
    if isinstance(noise, ContinuousNoise):
        shares = np.arange(1, 4096) / 4096
        quantiles = exact.law.quantile(shares) * (float(exact.scale) / noise.unit)
        if not (np.abs(np.exp(noise.log_cdf(quantiles)) - shares) < 1e-9).all():
            allowed = "must have quantiles in `exact` of the law that `log_cdf` says"
            raise InputError("noise", noise, allowed)
    context = mpmath.mp.clone()
    context.prec = 200
    for share in (2.0**-20, 0.25, 0.75, 1 - 2.0**-20):
        near = exact.law.quantile(np.array([share]))[0]
        precise = float(exact.law.precise(context, context.mpf(share)))
        if not abs(near - precise) <= 2.0**-33 * (1 + abs(near)):
            allowed = "must have the same quantiles by mpmath as in float64, in `exact`"
            raise InputError("noise", noise, allowed)


def _require_law(noise: Noise, counts: Ints, law: Floats) -> None:
    """Raise InputError where counts of draws contradict the law, both [samples, outcomes] (χ²)."""
    draws = counts.sum(axis=1, keepdims=True)
    expected = draws * law
    # An outcome that hardly ever occurs says little: it counts as if it were expected ten times.
    statistic = ((counts - expected) ** 2 / np.maximum(expected, 10)).sum()
    if not chdtrc(law.size - len(law), statistic) >= _FALSE_ALARM:
        drawn = counts / draws
        worst = np.nan_to_num(np.abs(drawn - law), nan=1.0).argmax()
        found = f"{100 * drawn.flat[worst]:.3g} % of draws, by law {100 * law.flat[worst]:.3g} %"
        allowed = f"must draw with `sample`, in votes, what its law says: {found}"
        raise InputError("noise", noise, allowed)


def _cells(noise: ContinuousNoise, rng: Generator) -> tuple[Ints, Floats]:
    """Return how many draws fall into 18 cells, and what `log_cdf` says of each, [1, cells]."""
    # The cells lie between quantiles of other draws.
    drawn = np.sort(noise.sample((64, 16), rng), axis=None)
    edges = np.unique(drawn[[7, *range(63, 1000, 64), -8]])
    drawn = noise.sample(_DRAWS, rng)
    below = [np.count_nonzero(drawn <= edge) for edge in edges]
    with np.errstate(divide="ignore"):
        cdf = np.exp(noise.log_cdf(edges / noise.unit))
    counts = np.diff(below, prepend=0, append=drawn.size)
    return counts[None], np.diff(cdf, prepend=0, append=1)[None]


def _scores(noise: Noise) -> Floats:
    """Return scores of three classes, [scores, 3]: a tie, and each class in turn ahead."""
    further = 2.0 ** np.arange(-100, 101)
    if isinstance(noise, ContinuousNoise):
        further = noise.unit * 2.0 ** np.arange(-6, 9)
    gaps = np.array([0.0, *further])
    scores = np.stack([np.zeros_like(gaps), -gaps, -gaps], axis=1)
    first = np.exp(noise.log_law(scores))[:, 0]
    rows = [scores[0]]
    for ahead, share in enumerate(_SHARES):
        rows.append(np.roll(scores[np.abs(first - share).argmin()], ahead))
    return np.stack(rows)


def _winners(noise: Noise, rng: Generator, scores: Floats) -> Ints:
    """Return how often each class wins, [scores, classes]."""
    labels = _MANY
    if isinstance(noise, ContinuousNoise) and noise.exact is None:  # `_cells` judges it
        labels = _FEW
    offset = 8 * np.abs(scores).max()  # the law is of gaps alone
    counts = []
    for number, row in enumerate(scores):
        size = 1.0 + number % 2  # a boost may enlarge scores and noise
        asked = np.tile(size * (row + offset), (labels, 1))
        winners = noise.winner(asked, np.full(labels, size), rng)
        counts.append(np.bincount(winners, minlength=len(row)))
    return np.array(counts)
