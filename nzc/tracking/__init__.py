"""Where runs are recorded."""

from nzc.tracking.tracker import Tracker

__all__ = ["Tracker"]
