"""What is wrong with the arrays of an .npz file is said in one line, without a value of a record."""

from pathlib import Path

import numpy as np
import pytest

from nzc.data.npz import Npz
from nzc.validation import InputError

X, Y = np.random.default_rng(0).random((60, 8)), np.arange(60) % 3
ROLE = np.array(["private", "public", "test"])[np.arange(60) // 20]


def _with(value: float, *columns: int) -> np.ndarray:
    """X with `value` in the first rows of these columns, each a row longer than the last."""
    x = X.copy()
    for rows, column in enumerate(columns, start=1):
        x[:rows, column] = value
    return x


WRONG = {
    "empty": ({"x": X[:0], "y": Y[:0]}, "at least one row"),
    "one class": ({"x": X, "y": 0 * Y}, "two classes"),
    "unknown classes": ({"x": X, "y": 0 * Y - 1}, "every y is -1"),
    "no x": ({"y": Y}, "arrays x and y; of its 1 arrays, none is x"),
    "lengths": ({"x": X[:5], "y": Y}, "x has 5 rows and y has 60; there must be one y"),
    "one axis": ({"x": X[:, 0], "y": Y}, "x has the shape [60]"),
    "column": ({"x": X, "y": Y[:, None]}, "y.ravel()"),
    "one-hot": ({"x": X, "y": np.eye(3)[Y]}, "y.argmax(axis=1)"),
    "fractions": ({"x": X, "y": Y + 0.5}, "y has fractions; y must be classes, whole numbers"),
    "labels with points": ({"x": X, "y": Y.astype(float)}, "y is float64; save its whole numbers as integers"),
    "missing labels": ({"x": X, "y": np.where(Y == 0, np.nan, Y)}, "y has 20 missing"),
    "text labels": ({"x": X, "y": np.array(["no", "yes", "?"])[Y]}, "np.unique(y, return_inverse=True)"),
    "objects": ({"x": X, "y": np.array([None, 0, 1])[Y]}, "y is an object array"),
    "from 1": ({"x": X, "y": Y + 1}, "classes are 1 … 3; subtract 1, because they must be 0 … 2: y - 1"),
    "unknown from 1": ({"x": X, "y": np.where(ROLE == "public", -1, Y + 1), "role": ROLE}, "np.where(y > 0, y - 1, y)"),
    "gaps": ({"x": X, "y": 3 * Y}, "y has no row of class 1, nor of 3 others"),
    "negative": ({"x": X, "y": -Y}, "negative numbers other than -1"),
    "huge": ({"x": X, "y": Y * 10**9}, "not below the number of rows"),
    "missing values": ({"x": _with(np.nan, 3, 7), "y": Y}, "missing values (NaN): 1 in column 3, 2 in column 7 (the"),
    "many": ({"x": X * np.nan, "y": Y}, "60 in column 3, 240 in 4 others"),
    "infinite": ({"x": _with(-np.inf, 5), "y": Y}, "infinite values: 1 in column 5"),
    "in an image": ({"x": _with(np.nan, 5).reshape(60, 2, 4), "y": Y}, "1 in x[:, 1, 1]; fill"),
    "complex": ({"x": X * 1j, "y": Y}, "x is complex"),
    "text": ({"x": X.astype(str), "y": Y}, "x is text"),
    "fields": ({"x": np.zeros((60, 1), [("age", "f8")]), "y": Y}, "named fields"),
    "wide": ({"x": X.astype(np.longdouble), "y": Y}, "whose values float64 cannot hold"),
    "one group": ({"x": X, "y": Y, "group": 0 * Y}, "1 groups are too few"),
    "dates as groups": ({"x": X, "y": Y, "group": Y.astype("datetime64[D]")}, "group is datetime64[D]"),
    "missing groups": ({"x": X, "y": Y, "group": np.array(["a", "b", "None"])[Y]}, "group has 20 missing values"),
    "missing numbers": ({"x": X, "y": Y, "group": np.where(Y == 0, np.nan, Y)}, "group has 20 missing values"),
    "unknown without roles": ({"x": X, "y": Y - 1}, "there is no role"),
    "own roles": (
        {"x": X, "y": Y, "role": np.array(["train", "public", "Test"])[Y]},
        "role has other names in 40 rows",
    ),
    "roles in bytes": ({"x": X, "y": Y, "role": ROLE.astype("S")}, "role.astype(str)"),
    "few roles": ({"x": X, "y": Y, "role": ROLE[:9]}, "one role per row"),
    "roles without public rows": ({"x": X, "y": Y, "role": ROLE[Y // 2 * 40]}, "no public rows"),
    "unknown private rows": (
        {"x": X, "y": np.where(np.arange(60) % 5, Y, -1), "role": ROLE},
        "-1 in 4 private rows and 4 test",
    ),
}


def _said(folder: Path, arrays: dict[str, np.ndarray]) -> str:
    np.savez(folder / "data.npz", **arrays)
    with pytest.raises(InputError) as refused:
        Npz(str(folder / "data.npz"), seed=0, private=0.5, public=0.3).load()
    return str(refused.value)


@pytest.mark.parametrize("kind", WRONG)
def test_each_mistake_is_said_in_its_own_words(tmp_path: Path, kind: str) -> None:
    arrays, allows = WRONG[kind]
    said = _said(tmp_path, arrays)
    assert said.startswith(f"path={tmp_path}/data.npz: ")
    assert allows in said and "\n" not in said


def test_no_complaint_quotes_a_record(tmp_path: Path) -> None:
    """Names in the wrong array may be people: many of them are counted, not shown."""
    names = np.array([f"Zyxwv {row}" for row in range(60)])
    numbers = 8806 * (2 + Y)
    for arrays in ({"role": names}, {"y": names}, {"x": names[:, None]}, {"y": numbers}, {"y": -numbers}):
        said = _said(tmp_path, {"x": X, "y": Y, **arrays})
        assert "Zyxwv" not in said and "8806" not in said and "26418" not in said
