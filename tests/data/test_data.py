"""Shards are disjoint and seeded; labels decide nothing public; features are standardised at every
scale.
"""

from dataclasses import replace

import numpy as np
from conftest import parametrize
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import MonkeyPatch, raises

from nzc.app.config import compose_run
from nzc.data.digits import Digits
from nzc.data.splits import Records
from nzc.data.standardizer import Standardizer
from nzc.teachers.sharded import partition
from nzc.teachers.votes import VoteFile
from nzc.validation import InputError


@given(
    rows=st.integers(1, 300),
    classes=st.integers(1, 60),
    seed=st.integers(0, 9),
    grouped=st.booleans(),
    share=st.floats(0, 1),
)
@settings(derandomize=True, max_examples=100, deadline=None)
def test_shards_are_disjoint_and_cover(
    rows: int, classes: int, seed: int, grouped: bool, share: float
) -> None:
    labels = default_rng(seed).integers(0, classes, rows)
    groups = 7 * labels if grouped else None  # numbers with gaps
    most = rows if groups is None else len(np.unique(groups))
    count = 1 + int(share * (most - 1))
    shards = partition(rows, count, seed, groups)
    assert sorted(np.concatenate(shards)) == list(range(rows)) and len(shards) == count
    if groups is None:
        sizes = [*map(len, shards)]
        assert max(sizes) - min(sizes) <= 1
    else:
        assert sum(len(np.unique(groups[shard])) for shard in shards) == most


def test_labels_decide_nothing_public(monkeypatch: MonkeyPatch) -> None:
    """Where labels alone are private: neither they, nor an order of rows that follows from them,
    change the pool.
    """
    monkeypatch.setattr("nzc.data.splits._POOL", 500)
    splits, rng = Digits(0, 300, 400, unit="label").read(), default_rng(0)
    assert splits.labels_only and len(splits.pool) == 500
    assert_array_equal(splits.pool[:400], splits.public.x)
    assert_array_equal(splits.pool[400:], splits.private.x[splits.joined])
    assert splits.summary["features"] == 100
    order = rng.permutation(300)
    other = replace(splits, private=Records(splits.private.x[order], rng.integers(0, 10, 300)))
    assert (other.pool == splits.pool).all()
    plain = Digits(0, 300, 400).read()
    assert plain.pool is plain.public.x
    assert splits.unit == "label"
    assert "nothing protects" in splits.neighbours
    with raises(InputError, match=r"^path="):
        VoteFile("votes.npy").check(splits)


def test_digits_are_divided_by_their_seed() -> None:
    first, again, other = (Digits(seed, 1200, 400).load() for seed in (0, 0, 1))
    assert first.digest == again.digest != other.digest
    assert [len(split) for split in (first.private, first.public, first.test)] == [1200, 400, 197]
    assert (first.private.x.dtype, first.private.x[:].max()) == (np.uint8, 255)
    with raises(InputError, match=r"^private=1397: .*at most 1396"):
        Digits(0, 1397, 400).load()


@parametrize("dataset", ["digits", "npz", "folder"])
def test_private_records_stay_private_whatever_the_seed(dataset: str) -> None:
    """Else the ledger would see as many datasets as there are seeds."""
    assert compose_run([f"dataset={dataset}", "seed=3"]).dataset.seed == 0


@parametrize(
    ("dtype", "scale"),
    [("float16", 1), ("float32", 1), ("float64", 1e-100), ("float64", 1e100)],
)
def test_features_do_not_depend_on_type_and_scale(dtype: str, scale: float) -> None:
    """The sums of these rows are beyond float16, and beyond float32 at their largest."""
    x = default_rng(0).integers(0, 17, (1000, 4)) * 16
    expected = (x - x.mean(axis=0)) / x.std(axis=0)
    coded = (scale * np.append(x, np.full((300, 4), -9999), axis=0)).astype(dtype)
    standardizer = Standardizer.fit(coded)
    assert_allclose(standardizer(coded)[:1000], expected, atol=1e-6)
    assert_array_equal(standardizer(coded)[1000:], -10)
    absurd = standardizer(np.array([[-np.inf, -1e300, 0, np.inf]]))
    assert np.isfinite(absurd**2).all()
    assert np.sign(absurd).tolist() == [[-1, -1, -1, 1]]
    constant = np.full((7, 1), 0.1 * scale, dtype)
    assert_array_equal(Standardizer.fit(constant)(constant), 0)
    largest = min(float(np.finfo(dtype).max), 1e100)
    most = np.where(x > 128, largest, -largest).astype(dtype)
    features = Standardizer.fit(most)(most)
    assert np.isfinite(features).all() and len(np.unique(features[:, 0])) == 2
