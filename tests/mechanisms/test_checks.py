"""A noise of one's own is refused with what contradicts its law."""

from dataclasses import replace
from itertools import product

import numpy as np
import presets
from conftest import parametrize
from own_noise import UNIT, Own, OwnGumbel, gaussian, pure, renyi
from pytest import raises
from scipy import stats

import nzc
from nzc.mechanisms import Boost, Noise, NoisyArgmax, NoisyCounts
from nzc.mechanisms.noise import GumbelNoise, LaplaceNoise, NoNoise
from nzc.mechanisms.noise.checks import require_draws, require_worst_case
from nzc.validation import InputError, is_shipped

#: Laws, bounds that hold for them, and bounds that are too small, some in one respect only.
BOUNDS = [
    (stats.expon(), pure(1.0), pure(0.9)),
    (stats.norm(), gaussian(1.0), gaussian(0.9)),
    (stats.norm(), renyi(1.0), renyi(0.9)),
    (stats.laplace(), pure(1.0), pure(0.9)),
    (stats.laplace(), pure(1.0), lambda shift: pure(1.0)(1)),  # it ignores the shift
    (stats.laplace(), pure(1.0), lambda shift: replace(pure(1.0)(shift), pure=shift / UNIT)),
    (stats.laplace(), pure(1.0), lambda shift: replace(pure(1.0)(shift), mu=shift / UNIT)),
]


@parametrize(("law", "bound", "small"), BOUNDS)
def test_a_bound_below_the_law_is_refused_at_once(law, bound, small):
    boost = Boost(c=4)
    require_worst_case(Own(law, bound), boost.shift)
    with raises(InputError, match=r"^worst_case=.*must hold for any votes"):
        NoisyArgmax(Own(law, small), boost)


NOISES = [Own(stats.norm()), Own(stats.expon()), Own(stats.cauchy()), OwnGumbel()]


@parametrize("noise", [*NOISES, OwnGumbel(quantiles=1.0)], ids=lambda noise: type(noise).__name__)
def test_a_right_noise_of_ones_own_is_taken(noise, monkeypatch):
    mechanism = NoisyArgmax(noise)
    monkeypatch.setattr("nzc.mechanisms.noisy_argmax.require_draws", None)  # it compares once
    mechanism = mechanism.between(nzc.Abstentions(12))
    assert mechanism.release(np.array([[9, 3]]), nzc.system_rng()) in (0, 1)


def _noises_of_nzc():
    """Every class of noise in nzc, whether a preset has it or not."""
    found = [Noise]
    for kind in found:
        found += [other for other in kind.__subclasses__() if is_shipped(other)]
    noises = {kind for kind in found if not kind.__abstractmethods__}
    return sorted(noises - {NoNoise}, key=lambda kind: kind.__name__)


PRESETS = {type(noise): noise for noise in presets.NOISES}


@parametrize("kind", _noises_of_nzc())
def test_every_noise_of_nzc_is_a_presets_and_passes_its_checks(kind):
    """Those of a noise of one's own, which a mechanism does not run for nzc's."""
    noise = PRESETS[kind]
    require_draws(noise)
    for shift in (1.0, 1e100):
        require_worst_case(noise, shift)


def test_a_bound_that_is_too_small_at_the_votes_is_refused():
    (exact,) = nzc.LNMax(0.05).cost(np.array([[130, 120]]), np.zeros(1, int)).exact
    exact = replace(exact, ceiling=lambda orders: np.full((2, len(orders)), 1e-6))
    with raises(InputError, match=r"worst_case=.*at order 2 it is too small at these"):
        exact.total(np.array([2.0, 8.0]))


class FixedSeed(OwnGumbel):
    def sample(self, shape, rng):
        return super().sample(shape, np.random.default_rng(7))


class ByClass(OwnGumbel):
    def sample(self, shape, rng):
        return super().sample(shape, rng) * (1 + np.arange(shape[-1]))


class Antithetic(Own):
    """Right for each class alone, but not independent."""

    def sample(self, shape, rng):
        noise = super().sample(shape, rng)
        noise[..., 1] = -noise[..., 0]
        return noise


def derived(base, *parameters, **replaced):
    return type("Derived", (base,), replaced)(*parameters)


LAW = "must draw with `sample`, in votes, what its law says"
FIVE_PERCENT = [(replace(noise, drawn=d), LAW) for noise, d in product(NOISES, (0.95, 1.05))]
REFUSED = [
    *FIVE_PERCENT,
    (
        derived(LaplaceNoise, 0.05, worst_case=lambda _, shift: pure(1e-3)(shift)),
        "must hold for any",
    ),
    (derived(GumbelNoise, 0.05, sample=lambda _, shape, rng: rng.gumbel(size=shape)), LAW),
    (OwnGumbel(quantiles=0.5), LAW),
    (ByClass(), LAW),
    (Antithetic(stats.laplace()), LAW),
    (FixedSeed(), "from its `rng` alone"),
    (None, "must be a nzc.mechanisms.Noise"),
]


@parametrize(("noise", "reason"), REFUSED)
def test_noise_that_differs_from_its_law_is_refused(noise, reason):
    with raises(InputError, match=reason):
        NoisyArgmax(noise)


@parametrize("noise", [GumbelNoise(0.1), derived(LaplaceNoise, 0.1)])
def test_counts_have_laplace_or_gaussian_noise_only(noise):
    with raises(InputError, match=r"must be nzc.LaplaceNoise or nzc.GaussianNoise itself"):
        NoisyCounts(noise)
