"""Noise on the counts: one law a file."""

from nzc.aggregators.noise.gaussian import Gaussian
from nzc.aggregators.noise.gumbel import Gumbel
from nzc.aggregators.noise.laplace import Laplace
from nzc.aggregators.noise.none import NoNoise

__all__ = ["Gaussian", "Gumbel", "Laplace", "NoNoise"]
