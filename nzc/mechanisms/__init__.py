"""Mechanisms: a noisy argmax of vote histograms, composed of boost, noise and screen; numpy and scipy only."""

from nzc.mechanisms.boost import Boost
from nzc.mechanisms.noise import ContinuousNoise, GaussianNoise, GumbelNoise, LaplaceNoise, Noise, NoNoise
from nzc.mechanisms.noisy_argmax import ABSTAIN, GroundTruth, NoisyArgmax, audit
from nzc.mechanisms.presets import NZC, Confident, GNMax, Gumbel, Interactive, LNMax, NZCGaussian, Plurality, Stable
from nzc.mechanisms.screen import InteractiveScreen, Screen, StabilityScreen, ThresholdScreen
from nzc.mechanisms.votes import count_votes

__all__ = [
    "ABSTAIN", "NZC", "Boost", "Confident", "ContinuousNoise", "GNMax", "GaussianNoise", "GroundTruth", "Gumbel",
    "GumbelNoise", "Interactive", "InteractiveScreen", "LNMax", "LaplaceNoise", "NZCGaussian", "NoNoise", "Noise",
    "NoisyArgmax", "Plurality", "Screen", "StabilityScreen", "Stable", "ThresholdScreen", "audit", "count_votes",
]  # fmt: skip
