"""Tracking: where runs and sweeps are recorded."""

import os

from nzc.tracking.base import Tracker, Unreachable

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # MLflow would send usage data of private work

__all__ = ["Tracker", "Unreachable"]
