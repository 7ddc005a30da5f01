"""Noise that is null: the run finds the noise that spends the budget, and says what it chose."""

import pytest
from conftest import VOTES, Nzc, tracked_runs
from mlflow import MlflowClient

FILE = [*VOTES, "teachers.path=votes.npy"]


@pytest.mark.usefixtures("histograms")
@pytest.mark.parametrize("aggregator", [["aggregator=gnmax", "aggregator.sigma=null"], ["aggregator=sparse_stable"]])
def test_the_noise_spends_the_budget(nzc: Nzc, aggregator: list[str]) -> None:
    ran = nzc(*FILE, *aggregator, "queries=20", "budget.epsilon=0.5")
    assert ran.result["refused"] == 0
    assert 0.5 * (1 - 1e-3) <= ran.result["epsilon"]["published"] <= 0.5
    key = aggregator[-1].removesuffix("=null") if len(aggregator) == 2 else "aggregator.scale"
    assert ran.err.startswith(f"nzc: {key}=") and "20 queries then cost at most ε = 0.5" in ran.err
    chosen = float(ran.err.split("=")[1].split(":")[0])
    again = nzc(*FILE, aggregator[0], f"{key}={chosen}", "queries=20")  # printed with six digits
    assert again.result["epsilon"]["published"] == pytest.approx(0.5, rel=2e-3)


@pytest.mark.usefixtures("histograms")
def test_a_run_of_votes_says_what_is_paid_for_and_has_an_experiment_of_its_own(nzc: Nzc) -> None:
    screen = ["aggregator=confident", "aggregator.threshold=30", "aggregator.sigma1=5", "aggregator.sigma=20"]
    ran = nzc(*FILE, *screen, "queries=40", "answers=2", "tracking=mlflow")
    assert ran.result["answered"] == 2 <= 40 - ran.result["refused"] < 40
    assert f"{ran.result['refused']} more were not asked, but are paid for" in ran.out
    assert "all releases" not in ran.out  # seeded noise is a trial
    asked = nzc(*FILE, "aggregator=gnmax", "queries=40", "answers=2").out
    assert "38 more were not asked: the budget or the answers were used up" in asked
    client = MlflowClient(f"sqlite:///{ran.folder}/mlflow.db")
    assert [run.data.params["dataset"] for run in tracked_runs(client)] == ["none"]
    assert client.get_experiment_by_name("votes") is not None and client.get_experiment_by_name("none") is None
