"""Discriminators of GAN-SSL and their generators, after Salimans et al. 2016 (arXiv 1606.03498).

A generator maps uniform numbers [rows, LATENT] to rows [rows, *shape] from 0 to 1.
"""

from itertools import pairwise
from math import log2, prod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nzc.data.images import is_image
from nzc.networks.classifiers import GlobalAverage, cnn_bn, size_after
from nzc.types import Shape

LATENT = 100  # how many uniform numbers from 0 to 1 a generator turns into one row


class AddNoise(nn.Dropout):
    """Adds Gaussian noise of standard deviation p while training; it is seeded as dropout is."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        return x + self.p * torch.randn_like(x)


class WeightNormLinear(nn.Linear):
    """Linear layer with weights of fixed norm: only their direction is learned.

    (Salimans, Kingma 2016, 1602.07868.) The norm suits the leaky ReLU of this slope that follows.
    With `slope` None, for the head, it is learned too.
    """

    def __init__(self, inputs: int, outputs: int, slope: float | None) -> None:
        super().__init__(inputs, outputs)
        _draw_directions(self)
        self.gain: float | Tensor
        if slope is None:
            self.gain = nn.Parameter(torch.ones(outputs))
        else:
            self.gain = nn.init.calculate_gain("leaky_relu", slope)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, _with_norm(self.gain, self.weight), self.bias)


class WeightNormConv2d(nn.Conv2d):
    """Convolution with filters of fixed norm, before a leaky ReLU of this slope."""

    def __init__(
        self, channels: int, width: int, size: int, slope: float, stride: int = 1, padding: int = 0
    ) -> None:
        super().__init__(channels, width, size, stride, padding)
        _draw_directions(self)
        self.gain = nn.init.calculate_gain("leaky_relu", slope)

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, _with_norm(self.gain, self.weight), self.bias, self.stride, self.padding)


def _draw_directions(layer: nn.Linear | nn.Conv2d) -> None:
    """Draw uniform directions, whose length determines how fast they first turn."""
    nn.init.normal_(layer.weight, std=0.1)
    nn.init.zeros_(layer.get_parameter("bias"))


def _with_norm(gain: float | Tensor, weight: Tensor) -> Tensor:
    """Return weight [outputs, ...] with each row scaled to norm `gain`, a number or [outputs]."""
    scale: Tensor = gain / weight.flatten(1).norm(dim=1)
    return weight * scale.view(-1, *[1] * (weight.ndim - 1))


def gan(shape: Shape, classes: int) -> nn.Module:
    """The discriminator that suits the shape: for colour images, for grey ones, or for others."""
    makers = {"gan_mlp": gan_mlp, "gan_cnn": gan_cnn, "gan_conv": gan_conv}
    return makers[_suiting(shape)](shape, classes)


def generator(network: object, shape: Shape) -> nn.Module:
    """Return a new generator against `network`: its own, or the one that suits the shape."""
    # Perceptrons draw rough images, which a discriminator with convolutions soon recognises without
    # fail.
    maps: dict[object, int] = {"gan_mlp": 0, "gan_cnn": 16, "gan_conv_small": 32, "gan_conv": 128}
    width = maps.get(network, maps[_suiting(shape)])
    made = _transposed(shape, width) if width else _perceptrons(shape)
    return made.to(memory_format=torch.channels_last)


def _suiting(shape: Shape) -> str:
    """Return the pair that suits the shape: perceptrons for images below 16 × 16 pixels too."""
    if not is_image(shape, 16):
        return "gan_mlp"
    if shape[0] == 1:
        return "gan_cnn"
    return "gan_conv"


def gan_mlp(shape: Shape, classes: int) -> nn.Module:
    """The paper's for MNIST: any shape, flattened → 1000, 500, 250, 250, 250 → classes."""
    network = nn.Sequential(nn.Flatten(), AddNoise(0.3))
    for inputs, outputs in pairwise((prod(shape), 1000, 500, 250, 250, 250)):
        network.extend([WeightNormLinear(inputs, outputs, 0), nn.ReLU(), AddNoise(0.5)])
    return network.append(WeightNormLinear(250, classes, None))


def gan_cnn(shape: Shape, classes: int) -> nn.Module:
    """For grey images of about 28 × 28 pixels: one core trains it in minutes."""
    first = WeightNormConv2d(shape[0], 16, 5, 0, stride=2, padding=2)
    second = WeightNormConv2d(16, 32, 3, 0, stride=2, padding=1)
    network = nn.Sequential(AddNoise(0.3), first, nn.ReLU(), second, nn.ReLU(), AddNoise(0.5))
    network.append(nn.Flatten())
    network.append(WeightNormLinear(size_after(network, shape), 128, 0))
    network.extend([nn.ReLU(), AddNoise(0.5), WeightNormLinear(128, classes, None)])
    return network


def gan_conv(shape: Shape, classes: int) -> nn.Module:
    """The paper's for SVHN."""

    def layer(
        channels: int, width: int, size: int = 3, stride: int = 1, padding: int = 1
    ) -> list[nn.Module]:
        convolution = WeightNormConv2d(channels, width, size, 0.2, stride, padding)
        return [convolution, nn.LeakyReLU(0.2)]

    border = int(min(shape[1:]) <= 8)  # a quarter of the image must cover a filter
    return nn.Sequential(
        *(nn.Dropout(0.2), *layer(shape[0], 64), *layer(64, 64), *layer(64, 64, stride=2)),
        *(nn.Dropout(0.5), *layer(64, 128), *layer(128, 128), *layer(128, 128, stride=2)),
        *(nn.Dropout(0.5), *layer(128, 128, padding=border)),
        *(*layer(128, 128, 1, 1, 0), *layer(128, 128, 1, 1, 0)),
        *(GlobalAverage(), WeightNormLinear(128, classes, None)),
    )


gan_conv_small = cnn_bn  # for colour images without a GPU


def _perceptrons(shape: Shape) -> nn.Module:
    """500, 500 (softplus, batch-normalised) → the row."""
    network = nn.Sequential()
    for inputs in (LATENT, 500):
        network.extend([nn.Linear(inputs, 500, bias=False), nn.BatchNorm1d(500), nn.Softplus()])
    return network.extend([nn.Linear(500, prod(shape)), nn.Sigmoid(), nn.Unflatten(1, shape)])


class _Crop(nn.Module):
    def __init__(self, height: int, width: int) -> None:
        super().__init__()
        self.height = height
        self.width = width

    def forward(self, x: Tensor) -> Tensor:
        return x[..., : self.height, : self.width]


def _transposed(shape: Shape, maps: int) -> nn.Module:
    """Maps of about 4 × 4, doubled by 5 × 5 transposed convolutions.

    At 32 × 32 and 128 `maps` it is the paper's.
    """
    channels, height, width = shape
    doublings = max(1, round(log2(min(height, width) / 4)))
    high = -(-height // 2**doublings)
    wide = -(-width // 2**doublings)
    widths = [maps * 2**i for i in reversed(range(doublings))]
    first = widths[0] * high * wide
    network = nn.Sequential(nn.Linear(LATENT, first, bias=False), nn.BatchNorm1d(first), nn.ReLU())
    network.append(nn.Unflatten(1, (widths[0], high, wide)))
    for inputs, outputs in pairwise(widths):
        network.append(nn.ConvTranspose2d(inputs, outputs, 5, 2, 2, 1, bias=False))
        network.extend([nn.BatchNorm2d(outputs), nn.ReLU()])
    last = nn.ConvTranspose2d(widths[-1], channels, 5, 2, 2, 1)
    return network.extend([last, _Crop(height, width), nn.Sigmoid()])
