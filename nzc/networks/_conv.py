"""What the convolutional networks share."""

import torch
from torch import nn


def with_head(body: nn.Sequential, shape: tuple[int, ...], hidden: int, classes: int) -> nn.Module:
    """The body, flattened, then one hidden ReLU layer and the logits; sizes follow from the shape."""
    with torch.no_grad():
        features = body(torch.zeros(1, *shape)).numel()
    return nn.Sequential(body, nn.Flatten(), nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, classes))
