"""Trials: attacks of membership.py where the answer is known in closed form, and whether writes are
seen.
"""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.stats import norm

from nzc.accounting.gaussian import gaussian
from nzc.mechanisms import GaussianNoise, GumbelNoise, NoisyArgmax, NoNoise

FPR = 0.01
TRIALS = Path(__file__).parents[1] / "trials"


@pytest.fixture(scope="module")
def attacks() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TRIALS))
        yield import_module("membership")


def worlds(distance: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return scores N(level + distance·[in], 1), where the levels of the records differ widely, and
    the membership.
    """
    member = rng.random((300, 300)) < 0.5
    return rng.normal(size=member.shape) + distance * member + rng.normal(0, 5, size=300), member


@pytest.mark.parametrize("distance", [0.0, 0.5, 3.0])
def test_lira_is_the_likelihood_ratio(attacks: ModuleType, distance: float) -> None:
    """Two Gaussians: AUC Φ(d/√2), true positives 1 − Φ(Φ⁻¹(1 − f) − d), accuracy Φ(d/2). Raw scores
    are far worse.
    """
    rng = np.random.default_rng(0)
    scores, member = worlds(distance, rng)
    measured = attacks.measure(attacks.lira(scores, member), member, FPR, rng, resamples=40)
    known = [norm.cdf(distance / 2**0.5), norm.sf(norm.isf(FPR) - distance), norm.cdf(distance / 2)]
    assert [share.value for share in measured] == pytest.approx(known, abs=0.015)
    if distance:
        assert all(share.low < share.value < share.high for share in measured)
        assert (
            attacks.measure(scores, member, FPR, rng, resamples=2)[0].value
            < measured[0].value - 0.05
        )


def test_labels_reveal_what_the_law_says(attacks: ModuleType) -> None:
    """One query with two classes: an outcome of probability p with the record and q without has AUC
    (1 + p − q)/2.

    Without noise the attack always succeeds. On many queries no attack does better than (ε, δ)
    allows.
    """
    rng = np.random.default_rng(0)

    def play(mechanism: NoisyArgmax, queries: int, games: int) -> list:
        pair = attacks.worst_pair(mechanism, 50, 2)
        sides = (np.tile(side, (queries, 1)) for side in pair)
        scores, member = attacks.attack_labels(
            mechanism, *sides, np.zeros(queries, np.int64), 1, games, rng
        )
        return attacks.measure(scores, member, FPR, rng, resamples=40)

    noisy = NoisyArgmax(GumbelNoise(1.0))
    here, there = np.exp(noisy.log_law(np.stack(attacks.worst_pair(noisy, 50, 2))))
    assert play(noisy, 1, 5000)[0].value == pytest.approx((1 + abs(here - there)[0]) / 2, abs=0.02)
    assert play(NoisyArgmax(NoNoise()), 1, 100)[1].value == 1.0
    epsilon = gaussian((2 * 100) ** 0.5 / 20, 1e-5)
    assert (
        FPR
        < play(NoisyArgmax(GaussianNoise(20.0)), 100, 2000)[1].low
        < np.exp(epsilon) * FPR + 1e-5
    )
