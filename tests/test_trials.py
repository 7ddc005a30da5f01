"""Trials: attacks of membership.py where the answer is known in closed form, and glyphs that depend
on seed, role and number only.
"""

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from conftest import parametrize
from numpy.testing import assert_array_equal
from pytest import MonkeyPatch, approx
from scipy.stats import norm

from nzc.data import DataSplits
from nzc.data.npz import Npz

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


def test_item_i_of_a_glyph_role_follows_from_seed_role_and_i(
    tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    """A tenth of the private ones, and no other, has a wrong label."""
    monkeypatch.syspath_prepend(str(TRIALS))
    glyph = import_module("glyph")
    fonts = {role: {*glyph.fonts_of(role, 0, 0.25)} for role in ("private", "public", "test")}
    assert not fonts["private"] & fonts["public"] and fonts["public"] == fonts["test"]

    few = glyph.find_fonts()[::4]  # to draw those of all takes seconds
    monkeypatch.setattr(glyph, "find_fonts", lambda: few)
    monkeypatch.setattr(glyph, "_BLOCK", 2048)

    def written(*options: str) -> DataSplits:
        monkeypatch.setattr(sys, "argv", ["glyph.py", str(tmp_path), "--test=20", *options])
        glyph.main()
        return Npz(path=str(tmp_path), seed=0, private=0.7, public=0.2).load()

    many = written("--private=3000", "--public=600")
    right = written("--private=1500", "--public=700", "--mislabeled=0")
    assert_array_equal(many.private.x[:1500], right.private.x[:])
    assert_array_equal(many.public.x, right.public.x[:600])
    assert_array_equal(many.public.y, right.public.y[:600])
    assert len({*map(bytes, [*right.private.x[:], *right.public.x, *right.test.x])}) == 2220
    assert (many.private.y[:1500] != right.private.y).mean() == approx(0.1, abs=0.02)
