"""Truth: the true labels of public rows."""

from pathlib import Path

from conftest import (
    TEACHERS,
    RunNzc,
)

TEACHERS_KEYS = "count mean_accuracy ensemble_accuracy gap_above_2 gap_above_3"


def test_ground_truth_needs_no_teachers(run_nzc: RunNzc) -> None:
    result = run_nzc(*TEACHERS, "aggregator=ground_truth", "student.steps=60").result
    assert result["label_accuracy"] == 1 and result["accuracy"] > 0.5
    assert result["teachers"] == dict.fromkeys(TEACHERS_KEYS.split()) | {"count": 0}
    assert not Path(".nzc/predictions").exists()
