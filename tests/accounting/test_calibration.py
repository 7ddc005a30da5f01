"""The noise that is found for a budget spends it."""

from functools import partial
from typing import Any

import numpy as np
from conftest import parametrize
from pytest import approx, raises

import nzc


@parametrize("build", [nzc.LNMax, nzc.Gumbel, nzc.PermuteAndFlip, nzc.Counts])
def test_pure_noise_has_an_epsilon_at_a_delta_of_0(build: Any) -> None:
    gamma = nzc.calibrate(build, 1, 0, np.int8(10))
    assert gamma == approx(1 / 20)
    assert build(gamma).promise(10, 10).delta(1).data_independent == 0


class Known:
    """A mechanism whose ε is known by hand; it jumps at a noise of 3, by the rough bound at 4."""

    def __init__(self, noise: float) -> None:
        self.scale = noise

    def worst_case_epsilon(self, queries: int, delta: float, rough: bool = False) -> float:
        if self.scale >= (4.0 if rough else 3.0):
            return 0.0
        return queries / self.scale


@parametrize("rough", [False, True])
@parametrize("build", [Known, lambda gamma: Known(1 / gamma)])
def test_no_noise_that_is_found_costs_more_than_was_asked(build: Any, rough: bool) -> None:
    """Nor less, but where the bound jumps: there the least noise that is enough is found."""
    for epsilon in np.geomspace(0.1, 100, 12).tolist():
        noise = nzc.calibrate(build, epsilon, 1e-5, 7, rough=rough)
        found = build(noise)
        assert found.worst_case_epsilon(7, 1e-5, rough) <= epsilon
        assert found.scale == approx(min(7 / epsilon, 4.0 if rough else 3.0), rel=1e-3)


def test_noise_that_makes_delta_dear_is_found() -> None:
    """Stable at a fixed threshold: less noise costs ε, more noise uses up δ."""

    def cost(sigma: float) -> float:
        return nzc.Stable(80, sigma).worst_case_epsilon(100, 1e-5)

    stable = partial(nzc.Stable, threshold=80)
    least = min(map(cost, np.linspace(14, 15.2, 9)))
    assert cost(nzc.calibrate(stable, 1.02 * least, 1e-5, 100)) <= 1.02 * least
    with raises(nzc.InputError, match=r"must be above 2\.2"):
        nzc.calibrate(stable, 0.97 * least, 1e-5, 100)
