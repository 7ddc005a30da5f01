"""Mechanisms: a noisy argmax of vote histograms, made of boost, noise and screen.

A public name stands in `__all__` of its own module. All need numpy, scipy and mpmath only.
"""
# ruff: noqa: F403

import types

from nzc.mechanisms.adjacency import *
from nzc.mechanisms.cost import *
from nzc.mechanisms.noise import *
from nzc.mechanisms.noisy_argmax import *
from nzc.mechanisms.noisy_sums import *
from nzc.mechanisms.presets import *
from nzc.mechanisms.screen import *
from nzc.mechanisms.votes import *

__all__ = [
    name
    for name, value in globals().items()
    if name[0] != "_" and not isinstance(value, types.ModuleType)
]
