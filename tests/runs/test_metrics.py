"""Figures of merit: by hand and scikit-learn's own; where a run shows them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from conftest import SMALL, RunNzc, newest_folder, parametrize, tracked_runs
from pytest import approx
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    recall_score,
    roc_auc_score,
)

from nzc.app.job import _objective
from nzc.runs.metrics import Metrics
from nzc.runs.result import RunResult, tracked_figures

PATIENTS = ("healthy", "ill")


def _answers(classes: list[int], of: int) -> np.ndarray:
    return np.eye(of)[classes] * 0.5 + 0.25


@parametrize("classes", [2, 5])
def test_metrics_agree_with_scikit_learn(classes: int) -> None:
    """Of two classes, ranks are those of class 1. Some probabilities are equal."""
    rng = np.random.default_rng(0)
    truth = np.minimum(rng.choice(5, 300, p=[0.6, 0.2, 0.1, 0.06, 0.04]), classes - 1)
    probs = rng.dirichlet(np.ones(classes), 300).round(1)
    predicted = probs.argmax(axis=1)
    names = "abcde"[:classes]
    metrics = Metrics.of(probs, truth, names)
    assert metrics.balanced_accuracy == approx(balanced_accuracy_score(truth, predicted))
    recall = dict(zip(names, recall_score(truth, predicted, average=None), strict=True))
    assert metrics.recall == approx(recall)
    assert [name for name, _ in metrics.lowest] == sorted(recall, key=recall.__getitem__)[:3]
    assert metrics.majority == (truth == 0).mean()
    ranked = [1] if classes == 2 else list(range(classes))
    one, scores = np.eye(classes)[truth][:, ranked], probs[:, ranked]
    assert metrics.auc == approx(roc_auc_score(one, scores))
    assert metrics.average_precision == approx(average_precision_score(one, scores))


def test_what_is_not_known_is_none_and_not_zero() -> None:
    nothing = Metrics.of(_answers([0, 1], 2), np.array([-1, -1]), PATIENTS)
    assert nothing == Metrics(recall={"healthy": None, "ill": None})
    one = Metrics.of(_answers([0, 1, 0], 2), np.array([0, 0, -1]), PATIENTS)
    assert one == Metrics(1.0, 0.5, None, {"healthy": 0.5, "ill": None})
    assert Metrics.of(np.full((2, 2), np.nan), np.array([0, 1]), PATIENTS).auc is None


def test_metrics_stand_in_table_result_and_tracker(run_nzc: RunNzc) -> None:
    """On skewed classes: three of scikit-learn's that nzc has too, and one that fails."""
    rng = np.random.default_rng(0)
    y = (np.arange(600) % 10 == 0).astype(int)  # nine tenths are of one class
    np.savez("table.npz", x=rng.normal(size=(600, 4)) + y[:, None], y=y)
    late = "def late(y_true, y_pred):\n    return 1 / (y_true == y_pred).all()\n"
    Path("late.py").write_text(late)
    skewed = ["dataset=npz", "dataset.path=table.npz", "dataset.classes=2", *SMALL]
    ran = run_nzc(
        *skewed, "aggregator=gnmax", "aggregator.sigma=1", "queries=30",
        "rng=system", "dataset.name=people",
        "metrics.right=sklearn.metrics.accuracy_score",
        "metrics.macro={_target_: sklearn.metrics.recall_score, average: macro}",
        "metrics.late=late.late",
        "tracking=mlflow", "tracking.model=false", "tracking.private=false",
    )  # fmt: skip
    result = ran.result
    metrics = result["metrics"]
    assert metrics["right"] == result["accuracy"]
    assert metrics["macro"] == approx(metrics["balanced_accuracy"])
    assert metrics["late"] is None and 0 < metrics["agreement"] <= 1
    assert result["warnings"][-1].startswith("metrics.late (late.late)")
    # An error may quote labels of the test split.
    (sent,) = Path("mlartifacts").rglob("result.json")
    assert "late.late" not in sent.read_text()
    assert "balanced accuracy" in ran.out and f"{metrics['right']:.3f}" in ran.out
    (run,) = tracked_runs()
    logged = {name: value for name, value in metrics.items() if isinstance(value, float)}
    assert logged.items() <= run.data.metrics.items() and "late" not in run.data.metrics
    assert {"right", "macro", "auc", "balanced_accuracy"} <= set(logged)

    read = RunResult.read(newest_folder(ran))
    for name in ("macro", "balanced_accuracy"):
        assert _objective(f"metrics.{name}", read) == metrics[name]
    named = replace(read, metrics=Metrics(recall={"<=50K": 0.5}))
    assert "recall___50K" in tracked_figures(named)  # MLflow refuses such signs
