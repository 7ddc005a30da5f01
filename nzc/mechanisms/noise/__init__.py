"""Noise on vote counts: one noise law a file."""

from nzc.mechanisms.noise.base import Noise, NoNoise
from nzc.mechanisms.noise.continuous import ContinuousNoise
from nzc.mechanisms.noise.exponential import ExponentialNoise
from nzc.mechanisms.noise.gaussian import GaussianNoise
from nzc.mechanisms.noise.gumbel import GumbelNoise
from nzc.mechanisms.noise.laplace import LaplaceNoise

__all__ = [
    "ContinuousNoise",
    "ExponentialNoise",
    "GaussianNoise",
    "GumbelNoise",
    "LaplaceNoise",
    "NoNoise",
    "Noise",
]
