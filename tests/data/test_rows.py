"""Private rows that stay in a file are the same rows as in memory."""

from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd
from conftest import parametrize
from numpy.testing import assert_array_equal
from PIL import Image
from pytest import MonkeyPatch, approx

from nzc.data import Dataset
from nzc.data.folder import Folder
from nzc.data.rows import FileRows, gather
from nzc.data.table import Table
from nzc.types import AnyArray

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (500, 6, 5, 3), dtype=np.uint8)
FEATURES = RNG.normal(size=(500, 4))
Y = RNG.integers(0, 3, 500)


@parametrize("x", [IMAGES, FEATURES], ids=["images", "features"])
@parametrize("held", [0, 9000, 10**9])
def test_rows_in_a_file_are_those_in_memory(x: AnyArray, held: int) -> None:
    rows = gather(np.array_split(x, 7), held=held)
    assert isinstance(rows, np.ndarray) == (x.nbytes <= held)
    assert (rows.shape, rows.dtype, len(rows)) == (x.shape, x.dtype, len(x))
    for numbers in (RNG.permutation(len(x))[:90], slice(3, 40), slice(None)):
        assert_array_equal(rows[numbers], x[numbers])


def _table(folder: Path) -> Table:
    rows = {"age": FEATURES[:, 0], "ward": np.array(["ER", "ICU", "surgery"])[Y], "back": Y}
    files = {name: str(folder / f"{name}.csv") for name in ("private", "public", "test")}
    for file in files.values():
        pd.DataFrame(rows).to_csv(file, index=False)
    return Table(**files, label="back")


def _folder(folder: Path) -> Folder:
    for number, image in enumerate(IMAGES[:60]):
        (folder / str(number % 2)).mkdir(exist_ok=True)
        Image.fromarray(image).save(folder / str(number % 2) / f"{number}.png")
    return Folder(str(folder), seed=0, private=0.5, public=0.3)


@parametrize("made", [_table, _folder])
def test_a_large_table_or_folder_gives_the_rows_of_a_small_one(
    tmp_path: Path, monkeypatch: MonkeyPatch, made: Callable[[Path], Dataset]
) -> None:
    dataset = made(tmp_path)
    in_memory = dataset.load()
    for module in ("table", "folder"):
        monkeypatch.setattr(f"nzc.data.{module}.gather", partial(gather, held=0))
    in_file = dataset.load()
    assert isinstance(in_file.private.x, FileRows) and isinstance(in_file.test.x, np.ndarray)
    assert (in_file.digest, in_file.private_digest) == (in_memory.digest, in_memory.private_digest)


def _sum(rows: FileRows) -> float:
    return float(rows[:].sum())


def test_another_process_reads_the_same_file() -> None:
    """As Lightning sends rows to a process for each device; the file has no name."""
    rows = gather([FEATURES], held=0)
    with get_context("spawn").Pool(1) as pool:
        assert pool.apply(_sum, (rows,)) == approx(FEATURES.sum())
