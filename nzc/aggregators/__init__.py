"""Aggregators: a noisy argmax on a vote histogram, put together from parts: boost, noise, screen. No torch."""

from nzc.aggregators.aggregator import Aggregator
from nzc.aggregators.boost import Boost
from nzc.aggregators.ground_truth import GroundTruth
from nzc.aggregators.noisy_argmax import NoisyArgmax

__all__ = ["Aggregator", "Boost", "GroundTruth", "NoisyArgmax"]
