"""Curves and figures of a run."""

import numpy as np
import pandas as pd
from conftest import VOTES, RunNzc, newest_folder
from matplotlib.figure import Figure
from numpy.testing import assert_allclose, assert_array_equal
from pytest import approx

from nzc.runs import plots
from nzc.runs.curves import read_curves
from nzc.runs.layout import flatten
from nzc.runs.result import QUANTITIES


def test_curves_are_counts_of_rows_and_a_run_has_its_figures(run_nzc: RunNzc) -> None:
    votes = np.random.default_rng(0).multinomial(9, [0.4, 0.4, 0.2], size=60)
    votes[:3] = [[4, 4, 1], [3, 3, 3], [9, 0, 0]]
    np.save("votes.npy", votes)
    np.save("labels.npy", votes.argmax(axis=1))
    sorted_votes = np.sort(votes)
    gaps = sorted_votes[:, -1] - sorted_votes[:, -2]
    assert (gaps == 0).sum() > 2
    ran = run_nzc(
        *VOTES, "teachers.path=votes.npy", "teachers.labels=labels.npy", "queries=40",
        "figures=null", "aggregator=confident", "aggregator.threshold=5", "aggregator.sigma1=1",
    )  # fmt: skip
    assert ran.result["teachers"]["gap_above_2"] == (gaps > 2).mean()
    folder = newest_folder(ran)
    curves = read_curves(folder)
    for gap, share in zip(*curves["gap_above"], strict=True):
        assert share == approx((gaps > gap).mean(), abs=1e-12)
    answered = pd.read_csv(folder / "labels.csv")["row"]
    assert 0 < len(answered) < 40
    sizes = len(curves["asked"][1])
    assert_array_equal(curves["asked"][1], np.bincount(gaps[:40], minlength=sizes))
    assert_array_equal(curves["answered"][1], np.bincount(gaps[answered], minlength=sizes))
    for name in ("exact", "theorem", "data_independent"):  # to the numbers of the table
        labels, epsilon = curves[f"epsilon_{name}"]
        assert labels[-1] == len(answered) and (np.diff(epsilon) >= 0).all()
        assert epsilon[-1] == ran.result["epsilon"][name]
    drawn = {f"{name}.{kind}" for name in ("gaps", "cost", "confusion") for kind in ("svg", "png")}
    assert {path.name for path in (folder / "figures").iterdir()} == drawn
    # All keys of result.json but those of sections like these are known beforehand.
    keys = {key for key in flatten(ran.result) if not key.startswith(("versions.", "metrics."))}
    assert keys - {"data"} <= set(QUANTITIES)


def test_the_confusion_is_of_the_released_labels() -> None:
    axes = Figure().subplots()
    plots._confusion(axes, np.array([0, 0, 0, 0, 1, 2]), np.array([0, 0, 0, 1, 1, 0]))
    shares = [[0.75, 0.25, 0], [0, 1, 0], [1, 0, 0]]
    assert_allclose(axes.images[0].get_array(), shares)
