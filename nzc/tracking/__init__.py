"""Tracking: where runs and sweeps are recorded."""

import os

from nzc.tracking.record import (
    cause,
    read_record,
    send,
    tracked,
    unsent,
)
from nzc.tracking.tracker import MLflow, restored

# MLflow would send usage data of private work.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")

__all__ = [
    "MLflow",
    "cause",
    "read_record",
    "restored",
    "send",
    "tracked",
    "unsent",
    "wait_at_most",
]


def wait_at_most(seconds: float) -> None:
    """Let MLflow give up on a server after about so many seconds. Its own variables go first."""
    usual = {
        "MLFLOW_HTTP_REQUEST_TIMEOUT": str(max(1, int(seconds / 3))),
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
        "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
        "MLFLOW_HTTP_RESPECT_RETRY_AFTER_HEADER": "false",  # it may say an hour
    }
    os.environ |= usual | os.environ
