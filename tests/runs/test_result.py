"""The result of a run, and what trackers show of it."""

from dataclasses import dataclass

from sessions import result_of

from nzc.mechanisms import GroundTruth
from nzc.runs.metrics import Metrics
from nzc.runs.result import RunResult, tracked_figures


def test_names_that_mlflow_refuses() -> None:
    result = result_of(GroundTruth(), metrics=Metrics(recall={"<=50K": 0.5}))
    assert tracked_figures(result)["recall___50K"] == 0.5


@dataclass(frozen=True, kw_only=True)
class _More(RunResult):
    largest_count: int = 0


def test_a_figure_of_which_nothing_is_said_is_private() -> None:
    result = _More(**vars(result_of(GroundTruth())), largest_count=60)
    assert result.public.largest_count is None
