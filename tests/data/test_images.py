"""Images as bytes, whatever numbers an array has."""

from pathlib import Path
from typing import Any

import numpy as np
from conftest import parametrize
from numpy.random import default_rng
from numpy.testing import assert_array_equal
from pytest import CaptureFixture

from nzc.data import DataSplits
from nzc.data.npz import Npz

BYTES = default_rng(2).integers(0, 256, (60, 9, 8, 4), dtype=np.uint8)
BYTES[20:22] = [[[[0]]], [[[255]]]]  # public rows have black and white
GREY, RGB = BYTES[..., 0], BYTES[..., :3]
SHARE, LAST = np.float32(RGB / 255), (0, 3, 1, 2)


def _images(folder: Path, x: np.ndarray, **keys: Any) -> DataSplits:
    path = folder / "f.npz"
    np.savez(path, x=x, y=np.arange(60) % 3, role=np.repeat(["private", "public", "test"], 20))
    return Npz(str(path), seed=0, private=0.5, public=0.3, **keys).load()


@parametrize(
    ("x", "levels", "expected"),
    [
        (SHARE, None, RGB),
        (SHARE.transpose(LAST).astype(">f4"), None, RGB),
        (GREY > 99, None, np.where(GREY > 99, 255, 0)),
        (SHARE * 2 - 1, [-1, 1], RGB),
        (GREY.astype(np.uint16) + 1000, [1000, 1255], GREY),
    ],
)
def test_images_of_other_numbers_are_those_of_bytes(
    tmp_path: Path, x: np.ndarray, levels: list[float] | None, expected: np.ndarray
) -> None:
    splits = _images(tmp_path, x, range=levels)
    in_bytes = _images(tmp_path, expected.astype(np.uint8))
    assert splits.digest == in_bytes.digest  # the same teachers, and the same people in the ledger


def test_a_value_out_of_range_is_clipped_alone(tmp_path: Path) -> None:
    """Public rows decide how x is read, so a private value changes nothing but itself."""
    changed = SHARE.copy()
    changed[0, 3, 4, 1] = 1.5
    before = _images(tmp_path, SHARE)
    after = _images(tmp_path, changed)
    expected = before.private.x.copy()
    expected[0, 1, 3, 4] = 255
    assert_array_equal(after.private.x, expected)
    assert_array_equal(after.public.x, before.public.x)


def test_what_only_has_the_shape_of_an_image_says_what_to_type(
    tmp_path: Path, capsys: CaptureFixture[str]
) -> None:
    changed = SHARE.copy()
    changed[20, 3, 4, 1] = 1.5  # a public value
    splits = _images(tmp_path, changed)
    assert splits.private.x.dtype == np.float32
    [line] = capsys.readouterr().err.splitlines()
    assert "dataset.range=" in line and splits.warnings == (line.removeprefix("nzc: "),)
    changed[20, 3, 4, 1] = 99
    assert "far from all others" in _images(tmp_path, changed).warnings[-1]
    assert _images(tmp_path, changed, range=[0, 1.5]).private.x.dtype == np.uint8


@parametrize(
    ("shape", "expected"),
    [
        ((8, 8), (1, 8, 8)),
        ((3, 8, 8), (3, 8, 8)),
        ((3, 8, 3), (3, 8, 3)),
        ((1, 9, 4), (1, 9, 4)),
    ],
)
def test_channels_are_first_or_last(
    tmp_path: Path, shape: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    assert _images(tmp_path, np.zeros((60, *shape), np.uint8)).private.x.shape[1:] == expected
