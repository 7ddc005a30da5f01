"""Advice before a run and after it: what is warned of."""

import numpy as np
from conftest import parametrize

import nzc
from nzc.runs.advice import about_accuracy, about_labels, about_recall
from nzc.runs.metrics import Metrics


def test_a_weak_plan_is_warned_of() -> None:
    plan = nzc.Plan(2, 10, 8, agreement=0.94, queries=(9, 10), records=50_000, delta=1e-4)
    drowned, few, delta = plan.warnings
    assert "noise drowns the votes" in drowned
    assert "9 labels" in few
    assert "above 1/records = 2e-05" in delta


PATIENTS = ("healthy", "ill")


@parametrize(
    ("labels", "learned", "word"),
    [
        ([0, 0, 0, 0, -1], [0, 0, 0, 0, -1], "(ill)"),
        ([0, 1, 1, -1, -1], [0, 1, 1, -1, -1], "3 labels"),
        ([0, 1, 1, -1, -1], [0, 1, 1, 0, 1], None),  # the labels were spread
    ],
)
def test_labels_that_are_missing_are_warned_of(
    labels: list[int], learned: list[int], word: str | None
) -> None:
    lines = about_labels(np.array(labels), np.array(learned), PATIENTS)
    assert len(lines) == (word is not None) and all(word in line for line in lines if word)


@parametrize(
    ("predicted", "words"),
    [
        ([1] * 10, ["accuracy", "recognises"]),
        # Every ill person is recognised, at an accuracy below that of always "healthy".
        ([1] * 4 + [0] * 4 + [1] * 2, ["student.threshold=NUMBER"]),
    ],
)
def test_a_student_below_the_most_frequent_class_is_warned_of(
    predicted: list[int], words: list[str]
) -> None:
    truth = np.array([0] * 8 + [1] * 2)
    right = float((truth == predicted).mean())
    metrics = Metrics.of(np.eye(2)[predicted] * 0.5 + 0.25, truth, PATIENTS)
    lines = about_accuracy(right, metrics) + about_recall(metrics)
    assert len(lines) == len(words)
    assert all(word in line for word, line in zip(words, lines, strict=True))
