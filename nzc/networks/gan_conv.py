"""GAN-SSL pair of Salimans et al. 2016 for SVHN: convolutions, for colour images of about 32 × 32 pixels."""

from itertools import pairwise
from math import log2

from torch import Tensor, nn

from nzc.networks._layers import LATENT, GlobalAverage, WeightNormConv2d, WeightNormLinear


def build(shape: tuple[int, ...], classes: int) -> nn.Module:
    """The discriminator: 3 × 3 convolutions of 64, 64, 64, 128, 128, 128, 128 maps, the third and sixth of stride 2;
    then two of 1 × 1 and the global average.

    Weight normalisation, leaky ReLU 0.2, dropout 0.2 on the input and 0.5 after each stride of 2.
    """

    def layer(of: int, to: int, size: int = 3, stride: int = 1, padding: int = 1) -> list[nn.Module]:
        return [WeightNormConv2d(of, to, size, 0.2, stride, padding), nn.LeakyReLU(0.2)]

    border = 0 if min(shape[1:]) > 8 else 1  # a quarter of the image must cover a filter
    return nn.Sequential(
        *(nn.Dropout(0.2), *layer(shape[0], 64), *layer(64, 64), *layer(64, 64, stride=2)),
        *(nn.Dropout(0.5), *layer(64, 128), *layer(128, 128), *layer(128, 128, stride=2)),
        *(nn.Dropout(0.5), *layer(128, 128, padding=border), *layer(128, 128, 1, 1, 0), *layer(128, 128, 1, 1, 0)),
        *(GlobalAverage(), WeightNormLinear(128, classes, None)),
    )


class _Crop(nn.Module):
    def __init__(self, height: int, width: int) -> None:
        super().__init__()
        self.height, self.width = height, width

    def forward(self, x: Tensor) -> Tensor:
        return x[..., : self.height, : self.width]


def generator(shape: tuple[int, ...], maps: int = 128) -> nn.Module:
    """[rows, LATENT] → maps of about 4 × 4, doubled by 5 × 5 transposed convolutions → [rows, *shape] from 0 to 1.

    At 32 × 32 as in the paper: 512, 256 and 128 maps, then the image; batch normalisation and ReLU. `maps` replaces
    128, and the others in proportion.
    """
    channels, height, width = shape
    doublings = max(1, round(log2(min(height, width) / 4)))
    high, wide = (-(-side // 2**doublings) for side in (height, width))
    widths = [maps * 2**i for i in reversed(range(doublings))]
    first = widths[0] * high * wide
    layers: list[nn.Module] = [nn.Linear(LATENT, first, bias=False), nn.BatchNorm1d(first), nn.ReLU()]
    layers.append(nn.Unflatten(1, (widths[0], high, wide)))
    for of, to in pairwise(widths):
        layers += [nn.ConvTranspose2d(of, to, 5, 2, 2, 1, bias=False), nn.BatchNorm2d(to), nn.ReLU()]
    last = nn.ConvTranspose2d(widths[-1], channels, 5, 2, 2, 1)
    return nn.Sequential(*layers, last, _Crop(height, width), nn.Sigmoid())
