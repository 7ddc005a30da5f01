"""Layers and parts that several convolutional networks share."""

import torch
from torch import Tensor, nn


class GlobalAverage(nn.Module):
    """[rows, channels, height, width] → [rows, channels]. A plain mean, because vmap cannot differentiate pooling."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean((-2, -1))


def with_head(body: nn.Sequential, shape: tuple[int, ...], hidden: int, classes: int) -> nn.Module:
    """Return the body, flattened, then one hidden ReLU layer and the logits; sizes follow from the shape."""
    with torch.no_grad():
        features = body(torch.zeros(1, *shape)).numel()
    return nn.Sequential(body, nn.Flatten(), nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, classes))


def miyato(shape: tuple[int, ...], classes: int, first: int, second: int, third: tuple[int, int, int]) -> nn.Module:
    """Return the network of Miyato et al. 2017 (arXiv 1704.03976, appendix D), small or large by its widths.

    Three stages of three convolutions, each with batch normalisation and leaky ReLU 0.1: 3 × 3 with `first` channels,
    3 × 3 with `second`, and 3 × 3, 1 × 1, 1 × 1 with `third`. The first two stages end in max-pooling by 2 and dropout
    0.5. The third has no padding on maps of 3 × 3 or more, and ends in the global average. Convolutions have no bias.
    """

    def layer(of: int, to: int, size: int = 3, padding: int = 1) -> list[nn.Module]:
        return [nn.Conv2d(of, to, size, padding=padding, bias=False), nn.BatchNorm2d(to), nn.LeakyReLU(0.1)]

    border = 0 if min(shape[1:]) // 4 >= 3 else 1
    a, b, c = third
    return nn.Sequential(
        *(*layer(shape[0], first), *layer(first, first), *layer(first, first), nn.MaxPool2d(2), nn.Dropout(0.5)),
        *(*layer(first, second), *layer(second, second), *layer(second, second), nn.MaxPool2d(2), nn.Dropout(0.5)),
        *(*layer(second, a, padding=border), *layer(a, b, 1, 0), *layer(b, c, 1, 0)),
        GlobalAverage(),
        nn.Linear(c, classes),
    )
