"""Tracking: where runs and sweeps are recorded."""

import os

from nzc.tracking.record import (
    RECORD,
    Tracker,
    cause,
    read_record,
    send,
    tracked,
    tracked_name,
    unsent,
)
from nzc.tracking.settings import MLflow

os.environ.setdefault(
    "MLFLOW_DISABLE_TELEMETRY", "true"
)  # MLflow would send usage data of private work

__all__ = [
    "RECORD",
    "MLflow",
    "Tracker",
    "cause",
    "read_record",
    "send",
    "tracked",
    "tracked_name",
    "unsent",
    "wait_at_most",
]


def wait_at_most(seconds: float) -> None:
    """Let MLflow give up on a server after about so many seconds, in three tries. MLflow's own
    variables go first.
    """
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", str(max(1, int(seconds / 3))))
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "1")
    os.environ.setdefault("MLFLOW_HTTP_RESPECT_RETRY_AFTER_HEADER", "false")  # it may say an hour
