"""Mechanisms: a noisy argmax of vote histograms, made of boost, noise and screen.

A public name stands in `__all__` of its own module. All need numpy, scipy and mpmath only.
"""
# ruff: noqa: F403

from nzc.mechanisms import (
    adjacency,
    auditing,
    base,
    noise,
    noisy_argmax,
    noisy_sums,
    presets,
    screen,
    votes,
)
from nzc.mechanisms.adjacency import *
from nzc.mechanisms.auditing import *
from nzc.mechanisms.base import *
from nzc.mechanisms.noise import *
from nzc.mechanisms.noisy_argmax import *
from nzc.mechanisms.noisy_sums import *
from nzc.mechanisms.presets import *
from nzc.mechanisms.screen import *
from nzc.mechanisms.votes import *

__all__ = (
    adjacency.__all__
    + auditing.__all__
    + base.__all__
    + noise.__all__
    + noisy_argmax.__all__
    + noisy_sums.__all__
    + presets.__all__
    + screen.__all__
    + votes.__all__
)
