"""A noise of one's own: its cost is that of its law, or it is refused with what contradicts the
law.
"""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from scipy.special import stdtrit

from nzc.accounting.data_independent import WorstCaseCost, gaussian_cost, pure_cost
from nzc.accounting.exact import error_of
from nzc.accounting.exact_noise import GUMBEL, ExactGenerator, ExactNoise, StandardLaw
from nzc.labeling.randomness import system_rng
from nzc.mechanisms import Boost, ContinuousNoise, Noise, NoisyArgmax, NoisyCounts, OwnCells
from nzc.mechanisms.noise import ExponentialNoise, GaussianNoise, GumbelNoise, LaplaceNoise, NoNoise
from nzc.mechanisms.noise.checks import require_draws, require_worst_case
from nzc.validation import InputError, is_shipped

UNIT = 20.0


@dataclass(frozen=True)
class Own(ContinuousNoise):
    """Noise of a law of SciPy's. `drawn`, `bound` and `guard` are faults: of the sampler, the
    bound, the logarithm.
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
            return (
                np.log(np.maximum(self.law.cdf(x), self.guard))
                if self.guard
                else self.law.logcdf(x)
            )

    def worst_case(self, shift):
        return super().worst_case(shift) if self.cost is None else self.cost(shift)


KNOWN = [
    (stats.norm(), GaussianNoise(UNIT)), (stats.laplace(), LaplaceNoise(1 / UNIT)),
    (stats.gumbel_r(), GumbelNoise(1 / UNIT)), (stats.expon(), ExponentialNoise(1 / UNIT)),
]  # fmt: skip


@pytest.mark.parametrize(("law", "known"), KNOWN)
def test_a_law_of_ones_own_costs_what_is_known_of_it(law, known):
    votes, orders = (
        np.array([[84, 83, 83], [250, 0, 0], [60, 40, 20]]),
        np.array([1.5, 2.0, 8.0, 64.0]),
    )
    own, ours = NoisyArgmax(Own(law)), NoisyArgmax(known)
    found, true = own.log_law(votes)[:, :-1], ours.log_law(votes)[:, :-1]
    assert (np.abs(found - true) <= 2 * error_of(true)).all()
    ceiling = known.worst_case(1).rdp(orders)
    cost = np.minimum(own.exact(votes).per_query(orders), ceiling)
    np.testing.assert_allclose(cost, ours.exact(votes).per_query(orders), rtol=1e-6)


@pytest.mark.parametrize("gap", [0, 1, 250, 5000])
def test_a_law_with_heavy_tails(gap):
    """The difference of two Cauchy variables is another of twice the scale."""
    found = NoisyArgmax(Own(stats.cauchy())).log_law(np.array([[gap, 0]]))[0, 1]
    assert found == pytest.approx(stats.cauchy.logsf(gap, scale=2 * UNIT), rel=1e-12)


@pytest.mark.parametrize("law", [stats.expon(), stats.halfnorm(), stats.uniform(), stats.gamma(2)])
def test_one_sided_laws_at_all_neighbours_are_those_at_each(law, monkeypatch):
    orders = np.array([1.5, 8.0, 64.0])
    votes = [
        np.array([row])
        for row in ([5, 5], [9, 9, 9, 1], [30, 20, 10, 0, 0], [250, 0, 0], [21, 20, 20, 19, 3])
    ]
    mechanism = NoisyArgmax(Own(law))
    found = [mechanism.exact(row).per_query(orders) for row in votes]
    monkeypatch.setattr(ContinuousNoise, "neighbourhood", lambda *_: None)
    np.testing.assert_allclose(
        found, [mechanism.exact(row).per_query(orders) for row in votes], rtol=1e-9
    )


@pytest.mark.parametrize("factor", [0.99, 1.0001])
def test_a_law_that_does_not_sum_to_one_is_refused(factor, monkeypatch):
    monkeypatch.setattr(Own, "log_density", lambda noise, x: noise.law.logpdf(x) + np.log(factor))
    with pytest.raises(InputError, match="must have a law that sums to one"):
        NoisyArgmax(Own(stats.norm())).cost([[120, 100, 30]], [0]).epsilon(1e-5)


@pytest.mark.parametrize("guard", [0.0, 1e-300, 1e-100])
@pytest.mark.parametrize("gap", [0, 40, 400])
def test_a_guarded_logarithm_does_not_lower_the_cost(gap, guard):
    """The difference of two exponential variables is a Laplace variable: a class g behind wins with
    e^(−g/20)/2.
    """
    mechanism, orders = (
        NoisyArgmax(Own(stats.expon(), pure(1.0), guard=guard)),
        np.array([1.5, 8.0, 100.0]),
    )
    found = mechanism.exact(np.array([[500 + gap, 500]])).per_query(orders)[0]

    def law(gap):
        return np.array([stats.laplace.sf(-gap / UNIT), stats.laplace.sf(gap / UNIT)])

    here, moved = law(gap), [law(gap - 2), law(gap + 2)]
    pairs = [pair for there in moved for pair in ((here, there), (there, here))]
    for order, cost in zip(orders, found, strict=True):
        # log Σ q ((p/q)^α − 1 − α (p/q − 1)) loses no digits where p and q are close
        terms = [q * (np.expm1(order * np.log(p / q)) - order * (p / q - 1)) for p, q in pairs]
        true = max(np.log1p(each.sum()) for each in terms) / (order - 1)
        assert true * (1 - 1e-6) <= cost <= true * (1 + 1e-4) + 1e-15
    votes = np.array([[130, 120, 0]] * 20)
    epsilon = mechanism.cost(votes, np.zeros(20, int)).epsilon(1e-5)
    assert (
        1.2308 < epsilon.exact_lower <= epsilon.exact < 1.2332
    )  # with a guard of 1e-300 it was 1.201


def pure(factor):
    return lambda shift: pure_cost(factor * 2 * shift / UNIT)


def gaussian(factor):
    return lambda shift: gaussian_cost(factor * np.sqrt(2) * shift / UNIT)


def renyi(factor):
    return lambda shift: WorstCaseCost(lambda orders: factor * orders * (shift / UNIT) ** 2)


RIGHT = [
    (stats.expon(), pure),
    (stats.laplace(), pure),
    (stats.norm(), gaussian),
    (stats.norm(), renyi),
]


@pytest.mark.parametrize(("law", "bound"), RIGHT)
def test_a_bound_below_the_law_is_refused_at_once(law, bound):
    for boost in (Boost(), Boost(c=4)):
        NoisyArgmax(Own(law, bound(1.0)), boost)
        for factor in (0.25, 0.9):
            with pytest.raises(InputError, match=r"^worst_case=.*must hold for any votes; its "):
                NoisyArgmax(Own(law, bound(factor)), boost)
    with pytest.raises(InputError, match="worst_case"):  # it ignores the shift
        NoisyArgmax(Own(law, lambda shift: bound(1.0)(1)), Boost(c=4))


@pytest.mark.parametrize("law", [stats.norm(), stats.laplace(), stats.expon(), stats.cauchy()])
def test_two_percent_too_little_or_too_much_noise_is_refused(law):
    NoisyArgmax(Own(law))
    for drawn in (0.98, 1.02, 1e3, 0.0, -1.02):
        with pytest.raises(
            InputError, match=r"must draw with `sample`, in votes, what its law says"
        ):
            NoisyArgmax(Own(law, drawn=drawn))


@dataclass(frozen=True)
class Exact(Own):
    """t noise with 3 degrees of freedom, and quantiles of `degrees`."""

    degrees: float = 3
    later: float = 0

    @property
    def exact(self):
        law = StandardLaw(
            lambda u: stdtrit(self.degrees, u),
            lambda mp, u: stdtrit(self.degrees + self.later, float(u)),
        )
        return ExactNoise(law, Fraction(UNIT))


def test_quantiles_must_be_those_of_the_law():
    for noise in (Exact(stats.t(3)), Own(stats.t(3))):  # the second by its sampler
        assert NoisyArgmax(noise).release(np.array([[9, 3]]), system_rng()) in (0, 1)
    with pytest.raises(
        InputError, match="must have quantiles in `exact` of the law that `log_cdf` says"
    ):
        NoisyArgmax(Exact(stats.t(3), degrees=3.00001))
    with pytest.raises(InputError, match="must have the same quantiles by mpmath as in float64"):
        NoisyArgmax(Exact(stats.t(3), later=0.001))


@dataclass(frozen=True)
class OwnGumbel(Noise):
    """A noise without a density: its law is a softmax."""

    drawn: float

    def sample(self, shape, rng):
        return self.drawn * UNIT * rng.gumbel(size=shape)

    def log_law(self, scores):
        return GumbelNoise(1 / UNIT).log_law(scores)


def test_a_law_without_a_density_is_compared_with_its_winners():
    NoisyArgmax(OwnGumbel(1.0))
    for drawn in (0.98, 1.02, 0.0):
        with pytest.raises(
            InputError, match="must draw with `sample`, in votes, what its law says"
        ):
            NoisyArgmax(OwnGumbel(drawn))


NOISES = [
    *(GaussianNoise(sigma) for sigma in (0.01, 1, 40, 1e10)),
    *(
        kind(gamma)
        for kind in (LaplaceNoise, GumbelNoise, ExponentialNoise)
        for gamma in (300, 1, 0.05, 1e-10)
    ),
]


@pytest.mark.parametrize("shift", [1.0, 1e100])
@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_the_noises_of_nzc_are_consistent(noise, shift):
    require_worst_case(noise, shift)
    require_draws(noise)


def test_every_noise_that_a_mechanism_does_not_check_is_checked_here():
    kinds = [Noise]
    for kind in kinds:
        kinds += kind.__subclasses__()
    whole = {kind for kind in kinds if is_shipped(kind) and not kind.__abstractmethods__}
    assert {type(noise) for noise in NOISES} == whole - {NoNoise}


def test_an_exact_cost_below_its_lower_bound_is_refused():
    cost = NoisyArgmax(LaplaceNoise(0.05)).cost(np.array([[130, 120]] * 20), np.zeros(20, int))
    assert cost.epsilon(1e-5).exact_lower <= cost.epsilon(1e-5).exact
    with pytest.raises(
        InputError, match=r"worst_case=.*the law at these votes shows a larger ε at δ=1e-05$"
    ):
        replace(cost, worst_case=((20, pure_cost(0.01)),)).epsilon(1e-5)
    exact = replace(cost.exact[0], ceiling=lambda orders: np.full((2, len(orders)), 1e-6))
    with pytest.raises(
        InputError,
        match=r"worst_case=.*must hold for any votes; at order 2 it is too small at these",
    ):
        exact.total(np.array([2.0, 8.0]))


@dataclass(frozen=True)
class DiscreteLaplace(Noise):
    """Pr[z] ∝ e^(−γ|z|) at whole z. Counts tie, and ties break to the lowest class."""

    gamma: float

    def sample(self, shape, rng):
        share = 1 - np.exp(-self.gamma)
        return (rng.geometric(share, shape) - rng.geometric(share, shape)).astype(float)

    def below(self, z):
        """Return Pr[noise ≤ z] at whole z."""
        tail = np.exp(-self.gamma * np.where(z < 0, -z, z + 1)) / (1 + np.exp(-self.gamma))
        return np.where(z < 0, tail, 1 - tail)

    def log_law(self, scores):
        z = np.arange(-60, 61)
        mass = np.diff(self.below(np.arange(-61, 61)))
        leads = np.rint(scores - scores.max(axis=1, keepdims=True))
        # Classes before a winner must be behind it, and later ones not ahead.
        first = np.tri(scores.shape[1], k=-1)
        behind = self.below(
            leads[:, :, None, None] + z - leads[:, None, :, None] - first[:, :, None]
        )
        behind[:, np.arange(scores.shape[1]), np.arange(scores.shape[1])] = 1
        law = (mass * behind.prod(axis=2)).sum(axis=2)
        return np.log(np.maximum(law, 1e-300)) - np.log(law.sum(axis=1, keepdims=True))

    def worst_case(self, shift):
        return pure_cost(2 * self.gamma * np.ceil(shift))


def enumerated(laws, here, epsilon):
    """Return the smallest δ at ε between two-class votes and their neighbours, both directions;
    `laws` votes → law.
    """
    moved = [
        laws([here[0] + step, here[1] - step])
        for step in (-1, 1)
        if min(here[0] + step, here[1] - step) >= 0
    ]
    pairs = [pair for there in moved for pair in ((laws(here), there), (there, laws(here)))]
    return max(np.maximum(p - np.exp(epsilon) * q, 0).sum() for p, q in pairs)


def test_a_noise_that_ties_costs_what_its_neighbours_in_the_order_of_classes_show():
    mechanism = NoisyArgmax(DiscreteLaplace(1.5))
    laws = lambda votes: np.exp(mechanism.noise.log_law(np.array([votes])))[0]  # noqa: E731
    for votes, delta in (([1, 4], 0.01), ([1, 1], 1e-10), ([4, 4], 1e-10)):
        exact = mechanism.cost(np.array([votes]), np.zeros(1, int)).epsilon(delta).exact
        assert enumerated(laws, votes, exact * (1 + 1e-6)) <= delta * (1 + 1e-6) + 1e-12
        assert enumerated(laws, votes, exact * (1 - 1e-3)) > delta


class Half(GumbelNoise):
    """Half the noise where the generator is that of the system."""

    def sample(self, shape, rng):
        return super().sample(shape, rng) / 2


class Renamed(GumbelNoise):
    """Nothing but another name."""


@dataclass(frozen=True)
class Quantiles(OwnGumbel):
    """OwnGumbel with quantiles of a noise of this share."""

    share: float = 1.0

    @property
    def exact(self):
        return ExactNoise(GUMBEL, Fraction(UNIT * self.share))


class Wider(Quantiles):
    """Twice the noise, but for its quantiles."""

    def sample(self, shape, rng):
        return 2 * super().sample(shape, rng)

    def log_law(self, scores):
        return super().log_law(scores / 2)


class OnlySeeded(OwnGumbel):
    """The plurality itself where the generator is the system's."""

    def winner(self, scores, scale, rng):
        return (
            scores.argmax(axis=1)
            if isinstance(rng, ExactGenerator)
            else super().winner(scores, scale, rng)
        )


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


class OwnLaw(Own):
    def log_law(self, scores):
        return GumbelNoise(1e-3).log_law(scores)


REFUSED = [
    (Half(0.05), "must leave `sample` as GumbelNoise has it"),
    (
        type("Dear", (LaplaceNoise,), {"worst_case": lambda *_: pure_cost(1e-3)})(0.05),
        "must leave `worst_case`",
    ),
    (
        type("Mixed", (OwnGumbel, LaplaceNoise), {})(1.0),
        "must derive from one class of nzc only|must leave",
    ),
    (Quantiles(1.0, share=0.5), "must draw with `sample`, in votes, what its law says"),
    (Wider(1.0), "must define `exact` again"),
    (OnlySeeded(1.0), "must draw with `sample`, in votes, what its law says"),
    (FixedSeed(1.0), "from the generator `rng`, and from nothing else"),
    (ByClass(1.0), "must draw with `sample`, in votes, what its law says"),
    (Antithetic(stats.laplace()), "must draw with `sample`, in votes, what its law says"),
    (OwnLaw(stats.laplace()), "must leave `log_law` as ContinuousNoise has it"),
    (None, "must be a nzc.mechanisms.Noise"),
]


@pytest.mark.parametrize(("noise", "reason"), REFUSED, ids=lambda value: type(value).__name__)
def test_noise_that_is_not_what_its_law_or_its_class_says_is_refused(noise, reason):
    with pytest.raises(InputError, match=reason):
        NoisyArgmax(noise)


def test_a_noise_of_ones_own_is_drawn_by_its_law_with_the_generator_of_the_system():
    votes = np.array([[70, 60, 50]])
    for noise in (Renamed(0.05), Quantiles(1.0), OwnGumbel(1.0), Own(stats.laplace())):
        mechanism = NoisyArgmax(noise)
        labels = mechanism.release(
            np.repeat(votes, 50_000, axis=0), ExactGenerator(np.random.PCG64(2))
        )
        expected = 50_000 * np.exp(mechanism.log_law(votes)[0, :-1])
        assert ((np.bincount(labels) - expected) ** 2 / expected).sum() < stats.chi2.isf(1e-6, df=2)


def test_a_bound_that_is_proved_for_laplace_noise_alone_is_not_lent_to_another():
    """One label costs a pure 2γ with either. Laplace noise composes better, because ties are rare."""
    lent = NoisyArgmax(Own(stats.laplace(), lambda shift: LaplaceNoise(1 / UNIT).worst_case(shift)))
    plain = NoisyArgmax(Own(stats.laplace(), lambda shift: pure_cost(2 * shift / UNIT, pures=2)))
    assert lent.worst_case_epsilon(100, 1e-5) == plain.worst_case_epsilon(100, 1e-5)


@pytest.mark.parametrize(
    "noise", [GumbelNoise(0.1), ExponentialNoise(0.1), Renamed(0.1), Own(stats.laplace())]
)
def test_counts_have_laplace_or_gaussian_noise_only(noise):
    with pytest.raises(InputError, match=r"must be nzc.LaplaceNoise or nzc.GaussianNoise itself"):
        NoisyCounts(noise)
    with pytest.raises((InputError, TypeError)):
        replace(NoisyCounts(LaplaceNoise(0.1)), noise=noise)
    with pytest.raises(InputError):
        NoisyCounts(type("Derived", (LaplaceNoise,), {})(0.1))


def test_a_class_derived_from_a_mechanism_sets_its_parts_and_nothing_else():
    class Mine(NoisyArgmax):
        def __init__(self, gamma):
            super().__init__(GumbelNoise(gamma))

    assert Mine(0.05).log_law(np.array([[9, 3]])) == pytest.approx(
        NoisyArgmax(GumbelNoise(0.05)).log_law([[9, 3]])
    )
    for base in (NoisyArgmax, NoisyCounts):
        for name in (
            "draw",
            "release",
            "log_law",
            "cost",
            "promise",
            "worst_case",
            "__post_init__",
        ):
            with pytest.raises(
                InputError, match=rf"^_target_=Other: must leave `{name}` as {base.__name__} has it"
            ):
                type("Other", (base,), {name: lambda *_: None})
    scaled = type("Scaled", (Boost,), {"scale": lambda boost, votes: np.full(len(votes), 0.1)})
    with pytest.raises(InputError, match="must leave `scale` as Boost has it"):
        NoisyArgmax(GumbelNoise(0.05), scaled())
    nowhere = type("Nowhere", (OwnCells,), {"everywhere": True})
    with pytest.raises(InputError, match="must leave `everywhere` as OwnCells has it"):
        NoisyArgmax(GumbelNoise(0.05), adjacency=nowhere())
