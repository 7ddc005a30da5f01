"""ResNet-32 with leaky ReLU 0.1, the Glyph teacher of Scalable PATE 2018 (section 4.1)."""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nzc.networks._layers import GlobalAverage


class _Unit(nn.Module):
    """x + conv(act(conv(act(x)))), act being batch normalisation and leaky ReLU 0.1 (He et al. 2016, pre-activation).

    Where the width doubles, the map is halved: the shortcut is average-pooled 2 × 2 and padded with zero channels, so
    it has no parameters (option A of He et al. 2015). The first unit of the network passes act(x) to the shortcut.
    """

    def __init__(self, of: int, to: int, first: bool = False) -> None:
        super().__init__()
        self.pad, self.first = to - of, first
        self.norm1, self.norm2 = nn.BatchNorm2d(of), nn.BatchNorm2d(to)
        self.conv1 = nn.Conv2d(of, to, 3, stride=1 if of == to else 2, padding=1, bias=False)
        self.conv2 = nn.Conv2d(to, to, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        active = F.leaky_relu(self.norm1(x), 0.1)
        shortcut = active if self.first else x
        if self.pad:
            shortcut = F.avg_pool2d(shortcut, 2, ceil_mode=True)
            shortcut = F.pad(shortcut, (0, 0, 0, 0, self.pad // 2, self.pad - self.pad // 2))
        return torch.add(self.conv2(F.leaky_relu(self.norm2(self.conv1(active)), 0.1)), shortcut)


def build(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Three stages of five units, widths 16, 32, 64: 0.46 million parameters at 3 × 32 × 32 and 10 classes.

    A training batch needs two rows or more. Under vmap each network needs its own running statistics.
    """
    widths = [16, *[16] * 5, *[32] * 5, *[64] * 5]
    units = [_Unit(of, to, first=i == 0) for i, (of, to) in enumerate(pairwise(widths))]
    network = nn.Sequential(
        nn.Conv2d(shape[0], 16, 3, padding=1, bias=False),
        *units,
        *(nn.BatchNorm2d(64), nn.LeakyReLU(0.1), GlobalAverage(), nn.Linear(64, classes)),
    )
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, a=0.1, mode="fan_out")
    return network
