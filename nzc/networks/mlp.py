"""Network with one hidden layer, for small images and tables."""

from math import prod

from torch import nn


def build(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Any shape, flattened → 128 → classes."""
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(shape), 128), nn.ReLU(), nn.Linear(128, classes))
