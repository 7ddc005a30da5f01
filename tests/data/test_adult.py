"""UCI Adult sees public rows alone, and lines up with the published votes."""

from pathlib import Path

import numpy as np
import pytest
from conftest import published
from numpy.testing import assert_array_equal
from pytest import MonkeyPatch, approx, raises

from nzc.data import adult
from nzc.data.adult import Adult
from nzc.validation import InputError

PERSON = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, "
    "2174, 0, 40, {}, {}"
)


@pytest.fixture
def small_adult(tmp_path: Path, monkeypatch: MonkeyPatch) -> Path:
    """Four private records, one from a country that no public row knows; six rows of test."""
    monkeypatch.setattr(adult, "ROWS", {"adult.data": 4, "adult.test": 6})
    folder = tmp_path / "adult"
    folder.mkdir()
    private = [PERSON.format(country, "<=50K") for country in ("Peru", "France", "?", "Peru")]
    countries = ("Peru", "France", "Peru", "?", "India", "India")
    rows = [PERSON.format(country, ">50K.") for country in countries]
    rows[0] = rows[0].replace("39", "41", 1)
    (folder / "adult.data").write_text("\n".join(private) + "\n\n")
    (folder / "adult.test").write_text("|1x3 Cross validator\n" + "\n".join(rows) + "\n\n")
    return folder


def test_adult_sees_public_rows_alone(small_adult: Path) -> None:
    roles = Adult(str(small_adult.parent), public=3).load()
    assert (len(roles.private), len(roles.public), len(roles.test)) == (4, 3, 3)
    assert roles.private.x.shape[1:] == (
        6 + 7 + 2,
    )  # numbers; seven words never change; Peru and France
    assert_array_equal(roles.private.x[:, -2:], [[0, 1], [1, 0], [0, 0], [0, 1]])
    assert roles.public.x[:, 0].std() == approx(1, abs=1e-6)
    assert roles.private.y.tolist() == [0, 0, 0, 0] and roles.test.y.tolist() == [1, 1, 1]
    text = (small_adult / "adult.data").read_text()
    (small_adult / "adult.data").write_text(text.replace("39", "90").replace("Peru", "Chile"))
    after = Adult(str(small_adult.parent), public=3).load()
    assert_array_equal(roles.public.x, after.public.x)
    assert_array_equal(roles.test.x, after.test.x)
    (small_adult / "adult.data").write_text(text.partition("\n")[2])  # a row less
    with raises(InputError, match=r"\Aroot=.*adult/adult.data.*\Z"):
        Adult(str(small_adult.parent), public=3).load()


def test_adult_lines_up_with_the_published_votes() -> None:
    votes, labels = published("adult_250_teachers.npy"), published("adult_true_labels.npy")
    if not (votes.parents[1] / "adult" / "adult.data").is_file():
        pytest.skip("NZC_DATA names no folder with adult/adult.data")
    roles = Adult(str(votes.parents[1]), public=14_281).load()
    assert (len(roles.private), len(roles.public), len(roles.test)) == (32_561, 14_281, 2_000)
    assert_array_equal(np.concatenate([roles.public.y, roles.test.y]), np.load(labels))
    assert (roles.public.y[:500] == np.load(votes)[:500].argmax(axis=1)).mean() > 0.8
