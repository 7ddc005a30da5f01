"""The life of a tracked run: what its tracker sees before its end, and what is sent later."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

from conftest import (
    SMALL,
    TRACKED,
    Command,
    RunNzc,
    mlflow_client,
    tracked_runs,
)
from mlflow import MlflowClient
from pytest import CaptureFixture, MonkeyPatch

from nzc.runs import outputs, pipeline
from nzc.tracking import record, tracked, unsent


def test_memory_and_time_are_sent_only_where_private(
    run_nzc: RunNzc, histograms: Path, monkeypatch: MonkeyPatch
) -> None:
    """A whole run sends them otherwise."""
    monitor = Mock()
    monkeypatch.setattr("nzc.tracking.mlflow.SystemMetricsMonitor", monitor)
    _lasts(monkeypatch)
    given = ["tracking.system_metrics=true", "tracking.private=false", "rng=system"]
    run_nzc(*TRACKED, *given, "dataset.name=people")
    assert not monitor.called


def _lasts(monkeypatch: MonkeyPatch) -> None:
    """A run counts as one that lasts from its first moment, and does not end before its tracker has
    opened it.
    """
    monkeypatch.setattr(record, "SHORT", 0.0)
    monkeypatch.setattr(record, "EVERY", 0.01)
    works = pipeline.execute

    def execute(*arguments: Any) -> Any:
        folder = Path(arguments[1])
        _until(lambda: record.read_record(folder)["run"] is not None)
        return works(*arguments)

    monkeypatch.setattr(pipeline, "execute", execute)


def _until(true: Callable[[], object]) -> None:
    for _ in range(1000):
        if true():
            return
        time.sleep(0.02)
    raise TimeoutError


def test_a_run_that_lasts_is_seen_before_its_end(run_nzc: RunNzc, monkeypatch: MonkeyPatch) -> None:
    """With its params and curves, as RUNNING; and it ends as one that was sent at its end."""
    _lasts(monkeypatch)
    seen, works = [], outputs.write_outputs

    def look(folder: Path, *arguments: Any) -> Any:
        points = len((folder / "student.csv").read_text().splitlines()) - 1
        (run,) = tracked_runs()
        _until(
            lambda: (
                len(mlflow_client().get_metric_history(run.info.run_id, "Student/loss_labeled"))
                == points
            )
        )
        seen.append((run.info.status, run.data.params["teachers.count"], points))
        return works(folder, *arguments)

    monkeypatch.setattr(pipeline, "write_outputs", look)
    live = run_nzc(
        *SMALL, "queries=50", "student.steps=20", "tracking=mlflow", "tracking.system_metrics=false"
    )
    assert seen == [("RUNNING", "6", 20)] and "track" not in live.err
    (run,) = tracked_runs()
    assert run.info.status == "FINISHED"
    assert len(mlflow_client().get_metric_history(run.info.run_id, "Student/loss_labeled")) == 20


def test_a_tracker_that_fails_while_a_run_lasts_costs_a_line(
    tmp_path: Path, capsys: CaptureFixture[str], monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "SHORT", 0.0)
    monkeypatch.setattr(record, "EVERY", 0.0)
    answers = {"open.return_value": "id", "close.return_value": ""}
    recorder = Mock(**answers, **{"send_curves.side_effect": OSError("gone")})
    with tracked(Mock(recorder=recorder), tmp_path, "experiment", "run", {"a": 1}):
        _until(lambda: recorder.send_curves.called)
    assert recorder.send_curves.call_count == 1 and not unsent(tmp_path)
    assert capsys.readouterr().err.count("\n") == 1


def test_a_run_that_is_stopped_while_it_is_sent_is_sent_later(
    run_nzc: RunNzc, command: Command, histograms: Path, monkeypatch: MonkeyPatch
) -> None:
    """Its table has been printed by then."""
    whole = MlflowClient.create_run
    monkeypatch.setattr(MlflowClient, "create_run", Mock(side_effect=KeyboardInterrupt()))
    ran = run_nzc(*TRACKED, "tracking.model=false", code=130)
    assert "labels" in ran.out
    assert "could not be tracked (stopped): `nzc sync` sends it later" in ran.err
    monkeypatch.setattr(MlflowClient, "create_run", whole)
    assert command("sync")[:2] == (0, "1 sent, 0 not, 0 under way\n")
    assert [run.info.status for run in tracked_runs()] == ["FINISHED"]
