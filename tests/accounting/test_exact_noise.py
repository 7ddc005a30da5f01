"""Exact noise against mpmath, and against the rational arithmetic that it promises."""

from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import presets
from conftest import parametrize
from numpy.random import default_rng
from pytest import approx
from scipy import stats

import nzc
from nzc.accounting.exact_noise import (
    EXPONENTIAL,
    GUMBEL,
    LAPLACE,
    NORMAL,
    ExactGenerator,
    ExactNoise,
    _bounds,
)
from nzc.accounting.sanitised import SanitisedPlan, draw
from nzc.mechanisms import GaussianNoise, LaplaceNoise, Noise, NoisyCounts

mp = mpmath.mp.clone()
mp.prec = 1200
#: The laws, and their distribution functions by mpmath. The last is below 0 at z < 0, so that
#: bounds there count as below.
CDF = {
    "normal": (NORMAL, lambda z: mp.ncdf(z)),
    "laplace": (LAPLACE, lambda z: mp.exp(z) / 2 if z < 0 else 1 - mp.exp(-z) / 2),
    "gumbel": (GUMBEL, lambda z: mp.exp(-mp.exp(-z))),
    "exponential": (EXPONENTIAL, lambda z: 1 - mp.exp(-z)),
}
LAWS = parametrize("name", CDF)


class Scripted(ExactGenerator):
    """A generator whose bits are known: 53 of each number first, then 1,024 of each."""

    def __new__(cls, *_: object) -> "Scripted":
        return super().__new__(cls)

    def __init__(self, first: list[int], later: list[int]) -> None:
        super().__init__(np.random.PCG64(0))
        self.first = first
        self.later = iter(later)

    def integers(self, *_: object, **__: object) -> np.ndarray:  # type: ignore[override]
        return np.array([self.first])

    def bytes(self, length: int) -> bytes:
        return next(self.later).to_bytes(length)

    def wins(self, noise: ExactNoise, lead: float) -> bool:
        """Return whether the first of two numbers is the larger one, with all bits used."""
        answer = self.winner(noise, np.array([[lead, 0.0]]), np.ones(1))[0]
        assert not list(self.later)
        return bool(answer == 0)


class Silent(ExactGenerator):
    """A generator without NumPy's samplers of noise."""

    def _refuse(self, *_: object, **__: object) -> None:
        raise AssertionError("a float64 sampler was used")

    normal = standard_normal = laplace = gumbel = standard_t = exponential = (
        standard_exponential
    ) = random = _refuse  # type: ignore


def silent() -> Silent:
    return Silent(np.random.PCG64(1))


def some_cells(bits: int, many: int) -> list[int]:
    """Cells of U: random, next to 0, 1 and 1/2, and at every power of two from either end."""
    rng = default_rng(bits)
    top = 2**bits - 1
    cells = [int.from_bytes(rng.bytes(bits // 8 + 1)) % top for _ in range(many)]
    cells += [int(Fraction(u) * 2**bits) for u in (np.exp(-2), 1 - np.exp(-2), np.exp(-1), 0.25)]
    for power in range(1, bits, max(1, bits // 53)):
        for end in (2**power - 1, 2**power, 2**power + 1):
            cells += [end, top - end]
    return sorted(k for k in set(cells) if 0 < k < top)


@LAWS
def test_quantiles_in_float64_are_far_better_than_is_allowed_for(name: str) -> None:
    law, cdf = CDF[name]
    cells = some_cells(53, 20)[::2]
    for k, z in zip(cells, law.quantile(np.array(cells) * 2.0**-53), strict=True):
        allowed = 2.0**-33 * (1 + abs(z)) / 10_000
        assert cdf(mp.mpf(z) - allowed) < mp.ldexp(k, -53) < cdf(mp.mpf(z) + allowed), k


@LAWS
def test_quantiles_of_the_second_stage_are_within_their_error(name: str) -> None:
    law, cdf = CDF[name]
    bits = 1077
    context = mpmath.mp.clone()
    context.prec = 2 * bits
    for k in some_cells(bits, 5)[:: bits // 6]:
        with mp.workprec(3 * bits):
            u = mp.ldexp(mp.mpf(k), -bits)
            z = mp.mpf(law.precise(context, u))
            allowed = mp.ldexp(1 + abs(z), -bits)
            assert cdf(z - allowed) < u < cdf(z + allowed), k


@LAWS
@parametrize("lead", [0.0, -1e100, 3e-5])
@parametrize("scale", [40.0, 1e-100, 1e200])
def test_bounds_contain_all_numbers_of_the_cell(name: str, lead: float, scale: float) -> None:
    law, cdf = CDF[name]
    last = 2**53 - 1
    cells = np.array([0, last, *some_cells(53, 20)[::11]])
    low, high = _bounds(law, np.full(len(cells), lead), np.full(len(cells), scale), cells)

    def probability(bound: float) -> mpmath.mpf:
        z = (mp.mpf(bound) - mp.mpf(lead)) / mp.mpf(scale)
        return cdf(min(max(z, -100), 100))  # beyond ±100 no law has an inner cell

    for k, below, above in zip(cells.tolist(), low.tolist(), high.tolist(), strict=True):
        assert (k == 0 and below == -np.inf) or probability(below) < mp.ldexp(k, -53)
        assert (k == last and above == np.inf) or probability(above) > mp.ldexp(k + 1, -53)


def test_a_label_rarer_than_the_steps_of_float64_occurs() -> None:
    """NumPy's Laplace noise ends at ±37 scales, and a class 80 behind would have no chance.

    Its law says e^-78.
    """
    noise = ExactNoise(LAPLACE, Fraction(1))
    unit = 2**896
    first = [0, 2**53 - 1]
    assert not Scripted(first, [2 * unit, 2**1024 - 2 * unit]).wins(noise, 80.0)
    assert Scripted(first, [2**125 * unit, 2**127 * unit]).wins(noise, 80.0)


@LAWS
def test_equal_bits_to_the_end_are_decided_by_the_lowest_class(name: str) -> None:
    assert Scripted([2**53 // 3] * 2, [11] * 2).wins(ExactNoise(CDF[name][0], Fraction(7)), 0.0)


@LAWS
@parametrize("scale", [Fraction(40), 1 / Fraction(1e-10), Fraction(1e-3)], ids=float)
def test_near_ties_are_decided_as_exact_arithmetic_does(name: str, scale: Fraction) -> None:
    """The first score makes up for its noise to the last bit of float64."""
    law = CDF[name][0]
    rng = default_rng(3)
    context = mpmath.mp.clone()
    context.prec = 2200
    for _ in range(2):
        first = rng.integers(1, 2**53 - 1, size=2).tolist()
        later = [int.from_bytes(rng.bytes(128)) for _ in range(2)]
        own, other = law.quantile(np.array(first) * 2.0**-53)
        score = float(scale) * (other - own)
        draws = [(k << 1024) + rest for k, rest in zip(first, later, strict=True)]
        own, other = (law.precise(context, context.ldexp(k, -1077)) for k in draws)
        true = context.mpf(score) * scale.denominator / scale.numerator + own >= other
        assert Scripted(first, later).wins(ExactNoise(law, scale), score) == true


@parametrize("name", presets.MECHANISMS)
def test_no_aggregator_uses_a_sampler_in_float64(name: str) -> None:
    votes = np.array([[240, 6, 4], [100, 90, 60]] * 50)
    labels = presets.build(name).release(votes, silent(), np.full((100, 3), 1 / 3))
    assert len(labels) == 100


@parametrize(
    ("noise", "law"),
    [
        (LaplaceNoise(0.1), stats.laplace(scale=10)),
        (GaussianNoise(10), stats.norm(scale=10)),
    ],
    ids=["laplace", "gaussian"],
)
def test_counts_have_exact_noise_of_their_law(noise: Noise, law: Any) -> None:
    """No float64 sampler is used, also where the mechanism is no preset."""
    drawn = NoisyCounts(noise).release(np.full((2000, 2), 50), silent()).ravel() - 50
    edges = [-np.inf, *np.arange(-29.5, 31, 5), np.inf]
    seen = np.histogram(drawn, edges)[0]
    assert stats.chisquare(seen, len(drawn) * np.diff(law.cdf(edges))).pvalue > 1e-6


def test_the_sanitised_bound_has_its_noise_and_its_grid() -> None:
    plan = SanitisedPlan(order=10.0, beta=0.02, noise=3.0, failure=1e-6)
    rng = silent()
    drawn = np.array([draw(1.25, plan, rng) for _ in range(3000)])
    assert (drawn * 2**20 == np.rint(drawn * 2**20)).all()
    noise = stats.norm(1.25 + plan.beta * plan.margin, plan.beta * plan.noise)
    assert stats.kstest(drawn - 2.0**-21, noise.cdf).pvalue > 1e-6


@parametrize(
    ("first", "later", "scale", "expected"),
    [
        (2**52, [5], Fraction(1, 2**60), 1),  # U = 1/2 and more: 0 + noise is above 0
        (2**52, [2**1024 - 1], Fraction(1, 2**60), 1),
        (2**52 - 1, [2**1023], Fraction(1, 2**60), 0),
        # The upper quartile, very many steps away; then beyond all steps, above and below.
        (3 * 2**51, [0], Fraction(10) ** 15, approx(stats.norm.ppf(0.75) * 1e15)),
        (3 * 2**51, [], Fraction(10) ** 200, 2**53),
        (2**51, [], Fraction(10) ** 200, -(2**53)),
    ],
)
def test_a_number_is_rounded_up_by_later_bits(
    first: int, later: list[int], scale: Fraction, expected: float
) -> None:
    assert Scripted([first], later).round_up(ExactNoise(NORMAL, scale), 0.0) == expected


@parametrize("generator", [np.random.Generator, ExactGenerator])
@parametrize(
    ("mechanism", "rows"), [(nzc.Counts(1e-15), 30), (nzc.CountsGaussian(1e16), 4)], ids=str
)
def test_huge_counts_get_real_noise_before_rounding(
    mechanism: nzc.NoisyArgmax, rows: int, generator: type[np.random.Generator]
) -> None:
    """The same bits give counts one vote apart, odd ones and even ones, none beyond ±2^53."""
    votes = np.array([[3, 5]] * rows)
    here = mechanism.release(votes, generator(np.random.PCG64(5)))
    there = mechanism.release(votes + 1, generator(np.random.PCG64(5)))
    inside = np.abs(here) < 2**53 - 1
    assert here.dtype == np.int64
    assert (np.abs(here) <= 2**53).all()
    assert (there - here)[inside].tolist() == [1] * inside.sum()
    assert set(here[inside] % 2) == {0, 1}
    assert (np.sign(here[~inside]) == np.sign(there[~inside])).all()
