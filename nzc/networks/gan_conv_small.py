"""GAN-SSL pair for colour images without a GPU: `cnn_bn`, and gan_conv's generator at a quarter of its widths."""

from functools import partial

from nzc.networks import gan_conv
from nzc.networks.cnn_bn import build

__all__ = ["build", "generator"]

generator = partial(gan_conv.generator, maps=32)
