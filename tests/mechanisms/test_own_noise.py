"""A noise of one's own costs what its law says, or is refused with what contradicts the law."""

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

import brute
import numpy as np
import presets
from conftest import parametrize
from pytest import approx, raises
from scipy import stats

import nzc
from nzc.accounting.data_independent import WorstCaseCost, gaussian_cost, pure_cost
from nzc.accounting.exact import error_of
from nzc.accounting.exact_noise import GUMBEL, ExactNoise
from nzc.mechanisms import Boost, ContinuousNoise, Noise, NoisyArgmax, NoisyCounts
from nzc.mechanisms.noise import ExponentialNoise, GaussianNoise, GumbelNoise, LaplaceNoise, NoNoise
from nzc.mechanisms.noise.checks import require_draws, require_worst_case
from nzc.validation import InputError, is_shipped

UNIT = 20.0


@dataclass(frozen=True)
class Own(ContinuousNoise):
    """Noise of a law of SciPy's. `cost`, `drawn` and `guard` may be faults.

    They are of the bound, the sampler, and the logarithm.
    """

    law: stats.rv_continuous
    cost: object = None
    drawn: float = 1.0
    guard: float = 0.0
    unit = UNIT

    def sample(self, shape, rng):
        return self.drawn * UNIT * self.law.rvs(size=shape, random_state=rng)

    def log_density(self, x):
        with np.errstate(over="ignore"):
            return self.law.logpdf(x)

    def log_cdf(self, x):
        with np.errstate(divide="ignore", over="ignore"):
            if self.guard:
                return np.log(np.maximum(self.law.cdf(x), self.guard))
            return self.law.logcdf(x)

    def worst_case(self, shift):
        return super().worst_case(shift) if self.cost is None else self.cost(shift)


@dataclass(frozen=True)
class OwnGumbel(Noise):
    """A noise without a density: its law is a softmax. `quantiles` are of this share of it."""

    drawn: float = 1.0
    quantiles: float | None = None

    @property
    def exact(self):
        if self.quantiles is None:
            return None
        return ExactNoise(GUMBEL, Fraction(UNIT * self.quantiles))

    def sample(self, shape, rng):
        return self.drawn * UNIT * rng.gumbel(size=shape)

    def log_law(self, scores):
        return GumbelNoise(1 / UNIT).log_law(scores)


def pure(factor):
    return lambda shift: pure_cost(factor * 2 * shift / UNIT)


def gaussian(factor):
    return lambda shift: gaussian_cost(factor * np.sqrt(2) * shift / UNIT)


def renyi(factor):
    return lambda shift: WorstCaseCost(lambda orders: factor * orders * (shift / UNIT) ** 2)


@parametrize(
    ("law", "ours"),
    [
        (stats.norm(), GaussianNoise(UNIT)),
        (stats.laplace(), LaplaceNoise(1 / UNIT)),
        (stats.gumbel_r(), GumbelNoise(1 / UNIT)),
        (stats.expon(), ExponentialNoise(1 / UNIT)),
    ],
)
def test_a_law_of_ones_own_costs_what_is_known_of_it(law, ours):
    votes = np.array([[84, 83, 83], [250, 0, 0], [60, 40, 20]])
    orders = np.array([1.5, 2.0, 8.0, 64.0])
    own = NoisyArgmax(Own(law))
    found = own.log_law(votes)[:, :-1]
    true = NoisyArgmax(ours).log_law(votes)[:, :-1]
    assert (np.abs(found - true) <= 2 * error_of(true)).all()
    cost = np.minimum(own.exact(votes).per_query(orders), ours.worst_case(1).rdp(orders))
    expected = NoisyArgmax(ours).exact(votes).per_query(orders)
    np.testing.assert_allclose(cost, expected, rtol=1e-6)


@parametrize("gap", [0, 5000])
def test_a_law_with_heavy_tails(gap):
    """The difference of two Cauchy variables is another of twice the scale."""
    found = NoisyArgmax(Own(stats.cauchy())).log_law(np.array([[gap, 0]]))[0, 1]
    assert found == approx(stats.cauchy.logsf(gap, scale=2 * UNIT), rel=1e-12)


def test_a_law_that_does_not_sum_to_one_is_refused(monkeypatch):
    monkeypatch.setattr(Own, "log_density", lambda noise, x: noise.law.logpdf(x) + 1e-4)
    with raises(InputError, match="must have a law that sums to one"):
        NoisyArgmax(Own(stats.norm())).cost([[120, 100, 30]], [0]).epsilon(1e-5)


@parametrize("guard", [0.0, 1e-300])
def test_a_guarded_logarithm_does_not_lower_the_cost(guard):
    mechanism = NoisyArgmax(Own(stats.expon(), pure(1.0), guard=guard))
    epsilon = mechanism.cost(np.array([[130, 120, 0]] * 20), np.zeros(20, int)).epsilon(1e-5)
    # With a guard of 1e-300 it was 1.201.
    assert 1.2308 < epsilon.exact_lower <= epsilon.exact < 1.2332


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
def test_a_right_noise_of_ones_own_is_taken_and_drawn_for_a_release(noise, monkeypatch):
    mechanism = NoisyArgmax(noise)
    monkeypatch.setattr("nzc.mechanisms.noisy_argmax.require_draws", None)  # it compares once
    mechanism = mechanism.between(nzc.Abstentions(12))
    assert mechanism.release(np.array([[9, 3]]), nzc.system_rng()) in (0, 1)


def _noises_of_nzc() -> list[type]:
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


MASS = np.exp(-np.arange(4.0)) / np.exp(-np.arange(4.0)).sum()


class WholeNoise(Noise):
    """Whole numbers z from 0 to 3, Pr ∝ e^−z. Counts tie, and ties break to the lowest class."""

    def sample(self, shape, rng):
        return rng.choice(np.arange(4.0), shape, p=MASS)

    def log_law(self, scores):
        classes = scores.shape[1]
        draws = np.array(list(product(range(4), repeat=classes)))
        winners = (scores[:, None] + draws).argmax(axis=2)
        won = winners[..., None] == np.arange(classes)
        with np.errstate(divide="ignore"):
            return np.log(np.einsum("d,qdk->qk", MASS[draws].prod(axis=1), won))


@parametrize(("votes", "delta"), [([1, 4], 0.05), ([1, 1], 1e-10), ([3, 2], 0.1)])
def test_a_noise_that_ties_costs_what_its_neighbours_in_the_order_of_classes_show(votes, delta):
    mechanism = NoisyArgmax(WholeNoise())
    here, *neighbours = np.exp(mechanism.log_law(np.array([votes, *brute.moves(votes)])))
    exact = mechanism.cost(np.array([votes]), np.zeros(1, int)).epsilon(delta).exact
    assert brute.leak(here, neighbours, exact * (1 + 1e-6)) <= delta * (1 + 1e-6) + 1e-12
    assert brute.leak(here, neighbours, exact * (1 - 1e-3)) > delta


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
def test_noise_that_is_not_what_its_law_or_its_class_says_is_refused(noise, reason):
    with raises(InputError, match=reason):
        NoisyArgmax(noise)


def test_a_bound_that_is_proved_for_laplace_noise_alone_is_not_lent_to_another():
    """One label costs a pure 2γ with either. Laplace noise composes better, as ties are rare."""
    lent = NoisyArgmax(Own(stats.laplace(), LaplaceNoise(1 / UNIT).worst_case))
    plain = NoisyArgmax(
        Own(stats.laplace(), lambda shift: pure_cost(2 * shift / UNIT, pure_parts=2))
    )
    assert lent.worst_case_epsilon(20, 1e-5) == plain.worst_case_epsilon(20, 1e-5)


@parametrize("noise", [GumbelNoise(0.1), derived(LaplaceNoise, 0.1)])
def test_counts_have_laplace_or_gaussian_noise_only(noise):
    with raises(InputError, match=r"must be nzc.LaplaceNoise or nzc.GaussianNoise itself"):
        NoisyCounts(noise)


def test_a_class_derived_from_a_mechanism_sets_its_parts():
    class Mine(NoisyArgmax):
        def __init__(self, gamma):
            super().__init__(GumbelNoise(gamma))

    votes = np.array([[9, 3]])
    mine = Mine(0.05).between(nzc.Abstentions(12))
    assert (mine.log_law(votes) == nzc.Gumbel(0.05).log_law(votes)).all()
