"""Classifiers: small ones for a CPU, which trains 250 of them in minutes, and those of the papers.

A training batch of those with batch normalisation needs two rows or more.
"""

from functools import partial
from itertools import pairwise
from math import prod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nzc.data.images import is_image
from nzc.types import Shape

#: Layers that draw from torch's global generator while training.
DROPOUT = (
    *(nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d),
    *(nn.AlphaDropout, nn.FeatureAlphaDropout),
)


def size_after(body: nn.Module, shape: Shape) -> int:
    """Return how many numbers `body` makes of one row of `shape`."""
    with torch.no_grad():
        return int(body(torch.zeros(1, *shape)).numel())


def _with_head(body: nn.Module, shape: Shape, hidden: int, classes: int) -> nn.Module:
    units = nn.Linear(size_after(body, shape), hidden)
    return nn.Sequential(body, nn.Flatten(), units, nn.ReLU(), nn.Linear(hidden, classes))


class GlobalAverage(nn.Module):
    """[rows, channels, height, width] → [rows, channels].

    A plain mean, because vmap cannot differentiate pooling.
    """

    def forward(self, x: Tensor) -> Tensor:
        return x.mean((-2, -1))


def auto(shape: Shape, classes: int, unlabeled: bool) -> nn.Module:
    """For any rows: `mlp`, but for images of 16 × 16 pixels or more `cnn`.

    It is `cnn_bn` for images if it learns without labels.
    """
    if not is_image(shape, 16):
        return mlp(shape, classes)
    if unlabeled:
        return cnn_bn(shape, classes)
    return cnn(shape, classes)


def mlp(shape: Shape, classes: int) -> nn.Module:
    """For small images and tables: any shape, flattened → 128 → classes."""
    hidden = nn.Linear(prod(shape), 128)
    return nn.Sequential(nn.Flatten(), hidden, nn.ReLU(), nn.Linear(128, classes))


def cnn(shape: Shape, classes: int) -> nn.Module:
    """For images of about 28 × 28: 5 × 5 convolutions (16, 32), max-pooled; 64 hidden units."""
    body = nn.Sequential(  # pooling before ReLU saves work
        *(nn.Conv2d(shape[0], 16, 5), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Conv2d(16, 32, 5), nn.MaxPool2d(2), nn.ReLU()),
    )
    return _with_head(body, shape, 64, classes)


def cnn_bn(shape: Shape, classes: int) -> nn.Module:
    """For image students that also learn without labels: convolutions (16, 32, 64), max-pooled.

    Batch normalisation learns in fewer steps. The head sees positions on the image, which suits
    digits better than a global average.
    """
    network = nn.Sequential()
    for channels, width, size in ((shape[0], 16, 5), (16, 32, 3), (32, 64, 3)):
        # Batch normalisation makes a bias redundant; to pool first saves work.
        network.append(nn.Conv2d(channels, width, size, padding=size // 2, bias=False))
        network.extend([nn.MaxPool2d(2), nn.BatchNorm2d(width), nn.ReLU()])
    places = (shape[1] // 8) * (shape[2] // 8)
    return network.extend([nn.Flatten(), nn.Linear(64 * places, classes)])


def pate_cnn(shape: Shape, classes: int) -> nn.Module:
    """The teacher of PATE 2017 (section 3), without local response normalisation."""
    body = nn.Sequential(
        *(nn.Conv2d(shape[0], 64, 5, padding=2), nn.MaxPool2d(3, 2, padding=1), nn.ReLU()),
        *(nn.Conv2d(64, 128, 5, padding=2), nn.MaxPool2d(3, 2, padding=1), nn.ReLU()),
    )
    return _with_head(body, shape, 384, classes)


def conv_small(
    shape: Shape,
    classes: int,
    widths: tuple[int, int, int, int, int] = (64, 128, 128, 128, 128),
) -> nn.Module:
    """Conv-Small of Miyato et al. 2017 (arXiv 1704.03976, appendix D).

    Its logits are not normalised. `widths` are the channels of the first stage, of the second, and
    of each convolution of the third; by default those for SVHN, with 0.63 million parameters.
    """

    def layer(channels: int, width: int, size: int = 3, padding: int = 1) -> list[nn.Module]:
        convolution = nn.Conv2d(channels, width, size, padding=padding, bias=False)
        return [convolution, nn.BatchNorm2d(width), nn.LeakyReLU(0.1)]

    border = int(min(shape[1:]) < 12)  # no padding on maps of 3 × 3 or more
    first, second, third, fourth, last = widths
    return nn.Sequential(
        *layer(shape[0], first),
        *layer(first, first),
        *layer(first, first),
        *(nn.MaxPool2d(2), nn.Dropout(0.5)),
        *layer(first, second),
        *layer(second, second),
        *layer(second, second),
        *(nn.MaxPool2d(2), nn.Dropout(0.5)),
        *layer(second, third, padding=border),
        *layer(third, fourth, 1, 0),
        *layer(fourth, last, 1, 0),
        *(GlobalAverage(), nn.Linear(last, classes)),
    )


#: Conv-Large of Miyato et al. 2017: 3.1 million parameters, for a VAT student on a GPU.
conv_large = partial(conv_small, widths=(128, 256, 512, 256, 128))


class _Unit(nn.Module):
    """x + conv(act(conv(act(x)))), act being batch normalisation and leaky ReLU 0.1.

    (He et al. 2016, pre-activation.) Where the width doubles, the shortcut is average-pooled and
    padded with zero channels (option A of He et al. 2015). The first unit of the network passes
    act(x) to the shortcut.
    """

    def __init__(self, channels: int, width: int, first: bool) -> None:
        super().__init__()
        self.pad = (width - channels) // 2
        self.first = first
        stride = width // channels
        self.norm1 = nn.BatchNorm2d(channels)
        self.norm2 = nn.BatchNorm2d(width)
        self.conv1 = nn.Conv2d(channels, width, 3, stride=stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        active = F.leaky_relu(self.norm1(x), 0.1)
        shortcut = x
        if self.first:
            shortcut = active
        if self.pad:
            shortcut = F.avg_pool2d(shortcut, 2, ceil_mode=True)
            shortcut = F.pad(shortcut, (0, 0, 0, 0, self.pad, self.pad))
        return torch.add(self.conv2(F.leaky_relu(self.norm2(self.conv1(active)), 0.1)), shortcut)


def resnet32(shape: Shape, classes: int) -> nn.Module:
    """ResNet-32 with leaky ReLU 0.1, the Glyph teacher of Scalable PATE 2018 (section 4.1).

    It has 0.46 million parameters.
    """
    network = nn.Sequential(nn.Conv2d(shape[0], 16, 3, padding=1, bias=False))
    for channels, width in pairwise([16] * 6 + [32] * 5 + [64] * 5):
        network.append(_Unit(channels, width, first=len(network) == 1))
    network.extend([nn.BatchNorm2d(64), nn.LeakyReLU(0.1)])
    network.extend([GlobalAverage(), nn.Linear(64, classes)])
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, a=0.1, mode="fan_out")
    return network
