"""Figures of merit: by hand-counted cases and scikit-learn's own; the warnings; where a run shows them."""

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import SMALL, Nzc, tracked_runs
from mlflow import MlflowClient
from sklearn.metrics import average_precision_score, balanced_accuracy_score, recall_score, roc_auc_score

from nzc.app.job import _objective
from nzc.runs.metrics import Agreement, Metrics, unequal_classes, warnings_of
from nzc.runs.result import RunResult
from nzc.runs.summary import by_class

PATIENTS = ("healthy", "ill")


def _answers(classes: list[int], of: int) -> np.ndarray:
    return np.eye(of)[classes] * 0.5 + 0.25


def test_two_classes_counted_by_hand() -> None:
    """Eight healthy, two ill: seven and one are recognised. Of the 16 pairs, 13 are in the right order, 1 is a tie."""
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
    assert list(metrics.recall.values()) == pytest.approx(recall_score(truth, predicted, average=None))
    assert metrics.majority == (truth == 0).mean()
    rest = roc_auc_score(truth, probs, multi_class="ovr"), average_precision_score(np.eye(5)[truth], probs)
    assert (metrics.auc, metrics.average_precision) == pytest.approx(rest)
    assert Metrics.of(probs, truth % 4, "abcde").auc == pytest.approx(
        np.mean([roc_auc_score(truth % 4 == at, probs[:, at]) for at in range(4)])  # no row of class e
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
    lines = warnings_of(None, np.array(labels), np.array(learned or labels), PATIENTS, right, metrics)
    assert len(lines) == len(starts) and all(map(str.startswith, lines, starts))


@pytest.mark.parametrize(
    ("predicted", "warned"),  # the last recognises every ill person, and has an accuracy below always "healthy"
    [([0] * 10, 1), ([1] * 10, 1), ([0] * 8 + [1] * 2, 0), ([1] * 4 + [0] * 4 + [1] * 2, 1)],
)
def test_a_student_below_the_most_frequent_class_is_warned_of(predicted: list[int], warned: int) -> None:
    truth, labels = np.array([0] * 8 + [1] * 2), np.array([0, 0, 1, 1])
    right, metrics = float((truth == predicted).mean()), Metrics.of(_answers(predicted, 2), truth, PATIENTS)
    lines = warnings_of(None, labels, labels, PATIENTS, right, metrics)
    assert sum(line.startswith("the student's accuracy is") for line in lines) == warned


@pytest.mark.parametrize(
    ("labels", "predicted", "right", "counted", "says"),
    [
        ([0, 1, 2] * 40, [0, 1, 2] * 40, 1.0, True, None),
        ([0, 1, 2] * 40, [0, 1, 0] * 40, 1.0, True, "never predicts c"),
        ([0, 1, 2] * 40, [0, 1, 0] * 40, 1.0, False, "never predicts c"),
        ([0, 1, 2] * 40, [0, 1, 2] * 20 + [0, 1, 0] * 20, 1.0, True, "contradicts 16.7 %"),
        ([0, 1, 2] * 40, [0, 1, 2] * 20 + [0, 1, 0] * 20, 0.85, True, None),  # as many labels are wrong by noise
        ([0, 1, 2] * 40, [0, 1, 2] * 20 + [0, 1, 0] * 20, 1.0, False, None),  # it may know better
        ([0] * 90 + [1] * 10 + [2] * 10, [0] * 110, 1.0, False, None),  # wrong labels are spread like this
        ([0, 1] * 30 + [2], [0, 1] * 30 + [0], 1.0, True, None),  # a single label
    ],
)
def test_a_student_is_compared_with_the_labels_of_public_rows(
    labels: list[int], predicted: list[int], right: float, counted: bool, says: str | None
) -> None:
    sure, nothing = np.full(len(labels), right), np.array([], np.int64)
    agreement = Agreement(np.array(labels), sure, np.array(predicted), nothing, counted)
    assert agreement.share == pytest.approx(np.mean([a == b for a, b in zip(labels, predicted, strict=True)]))
    lines = agreement.warnings("abc", "student=linear")
    assert len(lines) == (says is not None) and all(says in line for line in lines if says)


def test_a_run_shows_and_records_metrics_and_warnings(nzc: Nzc) -> None:
    rng = np.random.default_rng(0)
    y = (np.arange(600) % 10 == 0).astype(int)  # nine tenths are of one class
    np.savez("table.npz", x=rng.normal(size=(600, 4)) + 3 * y[:, None], y=y)
    skewed = ["dataset=npz", "dataset.path=table.npz", *SMALL]
    ran = nzc(*skewed, "aggregator=plurality", "queries=3", "tracking=mlflow", "tracking.model=false")
    metrics, (folder,) = ran.result["metrics"], ran.folder.glob("outputs/*/*")
    assert ran.code == 0 and ran.result["warnings"]
    assert ran.err == "".join(f"nzc: {line}\n" for line in ran.result["warnings"])
    for shown in (f"{100 * metrics['majority']:.1f} %", "balanced accuracy", "majority rate", "AUC"):
        assert shown in ran.out
    (run,) = tracked_runs(MlflowClient(f"sqlite:///{Path.cwd()}/mlflow.db"))
    logged = {name: run.data.metrics[name] for name in ("majority", "balanced_accuracy", "auc", "average_precision")}
    assert logged == {name: metrics[name] for name in logged}
    assert [run.data.metrics[f"recall_{name}"] for name in metrics["recall"]] == list(metrics["recall"].values())
    result = RunResult.read(folder)
    assert 0 < metrics["agreement"] <= 1
    assert _objective("metrics.balanced_accuracy", result) == metrics["balanced_accuracy"]
    assert result.public.as_dict()["metrics"] == metrics

    # a result of an earlier version is still read and shown
    earlier = {key: value for key, value in ran.result.items() if key not in ("metrics", "warnings")}
    (folder / "result.json").write_text(json.dumps(earlier))
    result = RunResult.read(folder)
    assert (result.metrics, result.warnings) == (Metrics(), []) and result.as_dict().items() >= earlier.items()


def test_names_that_mlflow_refuses_or_takes_for_one() -> None:
    assert by_class("recall", {"<=50K": 0.9, ">50K": 0.5}) == {"recall___50K": 0.9, "recall__50K": 0.5}
    for names in (("<5", ">5"), ("Ill", "ill")):
        assert by_class("recall", dict(zip(names, (0.9, 0.5), strict=True))) == {"recall_0": 0.9, "recall_1": 0.5}


@pytest.mark.parametrize(("majority", "unequal"), [(0.19, False), (0.21, True), (None, False)])
def test_unequal_classes_are_told_from_equal_ones(majority: float | None, unequal: bool) -> None:
    recall = {f"metrics.recall.{name}": 0.5 for name in range(10)}
    assert unequal_classes({"metrics.majority": majority, **recall}) == unequal
