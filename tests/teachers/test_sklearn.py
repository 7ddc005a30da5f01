"""scikit-learn teachers: parallel as alone, odd shards, and bad settings."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import parametrize
from few_labels import QUIET
from pytest import MonkeyPatch, raises
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

from nzc.data import DataSplits, Split
from nzc.data.digits import Digits
from nzc.teachers import sklearn
from nzc.teachers.sklearn import Sklearn, _copy
from nzc.validation import InputError

TEACHERS = Sklearn(count=4, estimator=DecisionTreeClassifier(splitter="random"), seed=0, parallel=1)


@pytest.fixture(scope="module")
def splits() -> DataSplits:
    return Digits(0, 400, 100).load()


def _predictions(teachers: Sklearn, splits: DataSplits, work: Path) -> np.ndarray:
    work.mkdir(exist_ok=True)
    return teachers.teach_all(splits, QUIET, work)


@parametrize(
    ("estimator", "line"),
    [
        (Ridge(), "^estimator=Ridge: "),
        (DecisionTreeClassifier, "^estimator=DecisionTreeClassifier: "),
        (DecisionTreeClassifier(criterion="x"), "^teachers.estimator=Dec.*criterion.*gini"),
        (KNeighborsClassifier(101), "^teachers.estimator=KNeighbors.*100 records.*ValueError"),
    ],
)
def test_bad_settings_are_named(
    estimator: Any, line: str, splits: DataSplits, tmp_path: Path
) -> None:
    """An error that may quote private values is told by its type."""
    teachers = replace(TEACHERS, estimator=estimator)
    with raises(InputError, match=line):
        teachers.check(splits)
        _predictions(teachers, splits, tmp_path)


def test_a_teacher_does_not_depend_on_those_beside_it(
    splits: DataSplits, tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    """Nor on the folder of the store, by which processes get large shards: it keeps votes only."""
    monkeypatch.setattr(sklearn, "_LARGE", 0)
    folder = tmp_path / "größe 数 😀 %20#?&'" / ("long" * 50) / ("long" * 50)
    folder.mkdir(parents=True)
    together = _predictions(replace(TEACHERS, parallel=2), splits, folder / "together")
    alone = _predictions(TEACHERS, splits, folder / "alone")
    other = _predictions(replace(TEACHERS, seed=1), splits, folder / "other")
    np.testing.assert_array_equal(together, alone)
    assert len({row.tobytes() for row in alone}) == 4
    left = {path.name for path in (folder / "together").rglob("*")}
    assert left == {f"{teacher}.npz" for teacher in range(4)}
    assert (other != alone).any()


def test_shards_of_few_classes(splits: DataSplits, tmp_path: Path) -> None:
    """One record a teacher, and so one class: that is its vote."""
    private = Split(splits.private.x[:30], splits.private.y[:30])
    few = replace(splits, private=private)
    teachers = Sklearn(count=30, estimator=LogisticRegression(), seed=0, parallel=1)
    single = _predictions(teachers, few, tmp_path)
    assert (single == single[:, :1]).all()
    assert sorted(single[:, 0]) == sorted(private.y)


def test_nested_estimators_are_seeded_and_single_threaded() -> None:
    """Each teacher has a process, and LightGBM would take all cores in each."""
    pipeline = make_pipeline(
        RandomForestClassifier(), RandomForestClassifier(n_jobs=3), DecisionTreeClassifier()
    )
    parameters = _copy(pipeline, 7).get_params()
    threads = {name: value for name, value in parameters.items() if name.endswith("__n_jobs")}
    states = [value for name, value in parameters.items() if name.endswith("__random_state")]
    assert list(threads.values()) == [1, 3]
    assert states == [7, 7, 7]
