"""scikit-learn teachers: through the command line, parallel as alone, odd shards, the store, and
bad settings.
"""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import Nzc
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

from nzc.data import DataSplits, Split
from nzc.data.digits import Digits
from nzc.teachers import sklearn
from nzc.teachers.sklearn import Sklearn, _copy
from nzc.training.trainer import TrainerSettings

RUN = ["student=none", "teachers.count=10", "aggregator=plurality", "teachers.parallel=1"]
TREE = "teachers.estimator._target_=sklearn.tree.DecisionTreeClassifier"
TEACHERS = Sklearn(count=4, estimator=DecisionTreeClassifier(splitter="random"), seed=0, parallel=1)


@pytest.fixture(scope="module")
def splits() -> DataSplits:
    return Digits(0, 400, 100).load()


def test_forests_vote(nzc: Nzc) -> None:
    run = [
        "teachers=forest",
        *RUN[:-1],
        "trainer.progress=false",
        "teachers.estimator.n_estimators=10",
    ]
    ran = nzc(*run, "teachers.parallel=1")
    assert (ran.code, ran.err) == (0, "")
    assert (
        ran.result["teachers"]["count"] == 10 and ran.result["teachers"]["ensemble_accuracy"] > 0.9
    )
    assert nzc(*run, "aggregator=lnmax", "teachers.parallel=2").code == 0
    (stored,) = Path(".nzc").glob("predictions/*.npz")
    assert np.load(stored)["predictions"].dtype == np.uint8


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([TREE, "+teachers.estimator.depth=3"], "teachers.estimator.depth=3.*max_depth"),
        ([TREE, "+teachers.estimator.criterion=x"], "teachers.estimator.criterion=x.*gini"),
        (["teachers.estimator._target_=sklearn.linear_model.Ridge"], "teachers.estimator=Ridge.*classifier"),
        (["teachers.estimator._target_=sklearn.neighbors.KNeighborsClassifier", "+teachers.estimator.n_neighbors=50"],
         "teachers.estimator=KNeighborsClassifier.*12 records"),  # said by another process
    ],
)  # fmt: skip
def test_bad_settings_end_in_one_line(nzc: Nzc, arguments: list[str], says: str) -> None:
    ran = nzc("teachers=sklearn", "student=none", "trainer.progress=false", *arguments)
    assert (ran.code, ran.err.count("\n")) == (2, 1), ran.err
    assert re.search(says, ran.err)


def _predictions(teachers: Sklearn, splits: DataSplits, work: Path) -> np.ndarray:
    work.mkdir(exist_ok=True)
    return teachers.teach(splits, TrainerSettings(progress=False), work)


def test_a_teacher_does_not_depend_on_those_beside_it(
    splits: DataSplits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor on the folder of the store, through which large shards reach the processes; it keeps
    their votes alone.
    """
    monkeypatch.setattr(sklearn, "_LARGE", 0)
    tmp_path = tmp_path / "größe 数 😀 %20#?&'" / ("long" * 50) / ("long" * 50)
    tmp_path.mkdir(parents=True)
    kinds = {
        "together": replace(TEACHERS, parallel=2),
        "alone": TEACHERS,
        "other": replace(TEACHERS, seed=1),
    }
    together, alone, other = (_predictions(kinds[name], splits, tmp_path / name) for name in kinds)
    np.testing.assert_array_equal(together, alone)
    assert len({row.tobytes() for row in alone}) == 4
    left = {
        str(path.relative_to(tmp_path / "together")) for path in (tmp_path / "together").rglob("*")
    }
    assert left == {f"{teacher}.npz" for teacher in range(4)}
    assert (other != alone).any()


def test_shards_of_few_classes(splits: DataSplits, tmp_path: Path) -> None:
    """One record a teacher, and so one class: that is its vote; two classes: one of them."""
    few = DataSplits(
        Split(splits.private.x[:30], splits.private.y[:30]), splits.public, splits.test, 10
    )
    teachers = Sklearn(count=30, estimator=LogisticRegression(), seed=0, parallel=1)
    single = _predictions(teachers, few, tmp_path / "single")
    assert (single == single[:, :1]).all()
    assert sorted(single[:, 0]) == sorted(few.private.y)
    pairs = _predictions(replace(teachers, count=15), few, tmp_path / "pairs")
    assert max(len(set(row)) for row in pairs) == 2


def test_nested_estimators_are_seeded_and_have_one_thread_unless_given() -> None:
    """Each teacher has a process, and LightGBM would take all cores in each."""
    pipeline = make_pipeline(
        RandomForestClassifier(), RandomForestClassifier(n_jobs=3), DecisionTreeClassifier()
    )
    parameters = _copy(pipeline, 7).get_params()
    assert [value for name, value in parameters.items() if name.endswith("__n_jobs")] == [1, 3]
    assert [value for name, value in parameters.items() if name.endswith("__random_state")] == [
        7,
        7,
        7,
    ]


def test_torch_is_never_imported(tmp_path: Path) -> None:
    script = "import sys; from nzc.app.main import main; main(); print('torch' in sys.modules)"
    run = ["teachers=forest", *RUN, "tracking=none", "teachers.estimator.n_estimators=2"]
    command = [sys.executable, "-c", script, *run]
    ran = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
    )
    assert ran.stdout.endswith("False\n"), ran.stderr
