"""The pair of gan_conv at three eighths and a quarter of its widths: colour images, where there is no GPU."""

from torch import nn

from nzc.networks import gan_conv


def build(shape: tuple[int, ...], classes: int) -> nn.Module:
    """The discriminator, of widths 24 and 48."""
    return gan_conv.build(shape, classes, maps=24)


def generator(shape: tuple[int, ...]) -> nn.Module:
    """[rows, LATENT] → 128 maps of about 4 × 4, 64, 32 → [rows, *shape] from 0 to 1."""
    return gan_conv.generator(shape, maps=32)
