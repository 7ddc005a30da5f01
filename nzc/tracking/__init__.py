"""Tracking: where runs and sweeps are recorded."""

from nzc.tracking.base import Tracker, Unreachable

__all__ = ["Tracker", "Unreachable"]
