"""Noise on vote counts: one noise law a file, and one line for it here."""
# ruff: noqa: F403

from nzc.mechanisms.noise.base import *
from nzc.mechanisms.noise.continuous import *
from nzc.mechanisms.noise.exponential import *
from nzc.mechanisms.noise.gaussian import *
from nzc.mechanisms.noise.gumbel import *
from nzc.mechanisms.noise.laplace import *

__all__ = [name for name, value in globals().items() if isinstance(value, type)]
