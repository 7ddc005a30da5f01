"""Figures of merit: by hand-counted cases and scikit-learn's own; the warnings; where a run shows
them.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import SMALL, Nzc, tracked_runs
from mlflow import MlflowClient
from omegaconf import OmegaConf
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    f1_score,
    log_loss,
    recall_score,
    roc_auc_score,
)

from nzc.app.build import build_metrics
from nzc.app.config import compose_run
from nzc.app.job import _objective
from nzc.runs.metrics import Agreement, Metrics, unequal_classes, warnings_of
from nzc.runs.own_metric import OwnMetric, own_metrics
from nzc.runs.result import RunResult, is_taken
from nzc.runs.summary import by_class
from nzc.validation import InputError

PATIENTS = ("healthy", "ill")


def _answers(classes: list[int], of: int) -> np.ndarray:
    return np.eye(of)[classes] * 0.5 + 0.25


def test_two_classes_counted_by_hand() -> None:
    """Eight healthy, two ill: seven and one are recognised. Of the 16 pairs, 13 are in the right
    order, 1 is a tie.
    """
    truth = np.array([0] * 8 + [1] * 2)
    ill = np.array([0.1] * 4 + [0.2, 0.3, 0.4, 0.9, 0.4, 0.8])
    metrics = Metrics.of(np.stack([1 - ill, ill], axis=1), truth, PATIENTS)
    assert (metrics.majority, metrics.recall) == (0.8, {"healthy": 7 / 8, "ill": 1 / 2})
    assert metrics.balanced_accuracy == (7 / 8 + 1 / 2) / 2
    assert metrics.auc == pytest.approx((13 + 0.5) / 16)
    assert metrics.lowest == [("ill", 0.5), ("healthy", 0.875)]


def test_many_classes_agree_with_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    truth, probs = rng.choice(5, 300, p=[0.6, 0.2, 0.1, 0.06, 0.04]), rng.dirichlet(np.ones(5), 300)
    metrics, predicted = Metrics.of(probs, truth, "abcde"), probs.argmax(axis=1)
    assert metrics.balanced_accuracy == pytest.approx(balanced_accuracy_score(truth, predicted))
    assert list(metrics.recall.values()) == pytest.approx(
        recall_score(truth, predicted, average=None)
    )
    assert metrics.majority == (truth == 0).mean()
    rest = (
        roc_auc_score(truth, probs, multi_class="ovr"),
        average_precision_score(np.eye(5)[truth], probs),
    )
    assert (metrics.auc, metrics.average_precision) == pytest.approx(rest)
    assert Metrics.of(probs, truth % 4, "abcde").auc == pytest.approx(
        np.mean(
            [roc_auc_score(truth % 4 == at, probs[:, at]) for at in range(4)]
        )  # no row of class e
    )


def test_what_is_not_known_is_none_and_not_zero() -> None:
    nothing = Metrics.of(_answers([0, 1], 2), np.array([-1, -1]), PATIENTS)
    assert nothing == Metrics(recall={"healthy": None, "ill": None})
    one = Metrics.of(_answers([0, 1, 0], 2), np.array([0, 0, -1]), PATIENTS)
    assert one == Metrics(1.0, 0.5, None, {"healthy": 0.5, "ill": None})
    assert Metrics.of(np.full((2, 2), np.nan), np.array([0, 1]), PATIENTS).auc is None


GOOD = Metrics(0.8, 0.8, 0.9, {"healthy": 0.9, "ill": 0.7})


@pytest.mark.parametrize(
    ("labels", "learned", "right", "metrics", "starts"),
    [
        ([0, 0, 1, 1, -1], None, 0.86, GOOD, []),
        ([0, 0, 0, 0, -1], None, 0.86, GOOD, ["1 of 2 classes got no released label (ill): try "]),
        ([0, 1, 1, -1, -1], None, 0.86, GOOD, ["the student learned from 3 labels, fewer than 2 for each of 2"]),
        ([0, 1, 1, -1, -1], [0, 1, 1, 0, 1], 0.86, GOOD, []),  # the labels were spread
        ([-1] * 5, None, 0.86, GOOD, ["no label was released"]),
        ([0, 0, 1, 1], None, 0.81, Metrics(0.8, 0.52, 0.9, {"healthy": 1.0, "ill": 0.04}),
         ["the student recognises less than 5.0 % of the rows of ill (4.0 %): try student.threshold="]),
    ],
)  # fmt: skip
def test_each_warning_comes_when_its_rule_says_so(
    labels: list[int], learned: list[int] | None, right: float, metrics: Metrics, starts: list[str]
) -> None:
    lines = warnings_of(
        None, np.array(labels), np.array(learned or labels), PATIENTS, right, metrics
    )
    assert len(lines) == len(starts) and all(map(str.startswith, lines, starts))


@pytest.mark.parametrize(
    (
        "predicted",
        "warned",
    ),  # the last recognises every ill person, and has an accuracy below always "healthy"
    [([0] * 10, 1), ([1] * 10, 1), ([0] * 8 + [1] * 2, 0), ([1] * 4 + [0] * 4 + [1] * 2, 1)],
)
def test_a_student_below_the_most_frequent_class_is_warned_of(
    predicted: list[int], warned: int
) -> None:
    truth, labels = np.array([0] * 8 + [1] * 2), np.array([0, 0, 1, 1])
    right, metrics = (
        float((truth == predicted).mean()),
        Metrics.of(_answers(predicted, 2), truth, PATIENTS),
    )
    lines = warnings_of(None, labels, labels, PATIENTS, right, metrics)
    assert sum(line.startswith("the student's accuracy is") for line in lines) == warned


@pytest.mark.parametrize(
    ("labels", "predicted", "right", "counted", "says"),
    [
        ([0, 1, 2] * 40, [0, 1, 2] * 40, 1.0, True, None),
        ([0, 1, 2] * 40, [0, 1, 0] * 40, 1.0, True, "never predicts c"),
        ([0, 1, 2] * 40, [0, 1, 0] * 40, 1.0, False, "never predicts c"),
        ([0, 1, 2] * 40, [0, 1, 2] * 20 + [0, 1, 0] * 20, 1.0, True, "contradicts 16.7 %"),
        (
            [0, 1, 2] * 40,
            [0, 1, 2] * 20 + [0, 1, 0] * 20,
            0.85,
            True,
            None,
        ),  # as many labels are wrong by noise
        ([0, 1, 2] * 40, [0, 1, 2] * 20 + [0, 1, 0] * 20, 1.0, False, None),  # it may know better
        (
            [0] * 90 + [1] * 10 + [2] * 10,
            [0] * 110,
            1.0,
            False,
            None,
        ),  # wrong labels are spread like this
        ([0, 1] * 30 + [2], [0, 1] * 30 + [0], 1.0, True, None),  # a single label
    ],
)
def test_a_student_is_compared_with_the_labels_of_public_rows(
    labels: list[int], predicted: list[int], right: float, counted: bool, says: str | None
) -> None:
    sure, nothing = np.full(len(labels), right), np.array([], np.int64)
    agreement = Agreement(np.array(labels), sure, np.array(predicted), nothing, counted)
    assert agreement.share == pytest.approx(
        np.mean([a == b for a, b in zip(labels, predicted, strict=True)])
    )
    lines = agreement.warnings("abc", "student=linear")
    assert len(lines) == (says is not None) and all(says in line for line in lines if says)


def test_a_run_shows_and_records_metrics_and_warnings(nzc: Nzc) -> None:
    rng = np.random.default_rng(0)
    y = (np.arange(600) % 10 == 0).astype(int)  # nine tenths are of one class
    np.savez("table.npz", x=rng.normal(size=(600, 4)) + 3 * y[:, None], y=y)
    skewed = ["dataset=npz", "dataset.path=table.npz", *SMALL]
    ran = nzc(
        *skewed, "aggregator=plurality", "queries=3", "tracking=mlflow", "tracking.model=false"
    )
    metrics, (folder,) = ran.result["metrics"], ran.folder.glob("outputs/*/*")
    assert ran.code == 0 and ran.result["warnings"]
    assert ran.err == "".join(f"nzc: {line}\n" for line in ran.result["warnings"])
    for shown in (
        f"{100 * metrics['majority']:.1f} %",
        "balanced accuracy",
        "majority rate",
        "AUC",
    ):
        assert shown in ran.out
    (run,) = tracked_runs(MlflowClient(f"sqlite:///{Path.cwd()}/mlflow.db"))
    logged = {
        name: run.data.metrics[name]
        for name in ("majority", "balanced_accuracy", "auc", "average_precision")
    }
    assert logged == {name: metrics[name] for name in logged}
    assert [run.data.metrics[f"recall_{name}"] for name in metrics["recall"]] == list(
        metrics["recall"].values()
    )
    result = RunResult.read(folder)
    assert 0 < metrics["agreement"] <= 1
    assert _objective("metrics.balanced_accuracy", result) == metrics["balanced_accuracy"]
    assert result.public.as_dict()["metrics"] == metrics

    # a result of an earlier version is still read and shown
    earlier = {
        key: value for key, value in ran.result.items() if key not in ("metrics", "warnings")
    }
    (folder / "result.json").write_text(json.dumps(earlier))
    result = RunResult.read(folder)
    assert (result.metrics, result.warnings) == (
        Metrics(),
        [],
    ) and result.as_dict().items() >= earlier.items()


def test_names_that_mlflow_refuses_or_takes_for_one() -> None:
    assert by_class("recall", {"<=50K": 0.9, ">50K": 0.5}) == {
        "recall___50K": 0.9,
        "recall__50K": 0.5,
    }
    for names in (("<5", ">5"), ("Ill", "ill")):
        assert by_class("recall", dict(zip(names, (0.9, 0.5), strict=True))) == {
            "recall_0": 0.9,
            "recall_1": 0.5,
        }


@pytest.mark.parametrize(("majority", "unequal"), [(0.19, False), (0.21, True), (None, False)])
def test_unequal_classes_are_told_from_equal_ones(majority: float | None, unequal: bool) -> None:
    recall = {f"metrics.recall.{name}": 0.5 for name in range(10)}
    assert unequal_classes({"metrics.majority": majority, **recall}) == unequal


def _own(node: object, name: str = "mine") -> OwnMetric:
    (metric,) = build_metrics(OmegaConf.create({"metrics": {name: node}}))
    return metric


#: Functions of users, which may call their parameters as they like.
def shares_missed(y_pred: np.ndarray, y_true: np.ndarray) -> np.ndarray:
    return np.array([(y_pred == 0)[y_true != 0].mean()])  # one number, as an array


def squares(truth: np.ndarray, forecast: np.ndarray) -> float:
    return float(((forecast - np.eye(forecast.shape[1])[truth]) ** 2).sum(axis=1).mean())


def preds_missed(preds: Any, target: Any) -> Any:
    return (preds.argmax(dim=1) != target).double().mean()


class Counter:
    """Keeps what it has seen, as torchmetrics' classes do."""

    def __init__(self, start: int) -> None:
        self.seen = start

    def __call__(self, y_true: np.ndarray, y_pred: np.ndarray) -> int:
        self.seen += 1
        return self.seen


def second_only(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    if (y_true != y_pred).any():
        raise KeyError("a row")
    return 1.0


def nan_later(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    return 0.5 if (y_true == y_pred).all() else float("nan")


MULTI = {"num_classes": 4}
#: What is typed, and the same from labels and probabilities of many classes by scikit-learn or by
#: hand.
OF_MANY: list[tuple[Any, Callable[..., float]]] = [
    ({"_target_": "sklearn.metrics.f1_score", "average": "macro"}, lambda t, y, p: f1_score(t, y, average="macro")),
    ({"_target_": "sklearn.metrics.log_loss"}, lambda t, y, p: -np.log(p[np.arange(len(t)), t]).mean()),
    ({"_target_": "sklearn.metrics.top_k_accuracy_score", "k": 2},
     lambda t, y, p: np.mean([t_ in np.argsort(p_)[-2:] for t_, p_ in zip(t, p, strict=True)])),
    ("sklearn.metrics.accuracy_score", lambda t, y, p: np.mean(t == y)),
    ({"_target_": "torchmetrics.classification.MulticlassF1Score", **MULTI},
     lambda t, y, p: f1_score(t, p.argmax(axis=1), average="macro")),
    ({"_target_": "torchmetrics.functional.f1_score", "task": "multiclass", "average": "macro", **MULTI},
     lambda t, y, p: f1_score(t, p.argmax(axis=1), average="macro")),
    ({"_target_": "torchmetrics.Accuracy", "task": "multiclass", "average": "micro", "_takes_": "labels", **MULTI},
     lambda t, y, p: np.mean(t == y)),
    (f"{__name__}.shares_missed", lambda t, y, p: np.mean(y[t != 0] == 0)),
    ({"_target_": f"{__name__}.squares", "_takes_": "probabilities"},
     lambda t, y, p: np.mean(np.sum(p**2, axis=1) - 2 * p[np.arange(len(t)), t] + 1)),
    (f"{__name__}.preds_missed", lambda t, y, p: np.mean(t != p.argmax(axis=1))),
    ({"_target_": f"{__name__}.Counter", "start": 6}, lambda t, y, p: 7),
]  # fmt: skip
OF_TWO: list[tuple[Any, Callable[..., float]]] = [
    ("sklearn.metrics.f1_score", lambda t, y, p: f1_score(t, y)),
    ("sklearn.metrics.log_loss", lambda t, y, p: log_loss(t, p)),
    ("sklearn.metrics.brier_score_loss", lambda t, y, p: np.mean((p[:, 1] - t) ** 2)),
    ("sklearn.metrics.roc_auc_score", lambda t, y, p: roc_auc_score(t == 1, p[:, 1])),
    ("torchmetrics.classification.BinaryAUROC", lambda t, y, p: roc_auc_score(t == 1, p[:, 1])),
    (
        {"_target_": "torchmetrics.AUROC", "task": "multiclass", "num_classes": 2},
        lambda t, y, p: roc_auc_score(t, p[:, 1]),
    ),
    (
        {"_target_": "torchmetrics.functional.accuracy", "task": "binary"},
        lambda t, y, p: np.mean((p[:, 1] > 0.5) == t),
    ),
]


@pytest.mark.parametrize(("classes", "node", "expected"), [
    *[(4, *case) for case in OF_MANY], *[(2, *case) for case in OF_TWO],
])  # fmt: skip
def test_any_metric_of_labels_or_probabilities(
    classes: int, node: Any, expected: Callable[..., float]
) -> None:
    """The student decides by weights, so that its labels are not always the likeliest."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, classes, 200)
    probs = rng.dirichlet(np.ones(classes), 200)
    predicted = (probs * np.arange(1, classes + 1)).argmax(axis=1)
    metric = _own(node)
    metric.check(truth, classes)
    for _ in range(2):  # nothing is left of the last evaluation
        assert metric(truth, predicted, probs) == pytest.approx(
            expected(truth, predicted, probs), rel=1e-5
        )


@pytest.mark.parametrize(
    ("node", "line"),
    [
        (
            {"_target_": "sklearn.metrics.f1_score", "average": "marco"},
            "metrics.mine=sklearn.metrics.f1_score: .*marco",
        ),
        (
            {"_target_": "sklearn.metrics.f1_score", "averag": "macro"},
            "metrics.mine.averag=macro: .*mean average",
        ),
        (
            "sklearn.metrics.f1_score",
            "metrics.mine=sklearn.metrics.f1_score: .*multiclass but average='binary'",
        ),
        ("sklearn.metrics.f1_scor", "metrics.mine._target_=sklearn.metrics.f1_scor: "),
        (
            "sklearn.metrics.confusion_matrix",
            "metrics.mine=sklearn.metrics.confusion_matrix: .*one number",
        ),
        ("sklearn.metrics.classification_report", "metrics.mine=.*one number.*str"),
        ("torchmetrics.classification.MulticlassF1Score", "metrics.mine=torchmetrics.*num_classes"),
        (
            {"_target_": "torchmetrics.classification.MulticlassF1Score", "num_classes": 3},
            "metrics.mine=torchmetrics",
        ),
        ({"average": "macro"}, "metrics.mine=.*must name a function"),
        (3, "metrics.mine=3: must name a function"),
        (
            {"_target_": f"{__name__}.squares", "_takes_": "probs"},
            "metrics.mine._takes_=probs: .*labels, probabilities",
        ),
    ],
)
@pytest.mark.parametrize("truth", [[0, 1, 2, 3] * 5, []], ids=["labels", "no labels"])
def test_a_metric_that_is_wrong_is_refused_by_its_key(
    node: Any, line: str, truth: list[int]
) -> None:
    with pytest.raises(InputError, match=line):
        _own(node).check(np.array(truth, np.int64), 4)


@pytest.mark.parametrize("name", ["auc", "accuracy", "recall", "recall_macro", "epsilon_mine", "seconds_total", "order",
                                  "own", "teachers_count", "f1 macro"])  # fmt: skip
def test_a_name_of_nzc_s_own_figures_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=rf"^metrics.{name}=.*must have another name"):
        _own("sklearn.metrics.accuracy_score", name)
    assert not any(map(is_taken, ("f1", "f1_macro", "macro_recall", "log_loss", "top2_accuracy")))


def test_names_of_metrics_need_no_plus_and_other_names_do() -> None:
    cfg = compose_run(["metrics.f1={_target_: sklearn.metrics.f1_score, average: macro}", "metrics.f1.average=micro",
                       "metrics.gone={_target_: sklearn.metrics.f1_score}", "metrics.gone=null"])  # fmt: skip
    (metric,) = build_metrics(cfg)
    assert (metric.name, metric.part.keywords) == ("f1", {"average": "micro"})
    assert build_metrics(compose_run(["metrics=null"])) == build_metrics(compose_run([])) == ()
    with pytest.raises(InputError, match=r"^metrics=3: "):
        build_metrics(compose_run(["metrics=3"]))


def test_a_metric_that_fails_costs_its_value_only() -> None:
    metrics = [_own(f"{__name__}.{name}", name) for name in ("second_only", "nan_later", "Counter")]
    metrics[2] = _own({"_target_": f"{__name__}.Counter", "start": 1}, "Counter")
    for metric in metrics:
        metric.check(np.array([0, 1]), 2)
    values, lines = own_metrics(metrics, np.array([0, 1]), np.array([0, 0]), np.eye(2))
    assert values == {"second_only": None, "nan_later": None, "Counter": 2.0}
    assert [line.partition(" ")[0] for line in lines] == [
        "metrics.second_only",
        "metrics.nan_later",
    ]


def test_own_metrics_stand_where_the_built_in_ones_do(nzc: Nzc) -> None:
    """Three of scikit-learn's that nzc has too, and one that fails after the training."""
    Path("late.py").write_text(
        "def late(y_true, y_pred):\n    return 1 / (y_true == y_pred).all()\n"
    )
    typed = ["metrics.right={_target_: sklearn.metrics.accuracy_score}",
             "metrics.macro={_target_: sklearn.metrics.recall_score, average: macro}",
             "metrics.ranks={_target_: sklearn.metrics.roc_auc_score, multi_class: ovr}",
             "metrics.late=late.late"]  # fmt: skip
    wrong = nzc(*SMALL, typed[1].replace("macro}", "marco}"))
    assert (wrong.code, wrong.err.count("\n")) == (2, 1) and "marco" in wrong.err
    assert not Path(".nzc").exists() and not Path("outputs").exists()  # nothing was trained

    ran = nzc(
        *SMALL,
        *typed,
        "tracking=mlflow",
        "tracking.model=false",
        "tracking.private=false",
        "rng=system",
    )
    assert ran.code == 0, ran.err
    result = ran.result
    metrics = result["metrics"]
    assert metrics["right"] == result["accuracy"]
    assert (metrics["macro"], metrics["ranks"]) == pytest.approx(
        (metrics["balanced_accuracy"], metrics["auc"])
    )
    assert metrics["late"] is None and "metrics.late (late.late) is not known: " in ran.err
    assert any(line.startswith("metrics.late") for line in result["warnings"])
    (public,) = Path("mlartifacts").rglob("result.json")
    assert "late.late" not in public.read_text()  # an error may quote labels of the test split
    shown = {
        name: line
        for line in ran.out.splitlines()
        for name in ("right", "ranks", "late")
        if f" {name} " in line
    }
    assert f" {metrics['right']:.3f} " in shown["right"] and " – " in shown["late"]
    (run,) = tracked_runs(MlflowClient(f"sqlite:///{Path.cwd()}/mlflow.db"))
    logged = {name for name, value in metrics.items() if isinstance(value, float)}
    assert (
        logged > {"right", "macro", "ranks", "agreement", "majority"}
        and "late" not in run.data.metrics
    )
    assert {name: run.data.metrics[name] for name in logged} == {
        name: metrics[name] for name in logged
    }
    read = RunResult.read(next(ran.folder.glob("outputs/*/*")))
    assert read.as_dict() == result and read.public.metrics == read.metrics
    assert _objective("metrics.macro", read) == metrics["macro"]
