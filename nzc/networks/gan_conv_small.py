"""GAN-SSL pair for colour images without a GPU: `cnn_bn`, and gan_conv's generator at a quarter of its widths."""

from torch import nn

from nzc.networks import gan_conv
from nzc.networks.cnn_bn import build

__all__ = ["build", "generator"]


def generator(shape: tuple[int, ...]) -> nn.Module:
    """[rows, LATENT] → 128 maps of about 4 × 4, 64, 32 → [rows, *shape] from 0 to 1."""
    return gan_conv.generator(shape, maps=32)
