"""The result of a run, and what trackers show of it."""

from sessions import result_of

from nzc.mechanisms import GroundTruth
from nzc.runs.metrics import Metrics
from nzc.runs.result import tracked_figures


def test_names_that_mlflow_refuses() -> None:
    result = result_of(GroundTruth(), metrics=Metrics(recall={"<=50K": 0.5}))
    assert tracked_figures(result)["recall___50K"] == 0.5
