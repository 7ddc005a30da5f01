"""The user's own metrics: any function of labels or probabilities; wrong ones are refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
from conftest import parametrize
from omegaconf import OmegaConf
from pytest import approx, raises
from sklearn.metrics import f1_score, roc_auc_score

from nzc.app.build import build_metrics
from nzc.app.config import compose_run
from nzc.runs.own_metric import OwnMetric, own_metrics
from nzc.runs.result import is_taken
from nzc.validation import InputError


def _own(node: object, name: str = "mine") -> OwnMetric:
    (metric,) = build_metrics(OmegaConf.create({"metrics": {name: node}}))
    return metric


def squares(y_true: np.ndarray, y_prob: np.ndarray) -> float:
    return float(((y_prob - np.eye(y_prob.shape[1])[y_true]) ** 2).sum(axis=1).mean())


class Counter:
    """Keeps what it has seen, as torchmetrics' classes do."""

    def __init__(self, start: int) -> None:
        self.seen = start

    def __call__(self, y_true: np.ndarray, y_pred: np.ndarray) -> int:
        self.seen += 1
        return self.seen


def nan_later(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    return 0.5 if (y_true == y_pred).all() else float("nan")


def _auc(t: np.ndarray, y: np.ndarray, p: np.ndarray) -> float:
    return float(roc_auc_score(t, p[:, 1]))


MULTI = {"num_classes": 4}
F1 = {"_target_": "sklearn.metrics.f1_score"}
TOP = {"_target_": "torchmetrics.classification.MulticlassF1Score"}


@parametrize(
    ("classes", "node", "expected"),
    [
        (4, {**TOP, **MULTI},
         lambda t, y, p: f1_score(t, p.argmax(axis=1), average="macro")),
        (4, f"{__name__}.squares",
         lambda t, y, p: np.mean(np.sum(p**2, axis=1) - 2 * p[np.arange(len(t)), t] + 1)),
        (4, {"_target_": f"{__name__}.Counter", "start": 6}, lambda t, y, p: 7),
        (2, "sklearn.metrics.roc_auc_score", _auc),
    ],
)  # fmt: skip
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
        right = expected(truth, predicted, probs)
        assert metric(truth, predicted, probs) == approx(right, rel=1e-5)


@parametrize(
    ("node", "line"),
    [
        ({**F1, "average": "marco"}, "metrics.mine=sklearn.metrics.f1_score: .*marco"),
        ({**F1, "averag": "macro"}, "metrics.mine.averag=macro: .*average"),
        ("sklearn.metrics.f1_score", "metrics.mine=sklearn.metrics.f1_score: .*multiclass"),
        ("sklearn.metrics.confusion_matrix", "metrics.mine=sklearn.metrics.confusion_matrix: "),
        (3, "metrics.mine=3: "),
    ],
)
@parametrize("truth", [[0, 1, 2, 3] * 5, []], ids=["labels", "no labels"])
def test_a_metric_that_is_wrong_is_refused_by_its_key(
    node: Any, line: str, truth: list[int]
) -> None:
    with raises(InputError, match=line):
        _own(node).check(np.array(truth, np.int64), 4)


@parametrize("name", ["auc", "recall_macro", "epsilon_mine", "f1 macro"])
def test_a_name_of_nzc_s_own_figures_is_refused(name: str) -> None:
    with raises(InputError, match=rf"^metrics.{name}="):
        _own("sklearn.metrics.accuracy_score", name)
    assert not any(map(is_taken, ("f1", "f1_macro", "macro_recall", "log_loss", "top2_accuracy")))


def test_names_of_metrics_need_no_plus_and_other_names_do() -> None:
    macro = "{_target_: sklearn.metrics.f1_score, average: macro}"
    given = [f"metrics.f1={macro}", "metrics.f1.average=micro", f"metrics.gone={macro}"]
    (metric,) = build_metrics(compose_run([*given, "metrics.gone=null"]))
    assert (metric.name, metric.part.keywords) == ("f1", {"average": "micro"})
    assert build_metrics(compose_run(["metrics=null"])) == ()
    with raises(InputError, match=r"^metrics=3: "):
        build_metrics(compose_run(["metrics=3"]))


def test_a_metric_that_fails_costs_its_value_only() -> None:
    metrics = [
        _own(f"{__name__}.nan_later", "nan_later"),
        _own("sklearn.metrics.accuracy_score", "right"),
    ]
    for metric in metrics:
        metric.check(np.array([0, 1]), 2)
    values, lines = own_metrics(metrics, np.array([0, 1]), np.array([0, 0]), np.eye(2))
    assert values == {"nan_later": None, "right": 0.5}
    assert [line.split()[0] for line in lines] == ["metrics.nan_later"]
