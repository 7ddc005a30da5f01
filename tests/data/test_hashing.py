"""Names as numbers, and draws that follow from them."""

import numpy as np
from numpy.testing import assert_array_equal

from nzc.data.hashing import draw_by_key, keys_of


def test_keys_follow_from_names_alone() -> None:
    names = np.array(["ann", "béa", "c" * 99, "ann", ""])
    keys = keys_of(names)
    assert [len({*keys[:3].tolist()}), keys[0] == keys[3]] == [3, True]
    assert_array_equal(keys_of(names[::-1]), keys[::-1])
    # One name that is text makes the others text, too.
    for alike in ([7.0, 0, -0.0], ["7", "0", "0"], [b"7", b"0", b"0"]):
        assert_array_equal(keys_of(np.array(alike)), keys_of(np.array([7, 0, 0])))


def test_draws_by_key_are_uniform_and_independent() -> None:
    """Ten cells of each of two draws, for keys in a row: Pearson's χ² of 100 cells stays below 182
    (1e-6).
    """
    keys = np.arange(100_000)
    one, other = (draw_by_key(keys, *seed) % np.uint64(10) for seed in ((0, 1), (0, 2)))
    counts = np.bincount((one * np.uint64(10) + other).astype(np.int64), minlength=100)
    assert ((counts - 1000) ** 2 / 1000).sum() < 182
