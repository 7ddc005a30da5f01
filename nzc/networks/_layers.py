"""Layers that several networks share. The GAN's are those of Salimans et al. 2016 (arXiv 1606.03498)."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

#: How many uniform numbers from 0 to 1 a GAN's generator turns into one row.
LATENT = 100
#: Layers that draw from torch's global generator while training.
DROPOUT = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)


def size_after(body: nn.Module, shape: tuple[int, ...]) -> int:
    """Return how many numbers `body` makes of one row of `shape`."""
    with torch.no_grad():
        return int(body(torch.zeros(1, *shape)).numel())


class GlobalAverage(nn.Module):
    """[rows, channels, height, width] → [rows, channels]. A plain mean, because vmap cannot differentiate pooling."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean((-2, -1))


class AddNoise(nn.Dropout):
    """Adds Gaussian noise of standard deviation p while training. As a dropout layer, it is seeded like one."""

    def forward(self, x: Tensor) -> Tensor:
        return x + self.p * torch.randn_like(x) if self.training else x


class WeightNormLinear(nn.Linear):
    """Linear layer with weights of fixed norm: only their direction is learned (Salimans, Kingma 2016, 1602.07868).

    The norm suits the leaky ReLU of this slope that follows. With `slope` None, for the head, it is learned too.
    """

    def __init__(self, of: int, to: int, slope: float | None) -> None:
        super().__init__(of, to)
        gain = nn.Parameter(torch.ones(to)) if slope is None else nn.init.calculate_gain("leaky_relu", slope)
        self.gain: Tensor | float = gain
        _spread(self)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, _of_norm(self.gain, self.weight), self.bias)


class WeightNormConv2d(nn.Conv2d):
    """Convolution with filters of fixed norm, before a leaky ReLU of this slope."""

    def __init__(self, of: int, to: int, size: int, slope: float, stride: int = 1, padding: int = 0) -> None:
        super().__init__(of, to, size, stride, padding)
        self.gain = nn.init.calculate_gain("leaky_relu", slope)
        _spread(self)

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, _of_norm(self.gain, self.weight), self.bias, self.stride, self.padding)


def _spread(layer: nn.Linear | nn.Conv2d) -> None:
    """Draw uniform directions; their length determines how fast they first turn."""
    nn.init.normal_(layer.weight, std=0.1)
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)


def _of_norm(gain: float | Tensor, weight: Tensor) -> Tensor:
    """Return weight [to, ...] with each row scaled to norm `gain`, a number or [to]."""
    scale: Tensor = gain / weight.flatten(1).norm(dim=1)
    return weight * scale.view(-1, *[1] * (weight.ndim - 1))
