"""The exported student: it prepares rows as the run did, and refuses what means something else."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import torch
from conftest import parametrize
from few_labels import COMMON, clouds, fit
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import raises
from torch import nn

from nzc.data import Standardizer
from nzc.data.images import Pixels
from nzc.students import StudentData, exported
from nzc.students.export import RawInput, write_student
from nzc.students.supervised import Supervised

#: A student that gives its rows back.
SEEN = SimpleNamespace(classifier=nn.Identity(), weights=None)


def _native(x: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(x.astype(x.dtype.newbyteorder("=")))


ROWS = default_rng(0).normal(size=(1000, 5)) * 20 + [0, 50, -50, 70, 40]


@parametrize(
    "x",
    [
        ROWS.astype(np.float16),
        ROWS > 0,
        (np.abs(ROWS) * 1e16).astype(np.uint64),
        ROWS.astype(">f4"),
        1e100 * ROWS,
        np.append(np.full((9, 5), -9999), ROWS, axis=0),
    ],
    ids=["float16", "bool", "uint64", "big-endian", "1e100", "codes"],
)
def test_a_served_row_is_standardised_to_the_last_digit(x: np.ndarray) -> None:
    standardizer = Standardizer.fit(x[:100])
    served = RawInput(SEEN, standardizer)(_native(x))
    assert_array_equal(served.numpy(), standardizer(x))


@parametrize(
    ("dtype", "levels"),
    [
        ("uint8", None),
        ("bool", None),
        ("float64", [0, 1]),
        (">f4", [0, 1]),
        ("uint16", [0, 300]),
    ],
)
@parametrize("shape", [(9, 8, 4), (2, 9, 8)])
def test_a_served_image_is_prepared_to_the_last_digit(
    dtype: str, levels: list[int] | None, shape: tuple[int, ...]
) -> None:
    grey = default_rng(0).integers(0, 256, (40, *shape))
    kinds = {"u": grey, "b": grey > 99, "f": grey / 250 - 0.01}
    images = kinds[np.dtype(dtype).kind].astype(dtype)
    pixels = Pixels.of(images, levels, alpha=True)
    served = RawInput(SEEN, pixels)(_native(images))
    assert torch.equal(served, torch.from_numpy(pixels(images)).float() / 255)


GREY = default_rng(0).integers(0, 256, (40, 9, 8)).astype(np.uint8)
SHARES = GREY / 255


@parametrize(
    ("x", "same", "others"),
    [
        (GREY, GREY.astype(np.int64), [SHARES, GREY.astype(np.uint16) + 300]),
        (SHARES, np.float32(SHARES), [GREY, np.where(SHARES > 0.9, np.nan, SHARES), SHARES[:, 1:]]),
    ],
    ids=["bytes", "shares of white"],
)
def test_a_served_student_refuses_images_of_other_numbers(
    x: np.ndarray, same: np.ndarray, others: list[np.ndarray], tmp_path: Path
) -> None:
    """Shares of white are no bytes, and bytes no shares: both would be an image of one colour."""
    pixels = Pixels.of(x, None, alpha=True)
    flat = SimpleNamespace(classifier=nn.Flatten(), weights=None)
    write_student(tmp_path / "student.pt2", flat, pixels(x), pixels)
    array = {"shape": pixels.shape, "dtype": pixels.dtype, "range": pixels.levels}
    about = exported.describe([*map(str, range(72))], None, array, None)
    (tmp_path / "student.json").write_text(about)
    served = exported.ExportedStudent(tmp_path)
    pd.testing.assert_frame_equal(served.predict(same), served.predict(x))
    for other in others:
        with raises(ValueError, match="must be"):
            served.predict(other)


@parametrize("standardised", [True, False])
def test_a_served_student_answers_every_row(tmp_path: Path, standardised: bool) -> None:
    """Missing and absurd values change no other row; a missing one is the mean."""
    data, _ = clouds(100, 60, shape=(3,))
    standardizer = None
    features = data.x
    if standardised:
        standardizer = Standardizer.fit(data.x.astype(np.float64))
        features = standardizer(data.x)
    student = fit(Supervised(**COMMON), StudentData(features, data.labels, 3))
    write_student(tmp_path / "student.pt2", student, features, standardizer)
    served = torch.export.load(tmp_path / "student.pt2").module()

    absurd = np.array([np.inf, -np.inf, 1e30, -1e30, np.nan], np.float32)
    rows = np.concatenate([data.x, np.repeat(absurd[:, None], 3, axis=1)])
    missing = np.zeros((1, 3), np.float32)  # the last row, in which all values are missing
    expected = student.probabilities(np.concatenate([features, missing]))
    found = served(torch.from_numpy(rows)).detach()
    assert found.isfinite().all()
    probabilities = found.double().softmax(dim=1)[[*range(100), -1]]
    assert_allclose(probabilities, expected, rtol=1e-6)
