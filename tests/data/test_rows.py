"""Private rows that stay in a file, or are drawn, are the same rows as in memory."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from nzc.data import Dataset, DataSplits, Records, Split
from nzc.data.folder import Folder
from nzc.data.glyph import Glyph
from nzc.data.npz import Npz
from nzc.data.rows import FileRows, LazyRows, blocks, gather
from nzc.data.table import Table
from nzc.storage.predictions import PredictionStore
from nzc.teachers.ensemble import Ensemble
from nzc.training.trainer import TrainerSettings
from nzc.types import AnyArray
from nzc.validation import InputError

GLYPH = Glyph(seed=0, private=300, public=20, test=20)
RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (500, 6, 5, 3), dtype=np.uint8)
FEATURES = RNG.normal(size=(500, 4))
TRAINER = TrainerSettings(progress=False, accelerator="cpu")
Y = RNG.integers(0, 3, 500)


@pytest.mark.parametrize("x", [IMAGES, FEATURES], ids=["images", "features"])
def test_rows_in_a_file_are_those_in_memory(x: AnyArray) -> None:
    parts = np.array_split(x, 7)
    held, filed = gather(parts), gather(parts, held=0)
    assert isinstance(held, np.ndarray) and isinstance(filed, FileRows)
    assert (filed.shape, filed.dtype, len(filed)) == (x.shape, x.dtype, len(x))
    numbers = RNG.permutation(len(x))[:90]
    for rows in (numbers, slice(3, 40), slice(None)):
        np.testing.assert_array_equal(filed[rows], x[rows])
        np.testing.assert_array_equal(held[rows], x[rows])


def test_rows_of_which_all_are_needed_come_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks are cut where batches of 1,000 rows are, so that an encoder gets the batches of rows that are held."""
    monkeypatch.setattr("nzc.data.rows._BLOCK", 7 * FEATURES[0].nbytes)
    parts = list(blocks(gather([FEATURES], held=0)))
    assert {len(part) for part in parts[:-1]} == {7}
    np.testing.assert_array_equal(np.concatenate(parts), FEATURES)
    monkeypatch.setattr("nzc.data.rows._BLOCK", 2345)
    assert [len(part) for part in blocks(gather([np.zeros((4500, 1), np.uint8)], held=0))] == [2000, 2000, 500]


@pytest.mark.parametrize("x", [IMAGES, FEATURES], ids=["images", "features"])
@pytest.mark.parametrize("named", [False, True], ids=["numbered", "named"])
def test_a_folder_of_arrays_is_the_npz_file_of_them(tmp_path: Path, x: AnyArray, named: bool) -> None:
    arrays = {"x": x, "y": Y, **({"id": RNG.permutation(500)} if named else {})}
    np.savez(tmp_path / "all.npz", **arrays)
    for name, array in arrays.items():
        np.save(tmp_path / name, np.asfortranarray(array) if name == "x" else array)
    npz = Npz(str(tmp_path / "all.npz"), seed=0, private=0.6, public=0.2)
    held, filed = npz.load(), replace(npz, path=str(tmp_path)).load()
    assert isinstance(filed.private.x, FileRows)
    np.testing.assert_array_equal(filed.private.x[:], held.private.x)
    np.testing.assert_array_equal(filed.test.x, held.test.x)
    assert (filed.digest, filed.private_digest) == (held.digest, held.private_digest)


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


@pytest.mark.parametrize("made", [_table, _folder])
def test_a_large_table_or_folder_gives_the_rows_of_a_small_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: Callable[[Path], Dataset]
) -> None:
    dataset = made(tmp_path)
    held = dataset.load()
    for module in ("table", "folder"):
        monkeypatch.setattr(f"nzc.data.{module}.gather", partial(gather, held=0))
    filed = dataset.load()
    assert isinstance(filed.private.x, FileRows) and isinstance(filed.test.x, np.ndarray)
    assert (filed.digest, filed.private_digest) == (held.digest, held.private_digest)


@pytest.mark.parametrize(
    ("arrays", "allowed"),
    [
        ({"y": Y}, "a folder with x.npy"),
        ({"x": np.where(FEATURES > 2, np.nan, FEATURES), "y": Y}, "missing (NaN) or infinite values"),
        ({"x": FEATURES.astype(object), "y": Y}, "x is an object array"),
        ({"x": FEATURES[0], "y": Y}, "x has the shape [4]"),
        ({"x": FEATURES[0, 0], "y": Y}, "x has the shape []"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_folder_of_arrays_is_said(tmp_path: Path, arrays: dict[str, AnyArray], allowed: str) -> None:
    for name, array in arrays.items():
        np.save(tmp_path / name, array)
    with pytest.raises(InputError, match=r"^path=") as refused:
        Npz(str(tmp_path), seed=0, private=0.6, public=0.2).load()
    assert allowed in str(refused.value)


def test_an_array_that_is_no_file_is_not_left_out(tmp_path: Path) -> None:
    """Without its groups, ε would protect a record instead of a person."""
    for name, array in {"x": FEATURES, "y": Y}.items():
        np.save(tmp_path / name, array)
    (tmp_path / "group.npy").symlink_to("nowhere.npy")
    with pytest.raises(InputError, match=r"group.npy: must be a file that can be read \(No such file"):
        Npz(str(tmp_path), seed=0, private=0.6, public=0.2).load()


def test_private_records_are_not_public_under_another_name(tmp_path: Path) -> None:
    table, link = _table(tmp_path), tmp_path / "link.csv"
    link.symlink_to("private.csv")
    with pytest.raises(InputError, match=r"^public=.*link.csv: must be another file than dataset.private"):
        replace(table, public=str(link)).load()


def test_a_folder_of_which_nothing_is_private(tmp_path: Path) -> None:
    assert len(replace(_folder(tmp_path), private=0.0).load().private) == 0


def test_private_glyphs_are_drawn_where_they_are_needed() -> None:
    splits = GLYPH.load()
    assert isinstance(splits.private.x, LazyRows)
    whole, numbers = GLYPH.draw("private", np.arange(300)), RNG.permutation(300)[:50]
    np.testing.assert_array_equal(splits.private.x[numbers], whole.x[numbers])
    np.testing.assert_array_equal(splits.private.y, whole.y)
    again = pickle.loads(pickle.dumps(splits.private.x))
    np.testing.assert_array_equal(again[numbers], whole.x[numbers])


def test_the_digest_of_drawn_rows_differs_wherever_they_do() -> None:
    others = [GLYPH, replace(GLYPH, seed=1), replace(GLYPH, private=299), replace(GLYPH, imbalance=4.0),
              replace(GLYPH, mislabelled=0.2), replace(GLYPH, public_fonts=0.4)]  # fmt: skip
    assert len({each.load().private_digest for each in others}) == len(others)
    assert GLYPH.load().digest == GLYPH.load().digest


def _sum(rows: FileRows) -> float:
    return float(rows[:].sum())


def test_another_process_reads_the_same_file() -> None:
    """As Lightning sends rows to a process for each device; the file has no name."""
    rows = gather([FEATURES], held=0)
    context = get_context("spawn")
    with context.Pool(1) as pool:
        assert pool.apply(_sum, (rows,)) == pytest.approx(FEATURES.sum())


def test_teachers_of_rows_in_a_file_predict_the_same(tmp_path: Path) -> None:
    public = Split(FEATURES[:20].astype(np.float32), Y[:20])
    x = FEATURES.astype(np.float32)
    teachers = Ensemble(
        count=5, network="mlp", epochs=3, batch_size=16, lr=0.01, weight_decay=0.0, seed=0, augment=None
    )
    found = []
    for private in (Records(x, Y), Records(gather([x], held=0), Y)):
        splits = DataSplits(private, public, public, 3)
        found.append(teachers.train(splits, PredictionStore(tmp_path / str(len(found))), TRAINER))
    np.testing.assert_array_equal(*found)
