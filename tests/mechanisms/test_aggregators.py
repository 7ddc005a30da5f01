"""The noisy argmax: its parts, its ties, its extremes."""

import numpy as np
import pytest
from scipy.stats import norm

from nzc.mechanisms import Boost, GaussianNoise, LaplaceNoise, NoisyArgmax

RNG = np.random.default_rng


def test_the_immutable_argmax_is_immutable() -> None:
    """c = 1e100 against noise of scale 1e10: the plurality, always; and it moves with a single vote."""
    votes = RNG(0).multinomial(250, np.full(10, 0.1), size=2000)
    for noise in (LaplaceNoise(1e-10), GaussianNoise(1e10)):
        assert (NoisyArgmax(noise, Boost(c=1e100)).release(votes, RNG(1)) == votes.argmax(axis=1)).all()
        pair = np.array([[125, 125], [124, 126]])
        labels = NoisyArgmax(noise, Boost(c=1e100)).release(np.repeat(pair, 1000, axis=0), RNG(2))
        assert (labels == np.repeat([0, 1], 1000)).all()


def test_a_boost_within_the_papers_failure_bound_holds() -> None:
    """c = log(K/τ)/γ keeps the argmax with probability 1 − τ or more (NZC, Lemma 1)."""
    votes, gamma, failure = np.tile([30, 29, 29, 29], (100_000, 1)), 0.01, 0.01
    labels = NoisyArgmax(LaplaceNoise(gamma), Boost(c=2 * np.log(4 / failure) / gamma)).release(votes, RNG(0))
    assert (labels != 0).mean() < failure


def test_the_four_sensitivities() -> None:
    votes = np.array([[10, 8, 0], [10, 7, 0], [10, 6, 0]])  # gaps 2, 3, 4
    scale = {kind: Boost(4.0, kind, 0.5).scale(votes) for kind in ("constant", "global", "local", "smooth")}
    np.testing.assert_allclose(scale["constant"], [1, 1, 1])
    np.testing.assert_allclose(scale["global"], [5, 5, 5])
    np.testing.assert_allclose(scale["local"], [5, 1, 1])
    np.testing.assert_allclose(scale["smooth"], np.array([5, 5, 1]) * np.exp(-0.5))


def test_flip_rates_match_the_closed_forms() -> None:
    """Two classes: Laplace (2 + γg)/(4 e^γg), Gauss Φ(−g/(√2 σ)) at a gap of g, which a boost makes (g + c)/Δ."""

    def rate(mechanism: NoisyArgmax, votes: list[int]) -> float:
        return float(mechanism.release(np.tile(votes, (400_000, 1)), RNG(0)).mean())

    def laplace(x: float) -> float:
        return (2 + x) / (4 * np.exp(x))

    assert rate(NoisyArgmax(LaplaceNoise(0.3)), [10, 7]) == pytest.approx(laplace(0.9), abs=0.004)
    gauss = norm.cdf(-3 / (np.sqrt(2) * 4))
    assert rate(NoisyArgmax(GaussianNoise(4.0)), [10, 7]) == pytest.approx(gauss, abs=0.004)
    boosted = NoisyArgmax(LaplaceNoise(0.5), Boost(c=3.0, sensitivity="global"))
    assert rate(boosted, [6, 4]) == pytest.approx(laplace(0.5 * (2 + 3) / (1 + 3)), abs=0.005)


def test_integer_votes_keep_fractional_noise() -> None:
    """Noise truncated into integer votes would leave ties; here none survive."""
    votes = np.ones((10_000, 2), dtype=np.int16)
    labels = NoisyArgmax(GaussianNoise(0.01)).release(votes, RNG(0))
    assert labels.mean() == pytest.approx(0.5, abs=0.03)


def test_what_a_boost_costs_whatever_the_votes() -> None:
    votes, labels = np.array([[6, 4]] * 10), np.zeros(10, int)

    def bound(boost: Boost) -> float:
        return NoisyArgmax(LaplaceNoise(0.01), boost).cost(votes, labels).epsilon(1e-5).data_independent

    plain = bound(Boost())
    assert bound(Boost(c=5.0, sensitivity="global")) == plain
    assert plain < bound(Boost(c=5.0)) < np.inf
    assert bound(Boost(c=1e100)) == bound(Boost(c=5.0, sensitivity="local")) == np.inf
