"""The attack of trials/membership.py where the answer is known in closed form."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.stats import norm

from nzc.accounting.data_independent import gaussian
from nzc.mechanisms import GaussianNoise, GumbelNoise, NoisyArgmax, NoNoise

FPR = 0.01


@pytest.fixture(scope="module")
def membership() -> ModuleType:
    path = Path(__file__).parents[1] / "trials" / "membership.py"
    spec = spec_from_file_location("membership", path)
    assert spec is not None and spec.loader is not None
    module = sys.modules["membership"] = module_from_spec(spec)  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def worlds(distance: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Scores N(own + distance·[in], 1), each record's own level far from the others'; who is in."""
    member = rng.random((300, 300)) < 0.5
    return rng.normal(size=member.shape) + distance * member + rng.normal(0, 5, size=300), member


@pytest.mark.parametrize("distance", [0.5, 1.5, 3.0])
def test_lira_is_the_likelihood_ratio(membership: ModuleType, distance: float) -> None:
    """Two Gaussians: AUC Φ(d/√2), true positives 1 − Φ(Φ⁻¹(1 − f) − d), accuracy Φ(d/2); without levels far less."""
    rng = np.random.default_rng(0)
    scores, member = worlds(distance, rng)
    found = membership.measure(membership.lira(scores, member), member, FPR, rng, times=40)
    known = [norm.cdf(distance / 2**0.5), norm.sf(norm.isf(FPR) - distance), norm.cdf(distance / 2)]
    assert [each.value for each in found] == pytest.approx(known, abs=0.015)
    assert all(each.low < each.value < each.high for each in found)
    assert membership.measure(scores, member, FPR, rng, times=2)[0].value < found[0].value - 0.05


def test_no_difference_is_chance(membership: ModuleType) -> None:
    rng = np.random.default_rng(0)
    scores, member = worlds(0.0, rng)
    found = membership.measure(membership.lira(scores, member), member, FPR, rng, times=40)
    assert [each.value for each in found] == pytest.approx([0.5, FPR, 0.5], abs=0.01)


def test_equal_scores_are_a_coin_and_certainty_has_an_interval(membership: ModuleType) -> None:
    rng, member = np.random.default_rng(0), np.arange(200)[:, None] < 100
    blind = membership.measure(np.zeros((200, 1)), member, FPR, rng, times=2)
    assert [each.value for each in blind] == pytest.approx([0.5, FPR, 0.5])
    sure = membership.measure(np.where(member, 700.0, -700.0), member, FPR, rng, times=2)
    assert [(each.value, each.high) for each in sure] == [(1.0, 1.0)] * 3
    assert sure[1].low == pytest.approx(0.025 ** (1 / 100))  # Clopper–Pearson


def test_labels_tell_what_the_law_says(membership: ModuleType) -> None:
    """One query between two classes: an outcome of probability p with the record and q without has AUC (1 + p − q)/2;
    without noise that is certainty; and no attack on many queries beats what (ε, δ) promises."""
    rng = np.random.default_rng(0)

    def played(mechanism: NoisyArgmax, queries: int, games: int) -> list:
        pair = membership.worst(mechanism, 50, 2)
        sides = (np.tile(side, (queries, 1)) for side in pair)
        scores, member = membership.known(mechanism, *sides, np.zeros(queries, np.int64), 1, games, rng)
        return membership.measure(scores, member, FPR, rng, times=40)

    noisy = NoisyArgmax(GumbelNoise(1.0))
    here, there = np.exp(noisy.log_law(np.stack(membership.worst(noisy, 50, 2))))
    assert played(noisy, 1, 5000)[0].value == pytest.approx((1 + abs(here - there)[0]) / 2, abs=0.02)
    assert played(NoisyArgmax(NoNoise()), 1, 100)[1].value == 1.0
    epsilon = gaussian((2 * 100) ** 0.5 / 20, 1e-5)
    assert FPR < played(NoisyArgmax(GaussianNoise(20.0)), 100, 2000)[1].low < np.exp(epsilon) * FPR + 1e-5
