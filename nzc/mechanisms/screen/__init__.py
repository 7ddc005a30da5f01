"""Screens: which queries are answered. One screen a file."""

from nzc.mechanisms.screen.base import Screen
from nzc.mechanisms.screen.interactive import InteractiveScreen
from nzc.mechanisms.screen.stable import StabilityScreen
from nzc.mechanisms.screen.threshold import ThresholdScreen

__all__ = ["InteractiveScreen", "Screen", "StabilityScreen", "ThresholdScreen"]
