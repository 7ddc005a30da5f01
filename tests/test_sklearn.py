"""scikit-learn teachers: through the command line, parallel as alone, odd shards, the store, and bad settings."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from conftest import Nzc
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from nzc.datasets import Roles, Split
from nzc.datasets.digits import Digits
from nzc.errors import InputError
from nzc.store import Store
from nzc.store.store import save
from nzc.teachers.sklearn import Sklearn, _described
from nzc.training import Training

RUN = ["student=none", "teachers.count=10", "aggregator=plurality", "teachers.parallel=1"]
TREE = "teachers.estimator._target_=sklearn.tree.DecisionTreeClassifier"
TEACHERS = Sklearn(count=4, estimator=DecisionTreeClassifier(splitter="random"), seed=0, parallel=1)


@pytest.fixture(scope="module")
def roles() -> Roles:
    return Digits(0, 400, 100).load()


def test_forests_vote(nzc: Nzc) -> None:
    ran = nzc("teachers=forest", *RUN)
    assert ran.code == 0, ran.err
    assert not ran.err
    assert ran.result["teachers"]["count"] == 10
    assert ran.result["teachers"]["ensemble_accuracy"] > 0.9
    (stored,) = Path(".nzc").glob("predictions/*/predictions.npy")
    assert np.load(stored).dtype == np.uint8
    again = nzc("teachers=forest", *RUN, "aggregator=lnmax", "teachers.parallel=2")
    assert again.code == 0
    assert len(list(Path(".nzc").glob("predictions/*/"))) == 1


def test_any_classifier_by_its_class(nzc: Nzc) -> None:
    chosen = "teachers.estimator._target_=sklearn.linear_model.LogisticRegression"
    ran = nzc("teachers=sklearn", chosen, "+teachers.estimator.C=0.1", *RUN)
    assert ran.code == 0, ran.err
    assert ran.result["teachers"]["mean_accuracy"] > 0.6


@pytest.mark.parametrize(
    ("arguments", "key", "says"),
    [
        (["teachers.estimator._target_=sklearn.foo.Bar"], "teachers.estimator._target_=sklearn.foo.Bar", "sklearn.foo"),
        ([TREE, "+teachers.estimator.depth=3"], "teachers.estimator.depth=3", "max_depth"),
        ([TREE, "+teachers.estimator.max_depth=-1"], "teachers.estimator.max_depth=-1", "[1, inf)"),
        ([TREE, "+teachers.estimator.criterion=x"], "teachers.estimator.criterion=x", "gini"),
        (["teachers.estimator._target_=sklearn.linear_model.Ridge"], "teachers.estimator=Ridge", "classifier"),
        (["teachers.estimator=3"], "teachers.estimator=int", "classifier"),
        (["teachers.count=1201"], "teachers.count=1201", "from 1 to 1,200"),
        (["teachers.parallel=0"], "teachers.parallel=0", "1 or more"),
        (["dataset=none"], "dataset=none", "teachers=votes"),
    ],
)
def test_bad_settings_end_in_one_line(nzc: Nzc, arguments: list[str], key: str, says: str) -> None:
    ran = nzc("teachers=sklearn", "student=none", *arguments)
    assert ran.code == 2
    assert ran.err.count("\n") == 1, ran.err
    assert key in ran.err
    assert says in ran.err
    assert not list(Path.cwd().iterdir())


def test_what_shards_refuse_to_teach_is_said(nzc: Nzc) -> None:
    """From another process too."""
    knn = ["teachers.estimator._target_=sklearn.neighbors.KNeighborsClassifier", "+teachers.estimator.n_neighbors=50"]
    ran = nzc("teachers=sklearn", "student=none", *knn)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "teachers.estimator=KNeighborsClassifier" in ran.err
    assert "12 records" in ran.err


def _predictions(teachers: Sklearn, roles: Roles) -> np.ndarray:
    with TemporaryDirectory() as work:
        return teachers._fit(roles, Path(work))["predictions"]


def test_a_teacher_does_not_depend_on_those_beside_it(roles: Roles) -> None:
    together, alone = _predictions(replace(TEACHERS, parallel=2), roles), _predictions(TEACHERS, roles)
    np.testing.assert_array_equal(together, alone)
    assert len({row.tobytes() for row in alone}) == 4
    assert (_predictions(replace(TEACHERS, seed=1), roles) != alone).any()


def test_what_is_fitted_is_not_fitted_again(roles: Roles, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = TEACHERS._fit(roles, tmp_path)["predictions"]
    save(tmp_path / "2.npy", marked := np.full(100, 7, np.uint8))
    (tmp_path / "1.npy").unlink()
    (tmp_path / "3.npy").write_bytes((tmp_path / "3.npy").read_bytes()[:-40])  # cut: seen, and made good
    again = TEACHERS._fit(roles, tmp_path)["predictions"]
    np.testing.assert_array_equal(again[[0, 1, 3]], whole[[0, 1, 3]])
    np.testing.assert_array_equal(again[2], marked)
    assert capsys.readouterr().err.count("3.npy was damaged") == 1


def test_shards_of_few_classes(roles: Roles) -> None:
    """One record a teacher, and so one class: it is what the teacher says; two classes: one of them."""
    few = Roles(Split(roles.private.x[:30], roles.private.y[:30]), roles.public, roles.test, 10)
    single = _predictions(Sklearn(count=30, estimator=LogisticRegression(), seed=0, parallel=1), few)
    assert (single == single[:, :1]).all()
    assert sorted(single[:, 0]) == sorted(few.private.y)
    pairs = _predictions(Sklearn(count=15, estimator=LogisticRegression(), seed=0, parallel=1), few)
    assert max(len(set(row)) for row in pairs) == 2


def test_nested_estimators_are_seeded(roles: Roles) -> None:
    pipeline = make_pipeline(StandardScaler(), RandomForestClassifier(3))
    first, again = (_predictions(Sklearn(count=2, estimator=pipeline, seed=0, parallel=1), roles) for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_predictions_are_stored_by_what_made_them(roles: Roles, tmp_path: Path) -> None:
    store = Store(tmp_path)
    quiet = Training(progress=False)
    variants = [
        TEACHERS,
        replace(TEACHERS, estimator=DecisionTreeClassifier(splitter="random")),  # equal, and not the same
        replace(TEACHERS, parallel=None),
        replace(TEACHERS, seed=1),
        replace(TEACHERS, estimator=DecisionTreeClassifier(max_depth=2)),
        replace(TEACHERS, estimator=SVC()),
    ]
    entries = []
    for teachers in variants:
        teachers.train(roles, store, quiet)
        entries.append(len(store.entries()))
    assert entries == [1, 1, 1, 2, 3, 4]


def test_descriptions_tell_contents() -> None:
    told = _described(make_pipeline(FunctionTransformer(np.sqrt), SVC(C=2)))
    assert told == _described(make_pipeline(FunctionTransformer(np.sqrt), SVC(C=2)))
    assert told != _described(make_pipeline(FunctionTransformer(np.log), SVC(C=2)))
    assert told["steps"][1][1]["C"] == 2
    assert "kernel" not in told["steps"][1][1]


def test_torch_is_never_imported(tmp_path: Path) -> None:
    script = "import sys; from nzc.__main__ import main; main(); print('torch' in sys.modules)"
    arguments = ["teachers=forest", *RUN, "tracking=none", "teachers.count=2", "teachers.estimator.n_estimators=2"]
    command = [sys.executable, "-c", script, *arguments]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert ran.stdout.endswith("False\n"), ran.stderr


def test_an_input_error_survives_another_process() -> None:
    import pickle

    error = pickle.loads(pickle.dumps(InputError("a.b", 3, "must be 4")))
    assert (str(error), error.key) == ("a.b=3: must be 4", "a.b")
