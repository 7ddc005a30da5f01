"""Screens: which queries are answered. One a file."""

from nzc.aggregators.screen.interactive import Interactive
from nzc.aggregators.screen.screen import Screen
from nzc.aggregators.screen.stable import Stable
from nzc.aggregators.screen.threshold import Threshold

__all__ = ["Interactive", "Screen", "Stable", "Threshold"]
