"""Groups of an .npz file: they reach the splits, with and without roles, unless the unit of privacy is the record."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import TEACHERS, Nzc

from nzc.data.npz import Npz
from nzc.validation import InputError

GROUP = np.array([f"patient {number}" for number in np.random.default_rng(0).integers(0, 60, 300)])
ROLE = np.where(GROUP < "patient 4", "private", np.where(GROUP < "patient 5", "public", "test"))
ROWS = {"x": np.random.default_rng(1).normal(size=(300, 4)), "y": np.arange(300) % 3}


@pytest.fixture
def npz(tmp_path: Path) -> Npz:
    np.savez(tmp_path / "f.npz", **ROWS, group=GROUP)
    return Npz(str(tmp_path / "f.npz"), seed=0, private=0.5, public=0.3)


@pytest.mark.parametrize("roles", [{}, {"role": ROLE}])
def test_private_rows_keep_their_groups(npz: Npz, roles: dict[str, np.ndarray]) -> None:
    np.savez(npz.path, **ROWS, group=GROUP, **roles)
    splits = npz.load()
    assert splits.groups is not None
    assert len(splits.groups) == len(splits.private)
    of_row = dict(zip(map(bytes, splits.private.x), splits.groups.tolist(), strict=True))
    standardised = np.float32((ROWS["x"] - splits.standardizer.mean) / splits.standardizer.spread)
    pairs = {(name, of_row[bytes(x)]) for name, x in zip(GROUP, standardised, strict=True) if bytes(x) in of_row}
    assert len(pairs) == len({name for name, _ in pairs}) == len({number for _, number in pairs}) == splits.units
    if roles:
        assert splits.units == len(np.unique(GROUP[ROLE == "private"]))


def test_without_groups_the_record_is_the_unit(npz: Npz) -> None:
    np.savez(npz.path, **ROWS)
    splits = npz.load()
    assert splits.groups is None
    assert splits.units == len(splits.private) == 150
    with pytest.raises(InputError, match=r"unit=group: .* no array group"):
        replace(npz, unit="group").load()
    with pytest.raises(InputError, match="unit=person: must be one of group, record"):
        replace(npz, unit="person")


@pytest.mark.parametrize("roles", [{}, {"role": ROLE}])
@pytest.mark.parametrize("group", [GROUP[:-1], GROUP[:, None], GROUP[0]])
def test_each_row_has_one_group(npz: Npz, roles: dict[str, np.ndarray], group: np.ndarray) -> None:
    np.savez(npz.path, **ROWS, group=group, **roles)
    with pytest.raises(InputError, match="one group per row"):
        npz.load()


def test_the_unit_changes_shards_not_splits(npz: Npz, capsys: pytest.CaptureFixture[str]) -> None:
    by_group = npz.load()
    assert not capsys.readouterr().err
    by_record = replace(npz, unit="record").load()
    said = capsys.readouterr().err
    assert said.startswith("nzc: dataset.unit=record: rows of one group go to several teachers, so ε protects a record")
    assert said.count("\n") == 1
    assert by_record.groups is None
    np.testing.assert_array_equal(by_group.private.x, by_record.private.x)
    assert by_record.digest != by_group.digest
    assert by_group.private_digest == by_record.private_digest  # the ledger counts both against the same people
    other = replace(by_group, groups=np.roll(by_group.groups, 1))
    assert other.digest != by_group.digest


def test_groups_through_the_command_line(nzc: Nzc, npz: Npz) -> None:
    run = ["dataset=npz", f"dataset.path={npz.path}", "student=none", "aggregator=plurality", *TEACHERS]
    private = replace(npz, private=0.7, public=0.2).load().units
    assert private == pytest.approx(0.7 * len(np.unique(GROUP)), abs=8)  # on average
    for key, value, says in (
        ("teachers.count", private + 1, f"from 1 to {private} (one private group each)"),
        ("teachers.stratify", "true", "must be false where the dataset has names of groups"),
    ):
        ran = nzc(*run, f"{key}={value}")
        assert (ran.code, ran.err.count("\n")) == (2, 1), ran.err
        assert f"{key}={value}: " in ran.err
        assert says in ran.err
    by_group, by_record = nzc(*run), nzc(*run, "dataset.unit=record")
    assert (by_group.code, by_group.err, by_record.code) == (0, "", 0), by_record.err
    assert by_record.err.count("dataset.unit=record") == by_record.err.count("\n") == 1
    assert len(list(Path(".nzc").glob("predictions/*.npz"))) == 2
