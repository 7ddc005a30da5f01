"""Exact noise: comparisons with noise come out as real numbers decide, not as float64 rounds them.

A release shows comparisons only: which score is largest, whether a statistic reaches a threshold,
between which two grid points a number lies. `ExactGenerator` draws each of them from the law of
real-valued noise s·Z, where Z has a standard law with distribution function F and s is a rational
number. Theorem and proof: docs/proofs.md, "Exact comparisons".
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.special import ndtri

from nzc.types import AnyArray, Bools, Floats, FloatsPair, Ints, OneOrMore

_FIRST = 53  # how many bits of a draw the first stage knows
_MORE = 1024  # and how many the second adds
#: Beyond it float64 leaves out whole numbers: the lowest bits would show what was added last.
_FARTHEST = 2**53
_AT_ONCE = 2**18  # about how many draws are compared at once

#: Answers, and whether they hold for all numbers within some bounds.
_Answers = tuple[AnyArray, AnyArray]
#: Answers of rows of bounds, low and high [rows, numbers], and whether they hold for all numbers
#: within the bounds.
_Verdict = Callable[[AnyArray, AnyArray], _Answers]
_fractions = np.frompyfunc(Fraction, 1, 1)


@dataclass(frozen=True)
class StandardLaw:
    """A law with a density of at most 1, by its quantile function F⁻¹.

    quantile  z = F⁻¹(u) of a float64 array of multiples of 2^-53 from 0 to 1, with an error of
              2^-33 (1 + |z|) at most
    precise   `precise(mp, u)` is z = F⁻¹(u) by the mpmath context `mp`. u is a multiple of 2^-b
              within (0, 1), mp.prec is 2b, and the error must be at most 2^-b (1 + |z|)
    """

    quantile: Callable[[Floats], Floats]
    precise: Callable[[Any, Any], Any]


@dataclass(frozen=True)
class ExactNoise:
    """Noise scale·Z, where Z has a standard law."""

    law: StandardLaw
    scale: Fraction


class ExactGenerator(np.random.Generator):
    """A NumPy generator that also decides comparisons with noise exactly."""

    def winner(self, noise: ExactNoise, scores: Floats, factor: Floats) -> Ints:
        """Return argmax_j {scores_j + factor·noise_j}, [queries].

        The scores are [queries, classes], the factors [queries] and above 0.
        """
        origin = scores.max(axis=1, keepdims=True)
        return self._decide(noise, scores, _largest, origin, factor[:, None]).astype(np.int64)

    def at_least(self, noise: ExactNoise, statistic: Floats, threshold: OneOrMore) -> Bools:
        """Return whether statistic + noise ≥ threshold, elementwise."""
        origin = np.asarray(threshold, dtype=np.float64)[..., None]
        return self._decide(noise, statistic[..., None], _positive, origin).astype(bool)

    def round_up(self, noise: ExactNoise, numbers: OneOrMore) -> Floats:
        """Return numbers + noise, rounded up to whole numbers.

        They are cut off at ±2^53, which float64 still knows apart.
        """
        return self._decide(noise, np.asarray(numbers, dtype=np.float64)[..., None], _whole)

    def _decide(
        self,
        noise: ExactNoise,
        scores: Floats,
        verdict: _Verdict,
        origin: OneOrMore = 0.0,
        factor: OneOrMore = 1.0,
    ) -> Floats:
        """Return the verdicts on scores − origin + factor·noise, [...]; scores [..., numbers]."""
        shape = scores.shape[:-1]
        arrays = np.broadcast_arrays(scores, origin, factor)
        scores, origin, factor = (array.reshape(-1, scores.shape[-1]) for array in arrays)
        answers = np.zeros(len(scores))
        for rows in np.array_split(np.arange(len(scores)), scores.size // _AT_ONCE + 1):
            known = self.integers(2**_FIRST, size=scores[rows].shape)
            lead = scores[rows] - origin[rows]
            low, high = _bounds(noise.law, lead, float(noise.scale) * factor[rows], known)
            answers[rows], sure = verdict(low, high)
            for row, first_bits in zip(rows[~sure], known[~sure], strict=True):
                lead = _fractions(scores[row]) - _fractions(origin[row])
                scale = noise.scale * _fractions(factor[row])
                low, high = lead + scale * self._refined(noise.law, first_bits.tolist())
                answers[row] = verdict(low[None], high[None])[0][0]
        return answers.reshape(shape)

    def _refined(self, law: StandardLaw, first_bits: list[int]) -> AnyArray:
        """Return low and high of Z [2, numbers] where the first _FIRST bits of draws are known."""
        import mpmath

        mp = mpmath.mp.clone()
        mp.prec = 2 * (_FIRST + _MORE)
        ends = []
        for k in first_bits:
            draw = (k << _MORE) + int.from_bytes(self.bytes(_MORE // 8))
            ends.append(_precise_ends(mp, law, draw))
        return np.array(ends, dtype=object).T


def _bounds(law: StandardLaw, lead: Floats, scale: Floats, known: Ints) -> FloatsPair:
    """Return low and high of lead + scale·Z where the first _FIRST bits of the draws are known.

    The widths are those of 3 of the proof.
    """

    def end(k: Ints, side: float) -> Floats:
        with np.errstate(divide="ignore"):
            z = law.quantile(np.ldexp(k.astype(np.float64), -_FIRST))
        slack = 2.0**-32 * (np.abs(lead) + scale * (1 + np.abs(z))) + 2.0**-1000
        return lead + scale * z + side * slack

    return end(known, -1.0), end(known + 1, 1.0)


def _precise_ends(mp: Any, law: StandardLaw, known: int) -> list[Fraction | float]:
    """Return low and high of Z where all bits of the draw are known (4 of the proof)."""
    ends: list[Fraction | float] = []
    bits = _FIRST + _MORE
    for k, side in ((known, -1), (known + 1, 1)):
        if k in (0, 1 << bits):
            ends.append(side * np.inf)
            continue
        z = law.precise(mp, mp.ldexp(mp.mpf(k), -bits))
        rounded = Fraction(int(mp.floor(mp.ldexp(z, bits))), 1 << bits)
        ends.append(rounded + side * (2 + abs(rounded)) / (1 << bits))
    return ends


def _largest(low: AnyArray, high: AnyArray) -> _Answers:
    """Return which number of each row is the largest."""
    best = low.argmax(axis=1)
    rows = np.arange(len(low))
    others = high.copy()
    others[rows, best] = -np.inf
    return best, low[rows, best] > others.max(axis=1)


def _positive(low: AnyArray, high: AnyArray) -> _Answers:
    """Return whether each number is 0 or more."""
    reached = high[:, 0] >= 0
    return reached, reached == (low[:, 0] >= 0)


def _whole(low: AnyArray, high: AnyArray) -> _Answers:
    """Return each number, rounded up to a whole number and cut off at ±_FARTHEST.

    No more bits of it are shown.
    """
    up = -(-np.clip(high, -_FARTHEST, _FARTHEST) // 1)[:, 0]
    down = -(-np.clip(low, -_FARTHEST, _FARTHEST) // 1)[:, 0]
    return up, up == down


def _precise_normal(mp: Any, u: Any) -> Any:
    """Return Φ⁻¹(u) by Newton's method on g(z) = log Φ(z) − log u, z ≤ 0; above 1/2 by symmetry.

    g increases and is concave, with g′ ≥ g′(0) > 0.79 and −1 < g″ < 0 (the Mills ratio).
    Φ(z) ≤ e^(−z²/2)/2, so the first z is below the root. Tangents of a concave function keep it
    there. A step s from an error e ≤ 1 leaves an error e − s ≤ 0.64 e². So a last step below 2^-b
    leaves an error below 2^(3−2b).
    """
    tail = min(u, 1 - u)
    z = -mp.sqrt(-2 * mp.log(tail))
    step = mp.mpf(1)
    while step > mp.ldexp(1, -mp.prec // 2):
        below = mp.erfc(-z / mp.sqrt(2)) / 2
        step = mp.log(tail / below) * below * mp.sqrt(2 * mp.pi) * mp.exp(z * z / 2)
        z += step
    return z if u < 0.5 else -z


NORMAL = StandardLaw(ndtri, _precise_normal)  # N(0, 1), by scipy's rational approximation
#: Density e^(−|z|)/2.
LAPLACE = StandardLaw(
    lambda u: np.where(u < 0.5, np.log(2 * u), -np.log(2 * (1 - u))),
    lambda mp, u: mp.log(2 * u) if u < 0.5 else -mp.log(2 * (1 - u)),
)
#: Distribution function e^(−e^(−z)).
GUMBEL = StandardLaw(lambda u: -np.log(-np.log(u)), lambda mp, u: -mp.log(-mp.log(u)))
#: Density e^(−z), z ≥ 0.
EXPONENTIAL = StandardLaw(lambda u: -np.log(1 - u), lambda mp, u: -mp.log(1 - u))
