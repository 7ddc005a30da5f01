"""The pair of GAN-SSL that suits the shape: convolutions for colour images, perceptrons for anything else."""

from types import ModuleType

from torch import nn

from nzc.networks import gan_conv, gan_mlp


def _pair(shape: tuple[int, ...]) -> ModuleType:
    return gan_conv if len(shape) == 3 and shape[0] > 1 and min(shape[1:]) >= 16 else gan_mlp


def build(shape: tuple[int, ...], classes: int) -> nn.Module:
    """The discriminator; a shape of three sizes with two channels or more, and 16 × 16 or more, is a colour image."""
    module: nn.Module = _pair(shape).build(shape, classes)
    return module


def generator(shape: tuple[int, ...]) -> nn.Module:
    """[rows, LATENT] → [rows, *shape] from 0 to 1."""
    module: nn.Module = _pair(shape).generator(shape)
    return module
