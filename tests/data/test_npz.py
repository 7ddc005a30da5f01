"""dataset=npz: what is wrong with arrays is said in one line without a value of a record; groups
reach the splits.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import RunNzc, parametrize
from numpy.random import default_rng
from pytest import CaptureFixture, raises

from nzc.data import Units
from nzc.data.npz import Npz
from nzc.data.rows import FileRows
from nzc.validation import InputError

X = default_rng(0).random((60, 8))
Y = np.arange(60) % 3
SPLIT = np.array(["private", "public", "test"])[np.arange(60) // 20]
GROUP = np.array([f"patient {number}" for number in default_rng(0).integers(0, 60, 300)])
ROLE = np.where(GROUP < "patient 4", "private", np.where(GROUP < "patient 5", "public", "test"))
ROWS = {"x": default_rng(1).normal(size=(300, 4)), "y": np.arange(300) % 3}
NAMES = np.array([f"Zyxwv {row}" for row in range(60)])
NUMBERS = 8806 * (2 + Y)


@pytest.fixture
def npz(tmp_path: Path) -> Npz:
    np.savez(tmp_path / "f.npz", **ROWS, group=GROUP)
    return Npz(str(tmp_path / "f.npz"), seed=0, private=0.5, public=0.3)


@parametrize(
    ("arrays", "says"),
    [
        ({"role": SPLIT[:9]}, "role "),
        ({"x": X.astype(str)}, "dataset=table"),
        ({"x": np.where(np.arange(8) > 4, np.inf, X).reshape(60, 2, 4)}, "infinite"),
        ({"y": np.where(np.arange(60) % 5, Y, -1), "role": SPLIT}, "y is -1 in 12 rows"),
        ({"group": np.where(Y, Y, np.nan)}, "group has 20 missing values"),
        ({"role": NAMES}, "role "),
        ({"y": NAMES}, "np.unique(y, return_inverse=True)"),
        ({"y": NUMBERS}, "dataset.classes"),
    ],
)
def test_a_mistake_is_said_without_a_value_of_a_record(
    npz: Npz, arrays: dict[str, np.ndarray], says: str
) -> None:
    """The same is said of an .npz file and of a folder."""
    arrays = {"x": X, "y": Y} | arrays
    folder = Path(npz.path).parent / "folder"
    np.savez(npz.path, **arrays)
    folder.mkdir()
    for name, array in arrays.items():
        np.save(folder / name, array)
    for path in (npz.path, str(folder)):
        with raises(InputError) as refused:
            replace(npz, path=path).load()
        assert str(refused.value).startswith(f"path={path}") and "\n" not in str(refused.value)
        assert says in refused.value.allowed
        assert not any(value in refused.value.allowed for value in ("Zyxwv", "8806", "26418"))


def test_arrays_that_are_not_there(npz: Npz, tmp_path: Path) -> None:
    """A link to nowhere is not left out: without its groups, ε would protect a record instead of a
    person.
    """
    np.savez(npz.path, x=X)
    with raises(InputError, match="y is missing"):
        npz.load()
    np.save(tmp_path / "x", X)
    np.save(tmp_path / "y", Y)
    (tmp_path / "group.npy").symlink_to("nowhere.npy")
    with raises(InputError, match=r"group.npy: .*No such file"):
        replace(npz, path=str(tmp_path)).load()


@parametrize(
    "x",
    [
        ROWS["x"],
        default_rng(0).integers(0, 256, (300, 6, 5, 3), dtype=np.uint8),
    ],
)
def test_a_folder_of_arrays_is_the_npz_file_of_them(
    npz: Npz, tmp_path: Path, x: np.ndarray
) -> None:
    arrays = {"x": x, "y": ROWS["y"], "id": np.arange(300)[::-1]}
    np.savez(npz.path, **arrays)
    for name, array in arrays.items():
        np.save(tmp_path / name, np.asfortranarray(array))
    in_memory = npz.load()
    in_file = replace(npz, path=str(tmp_path)).load()
    assert isinstance(in_file.private.x, FileRows)
    assert (in_file.digest, in_file.private_digest) == (in_memory.digest, in_memory.private_digest)


def test_a_group_on_both_sides_is_refused_or_dropped(npz: Npz) -> None:
    """A person of public rows has the name of one of private rows."""
    group = np.where(GROUP == "patient 41", "patient 3", GROUP)
    np.savez(npz.path, **ROWS, group=group, role=ROLE)
    with raises(InputError, match=r"overlap=refuse.* 1 are in public rows"):
        npz.load()
    rest = (ROLE == "private") & (group != "patient 3")
    assert len(replace(npz, overlap="drop").load().private) == rest.sum()


def test_the_unit_changes_shards_not_splits(npz: Npz, capsys: CaptureFixture[str]) -> None:
    by_group = npz.load()
    by_record = replace(npz, unit="record").load()
    assert capsys.readouterr().err.startswith("nzc: dataset.unit=record: ")
    assert by_record.units.groups is None and by_group.units.groups is not None
    assert by_record.digest != by_group.digest
    # The ledger counts both against the same people.
    assert by_group.private_digest == by_record.private_digest
    assert (
        replace(by_group, units=Units(np.roll(by_group.units.groups, 1))).digest != by_group.digest
    )
    np.savez(npz.path, **ROWS)
    assert replace(npz, unit="record").read().digest == npz.load().digest


def test_without_private_rows_votes_are_taken_by_row_of_the_file(run_nzc: RunNzc) -> None:
    np.savez("f.npz", **ROWS, group=np.arange(300) // 3)
    np.save("votes.npy", 1 + 7 * np.eye(3, dtype=int)[ROWS["y"]])
    with_votes = ["teachers=votes", "teachers.path=votes.npy", "dataset=npz", "dataset.path=f.npz"]
    none = ["dataset.public=0.8", "dataset.private=0", "student=none"]
    ran = run_nzc(*with_votes, *none, "aggregator=plurality")
    assert ran.result["label_accuracy"] == 1
    assert (ran.result["data"]["private"], ran.result["queries"]) == (0, 240)
    refused = run_nzc("dataset=npz", "dataset.path=f.npz", *none, code=2)
    assert "teachers=votes needs none" in refused.err
