"""Exact noise against mpmath, and against the rational arithmetic that it promises."""

from fractions import Fraction

import mpmath
import numpy as np
import presets
import pytest
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
from nzc.accounting.sanitised import Plan, draw
from nzc.labeling.randomness import system_rng
from nzc.mechanisms import GaussianNoise, LaplaceNoise, NoisyCounts

mp = mpmath.mp.clone()
mp.prec = 1200
#: The laws, and their distribution functions by mpmath.
CDF = {
    "normal": (NORMAL, lambda z: mp.ncdf(z)),
    "laplace": (LAPLACE, lambda z: mp.exp(z) / 2 if z < 0 else 1 - mp.exp(-z) / 2),
    "gumbel": (GUMBEL, lambda z: mp.exp(-mp.exp(-z))),
    "exponential": (
        EXPONENTIAL,
        lambda z: 1 - mp.exp(-z),
    ),  # below 0 at z < 0, so that bounds there count as below
}
LAWS = pytest.mark.parametrize("name", CDF)
SCALES = [Fraction(40), 1 / Fraction(1e-10), Fraction(1e-3)]


class Scripted(ExactGenerator):
    """A generator whose bits are known: `first` [numbers] of the first stage, then `later` numbers
    of 1,024 bits.
    """

    def __new__(cls, *_: object) -> "Scripted":
        return super().__new__(cls)

    def __init__(self, first: list[int], later: list[int]) -> None:
        super().__init__(np.random.PCG64(0))
        self.first, self.later, self.used = first, later, 0

    def integers(self, *_: object, **__: object) -> np.ndarray:  # type: ignore[override]
        return np.array([self.first])

    def bytes(self, length: int) -> bytes:
        self.used += 1
        return self.later[self.used - 1].to_bytes(length)


class Silent(ExactGenerator):
    """A generator without NumPy's samplers of noise."""

    def _refuse(self, *_: object, **__: object) -> None:
        raise AssertionError("a float64 sampler was used")

    normal = standard_normal = laplace = gumbel = standard_t = exponential = (
        standard_exponential
    ) = random = _refuse  # type: ignore


def some_cells(bits: int, many: int) -> list[int]:
    """Cells of U that are random, next to 0, 1 and 1/2, and at every power of two from either end."""
    rng, top = np.random.default_rng(bits), 2**bits - 1
    ends = [2**i + d for i in range(1, bits, max(1, bits // 53)) for d in (-1, 0, 1)]
    inner = [int.from_bytes(rng.bytes(bits // 8 + 1)) % top for _ in range(many)]
    near_branches = [
        int(Fraction(u) * 2**bits) for u in (np.exp(-2), 1 - np.exp(-2), np.exp(-1), 0.25, 0.75)
    ]
    return sorted(
        {k for k in [*ends, *(top - k for k in ends), *inner, *near_branches] if 0 < k < top}
    )


@LAWS
def test_quantiles_in_float64_are_far_better_than_is_allowed_for(name: str) -> None:
    law, cdf = CDF[name]
    cells = some_cells(53, 300)
    for k, z in zip(cells, law.quantile(np.array(cells) * 2.0**-53), strict=True):
        allowed = 2.0**-33 * (1 + abs(z)) / 10_000
        assert cdf(mp.mpf(z) - allowed) < mp.ldexp(k, -53) < cdf(mp.mpf(z) + allowed), k


@LAWS
def test_quantiles_of_the_second_stage_are_within_their_error(name: str) -> None:
    law, cdf = CDF[name]
    own, bits = mpmath.mp.clone(), 1077
    own.prec = 2 * bits
    for k in some_cells(bits, 5)[:: bits // 6]:
        with mp.workprec(3 * bits):
            u = mp.ldexp(mp.mpf(k), -bits)
            z = mp.mpf(law.precise(own, u))
            allowed = mp.ldexp(1 + abs(z), -bits)
            assert cdf(z - allowed) < u < cdf(z + allowed), k


@LAWS
@pytest.mark.parametrize("lead", [0.0, -1e100, 3e-5])
@pytest.mark.parametrize("scale", [40.0, 1e-100, 1e200])
def test_bounds_contain_all_numbers_of_the_cell(name: str, lead: float, scale: float) -> None:
    law, cdf = CDF[name]
    cells = np.array([0, 2**53 - 1, *some_cells(53, 20)[::11]])
    low, high = _bounds(law, np.full(len(cells), lead), np.full(len(cells), scale), cells)
    for k, below, above in zip(cells.tolist(), low.tolist(), high.tolist(), strict=True):
        # Beyond ±100 no law has a cell but the first and the last.
        first, last = (
            min(max((mp.mpf(side) - mp.mpf(lead)) / mp.mpf(scale), -100), 100)
            for side in (below, above)
        )
        assert (k == 0 and below == -np.inf) or cdf(first) < mp.ldexp(k, -53)
        assert (k == 2**53 - 1 and above == np.inf) or cdf(last) > mp.ldexp(k + 1, -53)


def test_a_label_rarer_than_the_steps_of_float64_occurs() -> None:
    """NumPy's Laplace noise ends at ±37 scales, so a class 80 behind has no chance. Its law says
    e^-78.
    """
    behind, last = np.array([[80.0, 0.0]]), 2**53 - 1
    assert np.random.default_rng(0).laplace(size=10**6).max() < 37
    noise, unit = ExactNoise(LAPLACE, Fraction(1)), 2**896
    assert (
        Scripted([0, last], [2 * unit, 2**1024 - 2 * unit]).winner(noise, behind, np.ones(1)) == 1
    )
    assert (
        Scripted([0, last], [2**125 * unit, 2**127 * unit]).winner(noise, behind, np.ones(1)) == 0
    )


@LAWS
def test_equal_bits_to_the_end_are_decided_by_the_lowest_class(name: str) -> None:
    rng = Scripted([2**53 // 3] * 2, [11] * 2)
    assert (
        rng.winner(ExactNoise(CDF[name][0], Fraction(7)), np.array([[5.0, 5.0]]), np.ones(1)) == 0
    )
    assert rng.used == 2


@LAWS
@pytest.mark.parametrize("scale", SCALES, ids=float)
def test_near_ties_are_decided_as_exact_arithmetic_does(name: str, scale: Fraction) -> None:
    """The second score makes up for its noise to the last bit of float64; all bits of both draws
    are known.
    """
    law, rng, own = CDF[name][0], np.random.default_rng(3), mpmath.mp.clone()
    own.prec = 2200
    for _ in range(8):
        first = rng.integers(1, 2**53 - 1, size=2).tolist()
        later = [int.from_bytes(rng.bytes(128)) for _ in range(2)]
        z = law.quantile(np.array(first) * 2.0**-53)
        scores, source = np.array([[float(scale) * (z[1] - z[0]), 0.0]]), Scripted(first, later)
        answer = source.winner(ExactNoise(law, scale), scores, np.ones(1))[0]
        assert source.used == 2
        known = [(k << 1024) + rest for k, rest in zip(first, later, strict=True)]
        true = [law.precise(own, own.ldexp(own.mpf(k), -1077)) for k in known]
        lead = own.mpf(scores[0, 0]) * scale.denominator / scale.numerator
        assert answer == int(lead + true[0] < true[1])


@pytest.mark.parametrize(
    "mechanism",
    [
        nzc.GNMax(40), nzc.LNMax(0.05), nzc.Gumbel(0.05), nzc.PermuteAndFlip(0.05), nzc.NZC(1e10, 1e-10, "local"),
        nzc.NZCGaussian(1e100, 1.0, "global"),
    ],
    ids=str,
)  # fmt: skip
def test_labels_have_the_law_that_is_accounted_for(mechanism: nzc.NoisyArgmax) -> None:
    """Chi-square of 200,000 labels."""
    votes, draws = np.array([[70, 60, 60, 20]]), 200_000
    labels = mechanism.release(np.repeat(votes, draws, axis=0), Silent(np.random.PCG64(1)))
    expected, seen = (
        draws * np.exp(mechanism.log_law(votes)[0, :-1]),
        np.bincount(labels, minlength=4),
    )
    assert (seen[expected == 0] == 0).all()
    possible = expected > 0
    assert ((seen - expected)[possible] ** 2 / expected[possible]).sum() < stats.chi2.isf(
        1e-6, df=3
    )


@pytest.mark.parametrize("name", presets.MECHANISMS)
def test_no_aggregator_uses_a_sampler_in_float64(name: str) -> None:
    mechanism, votes = presets.build(name), np.array([[240, 6, 4], [100, 90, 60]] * 50)
    assert (
        len(mechanism.release(votes, Silent(np.random.PCG64(1)), np.full((100, 3), 1 / 3))) == 100
    )
    assert isinstance(system_rng(), ExactGenerator)


@pytest.mark.parametrize("noise", [LaplaceNoise(0.1), GaussianNoise(10)], ids=repr)
def test_counts_have_exact_noise_of_their_law(noise: LaplaceNoise | GaussianNoise) -> None:
    """No float64 sampler is used, also where the mechanism is no preset, and counts follow the law
    of their noise.
    """
    drawn = (
        NoisyCounts(noise).release(np.full((2000, 2), 50), Silent(np.random.PCG64(1))).ravel() - 50
    )
    law = stats.laplace(scale=10) if isinstance(noise, LaplaceNoise) else stats.norm(scale=10)
    edges = np.arange(-30, 31, 5)
    expected = np.diff(law.cdf(np.concatenate([[-np.inf], edges + 0.5, [np.inf]])))
    seen = np.histogram(drawn, [-np.inf, *(edges + 0.5), np.inf])[0]
    assert stats.chisquare(seen, len(drawn) * expected).pvalue > 1e-6


def test_the_sanitised_bound_has_its_noise_and_its_grid() -> None:
    plan, rng = Plan(order=10.0, beta=0.02, noise=3.0, failure=1e-6), Silent(np.random.PCG64(1))
    drawn = np.array([draw(1.25, plan, rng) for _ in range(3000)])
    assert (drawn * 2**20 == np.rint(drawn * 2**20)).all()
    noise = stats.norm(1.25 + plan.beta * plan.margin, plan.beta * plan.noise)
    assert stats.kstest(drawn - 2.0**-21, noise.cdf).pvalue > 1e-6


def test_a_number_on_the_grid_is_rounded_up_by_later_bits() -> None:
    near = ExactNoise(NORMAL, Fraction(1, 2**60))
    for later in (5, 2**1024 - 1):  # U = 1/2 and more: 0 + noise is above 0
        assert Scripted([2**52], [later]).round_up(near, 0.0) == 1
    assert Scripted([2**52 - 1], [2**1023]).round_up(near, 0.0) == 0
    law, first = (
        ExactNoise(NORMAL, Fraction(10) ** 15),
        3 * 2**51,
    )  # the upper quartile, very many steps away
    assert Scripted([first], [0]).round_up(law, 0.0) == pytest.approx(stats.norm.ppf(0.75) * 1e15)
    law = ExactNoise(NORMAL, Fraction(10) ** 200)
    assert Scripted([first], []).round_up(law, 0.0) == 2**53
    assert Scripted([2**51], []).round_up(law, 0.0) == -(2**53)


@pytest.mark.parametrize(
    ("mechanism", "rows"), [(nzc.Counts(1e-15), 30), (nzc.CountsGaussian(1e16), 4)], ids=str
)
def test_huge_counts_are_those_of_real_noise_added_before_rounding(
    mechanism: nzc.NoisyArgmax, rows: int
) -> None:
    """The same bits give counts one vote apart, odd ones as well as even ones, and none beyond
    ±2^53.
    """
    votes = np.array([[3, 5]] * rows)
    for generator in (np.random.Generator, ExactGenerator):
        here, there = (
            mechanism.release(votes + more, generator(np.random.PCG64(5))) for more in (0, 1)
        )
        inside = np.abs(here) < 2**53 - 1
        assert here.dtype == np.int64 and inside.any() and (np.abs(here) <= 2**53).all()
        assert (there - here)[inside].tolist() == [1] * inside.sum()
        assert set(here[inside] % 2) == {0, 1}
        assert (np.sign(here[~inside]) == np.sign(there[~inside])).all()


@pytest.mark.parametrize("seed", [0, None])
@pytest.mark.parametrize("mechanism", [nzc.Counts(1e-100), nzc.CountsGaussian(1e100)], ids=str)
def test_the_largest_noise_shows_nothing_of_a_count(
    mechanism: nzc.NoisyArgmax, seed: int | None
) -> None:
    rng = system_rng() if seed is None else np.random.default_rng(seed)
    assert set(np.abs(mechanism.release(np.array([[3, 5]] * 50), rng)).ravel()) == {2**53}
