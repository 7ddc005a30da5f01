"""MLflow's settings: where its database is, and what of an address is kept."""

from pathlib import Path

from conftest import (
    TRACKED,
    RunNzc,
    nowhere,
    tracked_runs,
)
from omegaconf import OmegaConf
from pytest import MonkeyPatch

from nzc.app.config import CONF
from nzc.tracking.tracker import USUAL_URI


def test_database_and_artifacts_are_where_they_are_asked_to_be(
    run_nzc: RunNzc, histograms: Path, monkeypatch: MonkeyPatch
) -> None:
    """By default in the working directory. What is new is private."""
    here = Path("a é #1").absolute()
    here.mkdir()
    Path("votes.npy").rename(here / "votes.npy")
    monkeypatch.chdir(here)
    run_nzc(*TRACKED, "tracking.artifacts=shared")
    ran = run_nzc(*TRACKED, "tracking.artifacts=other")
    assert f"could not be tracked (tracking.artifacts={here}/other: " in ran.err
    new = [Path("mlflow.db"), *Path("shared").rglob("*")]
    assert len(new) > 5 and [path for path in new if path.stat().st_mode & 0o077] == []


def test_a_password_is_neither_said_nor_sent(
    run_nzc: RunNzc, histograms: Path, monkeypatch: MonkeyPatch
) -> None:
    address = nowhere().replace("//", "//user:hunter2@")
    # A key like tracking.uri, but nobody's address.
    run_nzc(*TRACKED, f"objective={address}", "hydra.run.dir=typed")
    assert tracked_runs()[0].data.params["objective"] == address.replace("hunter2", "***")
    monkeypatch.setenv("ADDRESS", address)
    ran = run_nzc(
        *TRACKED,
        "tracking.uri=${oc.env:ADDRESS}",
        "objective=${tracking.uri}",
        "hydra.run.dir=told",
    )
    assert "could not be tracked" in ran.err and "hunter2" not in ran.err
    kept = [
        path for path in Path().rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()
    ]
    assert {path.parent for path in kept} == {Path("typed/.hydra")}


def test_variables_that_mlflow_would_follow_are_named(
    run_nzc: RunNzc, histograms: Path, monkeypatch: MonkeyPatch
) -> None:
    """What is recorded is private by default, so it goes where the configuration says, and nowhere
    else.
    """
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///of_others.db")
    quiet = [*TRACKED, "aggregator.sigma=10"]
    err = run_nzc(*quiet).err
    assert err.count("\n") == 1 and "MLFLOW_TRACKING_URI" in err
    assert len(tracked_runs()) == 1 and not Path("of_others.db").exists()
    ran = run_nzc(*quiet, "tracking.uri=${oc.env:MLFLOW_TRACKING_URI}")  # as the line says
    assert ran.err == "" and Path("of_others.db").exists()
    assert OmegaConf.load(CONF / "tracking/mlflow.yaml").uri == USUAL_URI
