"""dataset=npz: what is wrong with arrays is said in one line without a value of a record; groups reach the splits."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import STUDENT, TEACHERS, Nzc

from nzc.data.npz import Npz
from nzc.data.rows import FileRows
from nzc.validation import InputError

X, Y = np.random.default_rng(0).random((60, 8)), np.arange(60) % 3
SPLIT = np.array(["private", "public", "test"])[np.arange(60) // 20]
GROUP = np.array([f"patient {number}" for number in np.random.default_rng(0).integers(0, 60, 300)])
ROLE = np.where(GROUP < "patient 4", "private", np.where(GROUP < "patient 5", "public", "test"))
ROWS = {"x": np.random.default_rng(1).normal(size=(300, 4)), "y": np.arange(300) % 3}


@pytest.fixture
def npz(tmp_path: Path) -> Npz:
    np.savez(tmp_path / "f.npz", **ROWS, group=GROUP)
    return Npz(str(tmp_path / "f.npz"), seed=0, private=0.5, public=0.3)


def _complaint(npz: Npz, **arrays: np.ndarray) -> str:
    """What is said of an .npz file of these arrays; the same is said of a folder."""
    np.savez(npz.path, **arrays)
    folder = Path(npz.path).parent / "folder"
    folder.mkdir(exist_ok=True)
    for name, array in arrays.items():
        np.save(folder / name, array)
    complaints = []
    for path in (npz.path, str(folder)):
        with pytest.raises(InputError) as refused:
            replace(npz, path=path).load()
        assert str(refused.value).startswith(f"path={path}") and "\n" not in str(refused.value)
        complaints.append(refused.value.allowed)
    assert complaints[0] == complaints[1]
    return complaints[0]


@pytest.mark.parametrize(
    ("arrays", "allows"),
    [
        ({"x": X[:0], "y": Y[:0]}, "x has the shape [0, 8]"),
        ({"x": X[:5]}, "y has the shape [60]; there must be one y per row, [5]"),
        ({"role": SPLIT[:9]}, "one role per row"),
        ({"x": X.astype(str)}, "x is text; save numbers; dataset=table"),
        ({"y": np.array(["no", "yes", "?"])[Y]}, "np.unique(y, return_inverse=True)"),
        ({"y": Y.astype(float)}, "y is float64; save whole numbers"),
        ({"x": np.where(np.arange(8) == 5, np.nan, X)}, "(NaN) or infinite values in 1 columns, first x[:, 5]"),
        ({"x": np.where(np.arange(8) > 4, np.inf, X).reshape(60, 2, 4)}, "in 3 columns, first x[:, 1, 1]"),
        ({"y": 0 * Y}, "two classes or more; every y is the same"),
        ({"y": Y + 1}, "classes are 1 … 3; they must be 0 … 2: save np.where(y > 0, y - 1, y)"),
        ({"y": 3 * Y}, "number the classes"),
        ({"y": -Y}, "negative numbers other than -1"),
        ({"y": np.where(np.arange(60) % 5, Y, -1)}, "y is -1 in 12 rows"),
        ({"role": np.array(["train", "public", "Test"])[Y]}, "role has other names in 40 rows"),
        ({"role": SPLIT[Y // 2 * 40]}, "no public rows"),
        ({"y": np.where(np.arange(60) % 5, Y, -1), "role": SPLIT}, "y is -1 in 12 rows; only public rows"),
        ({"group": np.where(Y, Y, np.nan)}, "group has 20 missing values"),
        ({"id": np.array(["", "a", "b"])[Y]}, "id has 20 missing values"),
    ],
)  # fmt: skip
def test_each_mistake_is_said_in_its_own_words(npz: Npz, arrays: dict[str, np.ndarray], allows: str) -> None:
    assert allows in _complaint(npz, **{"x": X, "y": Y} | arrays)


def test_arrays_that_are_not_there(npz: Npz, tmp_path: Path) -> None:
    """A link to nowhere is not left out: without its groups, ε would protect a record instead of a person."""
    assert "y is missing" in _complaint(npz, x=X)
    np.save(tmp_path / "folder" / "y", Y)
    (tmp_path / "folder" / "group.npy").symlink_to("nowhere.npy")
    with pytest.raises(InputError, match=r"group.npy: .*cannot be read \(No such file"):
        replace(npz, path=str(tmp_path / "folder")).load()


def test_no_complaint_quotes_a_record(npz: Npz) -> None:
    """Names in the wrong array may be people: they are counted, not shown."""
    names = np.array([f"Zyxwv {row}" for row in range(60)])
    numbers = 8806 * (2 + Y)
    for arrays in ({"role": names}, {"y": names}, {"x": names[:, None]}, {"y": numbers}, {"y": -numbers}):
        complaint = _complaint(npz, **{"x": X, "y": Y} | arrays)
        assert not any(value in complaint for value in ("Zyxwv", "8806", "26418"))


def test_there_may_be_more_classes_than_rows_show(npz: Npz) -> None:
    for y, classes, expected in ((Y, None, 3), (Y, 7, 7), (2 * Y, 5, 5)):
        np.savez(npz.path, x=X, y=y)
        assert replace(npz, classes=classes).load().classes == expected
    with pytest.raises(InputError, match="classes=2"):
        replace(npz, classes=2).load()


def test_images_come_channels_first(npz: Npz) -> None:
    for shape, expected in (((30, 8, 8), (1, 8, 8)), ((30, 8, 8, 3), (3, 8, 8)), ((30, 3, 8, 8), (3, 8, 8))):
        np.savez(npz.path, x=np.zeros(shape, np.uint8), y=np.arange(30) % 2)
        assert npz.load().private.x.shape[1:] == expected


@pytest.mark.parametrize("x", [ROWS["x"], np.random.default_rng(0).integers(0, 256, (300, 6, 5, 3), dtype=np.uint8)])
@pytest.mark.parametrize("names", [{}, {"id": np.arange(300)[::-1]}])
def test_a_folder_of_arrays_is_the_npz_file_of_them(
    npz: Npz, tmp_path: Path, x: np.ndarray, names: dict[str, np.ndarray]
) -> None:
    arrays = {"x": x, "y": ROWS["y"], **names}
    np.savez(npz.path, **arrays)
    for name, array in arrays.items():
        np.save(tmp_path / name, np.asfortranarray(array) if name == "x" else array)
    in_memory, in_file = npz.load(), replace(npz, path=str(tmp_path)).load()
    assert isinstance(in_file.private.x, FileRows)
    np.testing.assert_array_equal(in_file.private.x[:], in_memory.private.x)
    np.testing.assert_array_equal(in_file.test.x, in_memory.test.x)
    assert (in_file.digest, in_file.private_digest) == (in_memory.digest, in_memory.private_digest)


@pytest.mark.parametrize("roles", [{}, {"role": ROLE}])
def test_private_rows_keep_their_groups(npz: Npz, roles: dict[str, np.ndarray]) -> None:
    np.savez(npz.path, **ROWS, group=GROUP, **roles)
    splits = npz.load()
    assert splits.groups is not None and splits.standardizer is not None
    of_row = dict(zip(map(bytes, splits.private.x), splits.groups.tolist(), strict=True))
    standardised = np.float32((ROWS["x"] - splits.standardizer.mean) / splits.standardizer.spread)
    pairs = {(name, of_row[bytes(x)]) for name, x in zip(GROUP, standardised, strict=True) if bytes(x) in of_row}
    assert len(pairs) == len({name for name, _ in pairs}) == len({number for _, number in pairs}) == splits.units
    if roles:
        assert splits.units == len(np.unique(GROUP[ROLE == "private"]))


def test_a_group_with_private_rows_and_others_is_refused_dropped_or_allowed(npz: Npz) -> None:
    shared = np.where(GROUP == "patient 41", "patient 3", GROUP)  # a public one becomes a private one
    assert (ROLE[GROUP == "patient 3"] == "private").all() and (ROLE[GROUP == "patient 41"] == "public").all()
    np.savez(npz.path, **ROWS, group=shared, role=ROLE)
    with pytest.raises(InputError, match=r"overlap=refuse.* 1 are in public rows"):
        npz.load()
    assert len(replace(npz, overlap="allow").load().private) == (ROLE == "private").sum()
    dropped = replace(npz, overlap="drop").load()
    rest = ~((ROLE == "private") & (shared == "patient 3"))
    np.savez(npz.path, **{name: array[rest] for name, array in (ROWS | {"group": shared, "role": ROLE}).items()})
    assert dropped.digest == npz.load().digest


def test_without_groups_the_record_is_the_unit(npz: Npz) -> None:
    np.savez(npz.path, **ROWS)
    splits = npz.load()
    assert splits.groups is None
    assert splits.units == len(splits.private) == 150
    assert replace(npz, unit="record").read().digest == splits.digest
    with pytest.raises(InputError, match=r"unit=group: .* no groups"):
        replace(npz, unit="group").read()


def test_the_unit_changes_shards_not_splits(npz: Npz, capsys: pytest.CaptureFixture[str]) -> None:
    by_group = npz.load()
    with pytest.raises(InputError, match=r"^unit=label: "):  # several labels of a group may differ
        replace(npz, unit="label").read()
    assert not capsys.readouterr().err
    by_record = replace(npz, unit="record").load()
    assert capsys.readouterr().err.startswith("nzc: dataset.unit=record: ")
    assert by_record.groups is None and by_group.groups is not None
    np.testing.assert_array_equal(by_group.private.x, by_record.private.x)
    assert by_record.digest != by_group.digest
    assert by_group.private_digest == by_record.private_digest  # the ledger counts both against the same people
    assert replace(by_group, groups=np.roll(by_group.groups, 1)).digest != by_group.digest


def test_groups_through_the_command_line(nzc: Nzc, npz: Npz) -> None:
    run = ["dataset=npz", f"dataset.path={npz.path}", "student=none", "aggregator=plurality", *TEACHERS]
    private = replace(npz, private=0.7, public=0.2).load().units
    assert private == pytest.approx(0.7 * len(np.unique(GROUP)), abs=8)  # on average
    ran = nzc(*run, f"teachers.count={private + 1}")
    assert (ran.code, ran.err.count("\n")) == (2, 1), ran.err
    assert f"from 1 to {private} (one private group each)" in ran.err


def test_without_private_rows_votes_are_taken_by_row_of_the_file(nzc: Nzc) -> None:
    group, y = np.arange(300) // 3, np.arange(300) % 3
    np.savez("f.npz", x=np.random.default_rng(0).normal(size=(300, 4)), y=y, group=group)
    np.save("votes.npy", np.where(np.eye(3)[y] > 0, 8, 1))
    with_votes = ["teachers=votes", "teachers.path=votes.npy", "dataset=npz", "dataset.path=f.npz"]
    few = [*STUDENT, "dataset.public=0.8", "dataset.private=0"]
    ran = nzc(*with_votes, *few, "aggregator=plurality")
    assert ran.code == 0, ran.err
    assert ran.result["label_accuracy"] == 1
    assert (ran.result["data"]["private"], ran.result["queries"]) == (0, 240)
    assert "teachers=votes needs none" in nzc("dataset=npz", "dataset.path=f.npz", "dataset.private=0", *few[:-1]).err
    assert "dataset.private=1.5" in nzc(*with_votes, "dataset.private=1.5").err
