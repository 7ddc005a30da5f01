"""Mechanisms: a noisy argmax of vote histograms, composed of boost, noise and screen; numpy, scipy
and mpmath only.
"""

from nzc.mechanisms.adjacency import Abstentions, Adjacency, Boost, OwnCells, OwnLabels

from nzc.mechanisms.noise import (  # isort: skip
    ContinuousNoise, ExponentialNoise, GaussianNoise, GumbelNoise, LaplaceNoise, Noise, NoNoise,
)  # fmt: skip
from nzc.mechanisms.noisy_argmax import GroundTruth, NoisyArgmax, NoisyCounts, audit

from nzc.mechanisms.presets import (  # isort: skip
    NZC, Confident, Counts, CountsGaussian, GNMax, Gumbel, Interactive, LNMax, NZCGaussian, Plurality, SparseStable,
    Stable, PermuteAndFlip,
)  # fmt: skip
from nzc.mechanisms.screen import InteractiveScreen, Screen, StabilityScreen, ThresholdScreen
from nzc.mechanisms.sparse_vector import SparseScreen
from nzc.mechanisms.votes import ABSTAIN, count_votes

__all__ = [
    "ABSTAIN", "NZC", "Abstentions", "Adjacency", "Boost", "Confident", "ContinuousNoise", "Counts", "CountsGaussian",
    "ExponentialNoise", "GNMax", "GaussianNoise", "GroundTruth", "Gumbel", "GumbelNoise", "Interactive",
    "InteractiveScreen", "LNMax", "LaplaceNoise", "NZCGaussian", "NoNoise", "Noise", "NoisyArgmax", "NoisyCounts",
    "OwnCells", "OwnLabels", "PermuteAndFlip", "Plurality", "Screen", "SparseScreen", "SparseStable",
    "StabilityScreen", "Stable", "ThresholdScreen", "audit", "count_votes",
]  # fmt: skip
