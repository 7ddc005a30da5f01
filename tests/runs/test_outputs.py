"""What a run leaves for others."""

import numpy as np
from conftest import (
    RunNzc,
    newest_folder,
)
from few_labels import clouds


def test_own_rows_that_nobody_has_labeled(run_nzc: RunNzc) -> None:
    data, y = clouds(600, 300)
    role = np.repeat(["private", "public"], 300)
    np.savez("data.npz", x=data.x, y=data.labels, role=role)
    words = ["dataset=npz", "dataset.path=data.npz", "student=linear", "aggregator=plurality"]
    ran = run_nzc("teachers=logistic", "teachers.count=5", "teachers.parallel=1", *words)
    assert ran.result["label_accuracy"] is None and ran.result["accuracy"] is None
    assert ran.result["teachers"]["mean_accuracy"] is None
    labels = newest_folder(ran) / "labels.csv"
    row, label, origin = np.loadtxt(labels, delimiter=",", dtype=int, skiprows=1).T
    assert (label == y[300:]).mean() > 0.9
    assert (origin == 300 + row).all()
