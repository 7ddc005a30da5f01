"""A noise of the user's own against its law: does `sample` draw it, does `worst_case` hold?"""

import numpy as np
from numpy.random import Generator
from scipy.special import chdtrc, ndtri_exp

from nzc.accounting.exact import Pairs, largest_divergence
from nzc.accounting.exact_noise import ExactGenerator
from nzc.accounting.rdp import ORDERS
from nzc.mechanisms.noise.base import DEEPEST, Noise
from nzc.mechanisms.noise.continuous import ContinuousNoise
from nzc.types import Floats, Ints
from nzc.validation import InputError

_LABELS = 2**18  # to judge a noisy argmax by: they show 5 % too little or too much noise
_SHARES = (0.5, 0.75, 0.9)  # of these labels that are the class ahead, at three gaps
_FALSE_ALARM = 1e-12  # the probability that a right sampler is refused
#: A bound may be so far below the law, relatively and absolutely: both are rounded.
_ROUNDING = 1e-4
_LEAST = 1e-9


def require_worst_case(noise: Noise, shift: float) -> None:
    """Raise InputError where `worst_case` is below what the law of two classes shows.

    shift  the most by which a moved vote shifts a count
    """
    further = 2.0 ** np.arange(-20, 40)
    if isinstance(noise, ContinuousNoise):
        further = noise.unit * 4.0 ** np.arange(4)  # where the default nodes are precise
    gap = np.array([0.0, shift, *further])
    here = np.stack([gap, np.zeros_like(gap)], axis=1)
    # A probability that the law rounds to 0 counts as e^DEEPEST: its ratio is at least as large.
    p = np.maximum(noise.log_law(here), DEEPEST)
    q = np.maximum(noise.log_law(here + np.array([-shift, shift])), DEEPEST)
    orders = ORDERS[::16]
    laws = Pairs(np.arange(len(p)), p, q, np.ones_like(p))
    divergence = largest_divergence(laws, len(p), orders).max(axis=0)
    # Φ⁻¹ of a probability moves by μ at most (Dong, Roth, Su 2019).
    moved = np.abs(_quantiles(p) - _quantiles(q)).max()
    cost = noise.worst_case(shift)
    needed = [*divergence, np.abs(p - q).max(), moved]
    stated = [*cost.rdp(orders), cost.pure, cost.mu]
    for least, bound in zip(needed, stated, strict=True):
        if not least <= bound * (1 + _ROUNDING) + _LEAST:
            found = f"by the law at two counts it is {least:.6g} or more"
            raise InputError("worst_case", float(bound), f"must hold for any votes; {found}")


def _quantiles(log_p: Floats) -> Floats:
    """Return Φ⁻¹ of Pr[second class] in laws of two classes, precise in both tails."""
    first, second = log_p.T
    return np.where(second < first, ndtri_exp(second), -ndtri_exp(first))


def require_draws(noise: Noise) -> None:
    """Raise InputError where labels contradict the law (χ²), or `sample` ignores its generator.

    They are drawn as with a seed, and as with `rng=system`.
    """
    first, again, other = (noise.sample((64, 16), np.random.default_rng(n)) for n in (0, 0, 1))
    if np.shape(first) != (64, 16) or (first != again).any() or (first == other).all():
        allowed = "must draw noise of the shape that `sample` gets, from its `rng` alone"
        raise InputError("noise", noise, allowed)
    scores = _scores(noise)
    law = np.exp(noise.log_law(scores))
    for rng in (np.random.default_rng(0), ExactGenerator(np.random.PCG64(0))):
        won = _winners(noise, rng, scores)
        expected = _LABELS * law
        # An outcome that hardly ever occurs says little: it counts as if it were expected ten
        # times.
        statistic = ((won - expected) ** 2 / np.maximum(expected, 10)).sum()
        if not chdtrc(law.size - len(law), statistic) >= _FALSE_ALARM:
            worst = np.abs(won - expected).argmax()
            shares = f"{100 * won.flat[worst] / _LABELS:.3g} %, by law {100 * law.flat[worst]:.3g}"
            allowed = f"must draw with `sample`, in votes, what its law says: {shares} % of labels"
            raise InputError("noise", noise, allowed)


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
    offset = 8 * np.abs(scores).max()  # the law is of gaps alone
    counts = []
    for number, row in enumerate(scores):
        size = 1.0 + number % 2  # a boost may enlarge scores and noise
        asked = np.tile(size * (row + offset), (_LABELS, 1))
        winners = noise.winner(asked, np.full(_LABELS, size), rng)
        counts.append(np.bincount(winners, minlength=len(row)))
    return np.array(counts)
