"""Trials: attacks of membership.py where the answer is known in closed form, and whether writes are
seen.
"""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from conftest import parametrize
from pytest import MonkeyPatch, approx
from scipy.stats import norm

FPR = 0.01
TRIALS = Path(__file__).parents[1] / "trials"


@pytest.fixture(scope="module")
def attacks() -> Iterator[ModuleType]:
    with MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TRIALS))
        yield import_module("membership")


def worlds(distance: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return scores N(level + distance·[in], 1), where the levels of the records differ widely, and
    the membership.
    """
    member = rng.random((300, 300)) < 0.5
    return rng.normal(size=member.shape) + distance * member + rng.normal(0, 5, size=300), member


@parametrize("distance", [0.0, 0.5, 3.0])
def test_lira_is_the_likelihood_ratio(attacks: ModuleType, distance: float) -> None:
    """Two Gaussians: AUC Φ(d/√2), true positives 1 − Φ(Φ⁻¹(1 − f) − d), accuracy Φ(d/2). Raw scores
    are far worse.
    """
    rng = np.random.default_rng(0)
    scores, member = worlds(distance, rng)
    measured = attacks.measure(attacks.lira(scores, member), member, FPR, rng, resamples=40)
    known = [norm.cdf(distance / 2**0.5), norm.sf(norm.isf(FPR) - distance), norm.cdf(distance / 2)]
    assert [share.value for share in measured] == approx(known, abs=0.015)
    if distance:
        assert all(share.low < share.value < share.high for share in measured)
        assert (
            attacks.measure(scores, member, FPR, rng, resamples=2)[0].value
            < measured[0].value - 0.05
        )
