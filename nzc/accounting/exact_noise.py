"""Exact noise: every comparison with noise comes out as real numbers decide it, not as float64
rounds it.

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

from nzc.types import AnyArray, Bools, Floats, Ints

_FIRST, _MORE = (
    53,
    1024,
)  # how many bits of a draw the first stage knows, and how many the second adds
_FARTHEST = (
    2**53
)  # beyond it float64 leaves out whole numbers, so that the lowest bits would show what was added last
_AT_ONCE = 2**18  # about how many draws are compared at once

#: Answers of rows of bounds, low and high [rows, numbers], and whether they hold for all numbers
#: within the bounds.
_Verdict = Callable[[AnyArray, AnyArray], tuple[AnyArray, AnyArray]]


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
    """A NumPy generator that also decides comparisons with noise exactly; see the theorem of this
    module.
    """

    def winner(self, noise: ExactNoise, scores: Floats, factor: Floats) -> Ints:
        """Return argmax_j {scores_j + factor·noise_j}, [queries]; scores [queries, classes], factor
        [queries] > 0.
        """
        origin = scores.max(axis=1, keepdims=True)
        return self._decide(noise, scores, origin, factor[:, None], _largest).astype(np.int64)

    def at_least(self, noise: ExactNoise, statistic: Floats, threshold: Floats | float) -> Bools:
        """Return whether statistic + noise ≥ threshold, elementwise."""
        both = np.broadcast_arrays(np.asarray(statistic, dtype=np.float64), np.float64(threshold))
        scores, origin = (array.reshape(-1, 1) for array in both)
        reached = self._decide(noise, scores, origin, np.ones_like(scores), _positive)
        return reached.reshape(np.shape(statistic)).astype(bool)

    def round_up(self, noise: ExactNoise, numbers: Floats | float) -> Floats:
        """Return numbers + noise, rounded up to whole numbers and cut off at ±2^53, which float64
        still knows apart.
        """
        scores = np.asarray(numbers, dtype=np.float64).reshape(-1, 1)
        return self._decide(noise, scores, 0 * scores, np.ones_like(scores), _whole).reshape(
            np.shape(numbers)
        )

    def _decide(
        self, noise: ExactNoise, scores: Floats, origin: Floats, factor: Floats, verdict: _Verdict
    ) -> Floats:
        """Return the verdict on scores − origin + factor·noise, [rows]: scores [rows, numbers],
        others [rows, 1].
        """
        answers = np.zeros(len(scores))
        for rows in np.array_split(np.arange(len(scores)), scores.size // _AT_ONCE + 1):
            known = self.integers(2**_FIRST, size=scores[rows].shape)
            lead, scale = scores[rows] - origin[rows], float(noise.scale) * factor[rows]
            low, high = _bounds(noise.law, lead, scale, known)
            answers[rows], sure = verdict(low, high)
            for at in np.flatnonzero(~sure):
                row = rows[at]
                exact = [
                    Fraction(score) - Fraction(origin[row, 0]) for score in scores[row].tolist()
                ]
                exact_scale = noise.scale * Fraction(factor[row, 0])
                answers[row] = self._refine(
                    noise.law, exact, exact_scale, known[at].tolist(), verdict
                )
        return answers

    def _refine(
        self,
        law: StandardLaw,
        lead: list[Fraction],
        scale: Fraction,
        known: list[int],
        verdict: _Verdict,
    ) -> float:
        """Return the verdict on lead + scale·Z, where the first _FIRST bits of each draw are known."""
        import mpmath

        mp = mpmath.mp.clone()
        mp.prec = 2 * (_FIRST + _MORE)
        known = [(k << _MORE) + int.from_bytes(self.bytes(_MORE // 8)) for k in known]
        ends = [_precise_ends(mp, law, k) for k in known]
        low, high = (
            np.array([[at + scale * z for at, z in zip(lead, side, strict=True)]], dtype=object)
            for side in zip(*ends, strict=True)
        )
        return float(verdict(low, high)[0][0])


def _bounds(law: StandardLaw, lead: Floats, scale: Floats, known: Ints) -> tuple[Floats, Floats]:
    """Return low and high of lead + scale·Z where the first _FIRST bits of the draws are known (3
    of the proof).
    """
    ends = []
    for k, side in ((known, -1.0), (known + 1, 1.0)):
        with np.errstate(divide="ignore"):
            z = law.quantile(np.ldexp(k.astype(np.float64), -_FIRST))
        slack = 2.0**-32 * (np.abs(lead) + scale * (1 + np.abs(z))) + 2.0**-1000
        ends.append(lead + scale * z + side * slack)
    return ends[0], ends[1]


def _precise_ends(
    mp: Any, law: StandardLaw, known: int
) -> tuple[Fraction | float, Fraction | float]:
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
    return ends[0], ends[1]


def _largest(low: AnyArray, high: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Return which number of each row is the largest."""
    best, row = low.argmax(axis=1), np.arange(len(low))
    others = high.copy()
    others[row, best] = -np.inf
    return best, low[row, best] > others.max(axis=1)


def _positive(low: AnyArray, high: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Return whether each number is 0 or more."""
    return high[:, 0] >= 0, (low[:, 0] >= 0) | (high[:, 0] < 0)


def _whole(low: AnyArray, high: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Return each number, rounded up to a whole number and cut off at ±_FARTHEST: no more bits of
    it are shown.
    """
    up, down = (-(-np.clip(side, -_FARTHEST, _FARTHEST) // 1)[:, 0] for side in (high, low))
    return up, up == down


def _precise_normal(mp: Any, u: Any) -> Any:
    """Return Φ⁻¹(u) by Newton's method on g(z) = log Φ(z) − log u, z ≤ 0; for u above 1/2 by
    symmetry.
    """
    # g increases and is concave, with g′ ≥ g′(0) > 0.79 and −1 < g″ < 0 (the Mills ratio). Φ(z) ≤
    # e^(−z²/2)/2, so the first z is below the root. Tangents of a concave function keep it there. A
    # step s from an error e ≤ 1 leaves an error e − s ≤ 0.64 e². So a last step below 2^-b leaves
    # an error below 2^(3−2b).
    tail = min(u, 1 - u)
    z, step = -mp.sqrt(-2 * mp.log(tail)), mp.mpf(1)
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
EXPONENTIAL = StandardLaw(
    lambda u: -np.log(1 - u), lambda mp, u: -mp.log(1 - u)
)  # density e^(−z), z ≥ 0
