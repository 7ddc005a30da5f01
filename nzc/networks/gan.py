"""The pair of GAN-SSL that suits the shape: gan_conv for colour images, gan_cnn for grey ones, gan_mlp for the rest."""

from types import ModuleType

from torch import nn

from nzc.networks import gan_cnn, gan_conv, gan_mlp


def _pair(shape: tuple[int, ...]) -> ModuleType:
    """Images have three sizes; those below 16 × 16 are small enough for perceptrons."""
    if len(shape) != 3 or min(shape[1:]) < 16:
        return gan_mlp
    return gan_cnn if shape[0] == 1 else gan_conv


def build(shape: tuple[int, ...], classes: int) -> nn.Module:
    """The discriminator."""
    module: nn.Module = _pair(shape).build(shape, classes)
    return module


def generator(shape: tuple[int, ...]) -> nn.Module:
    """[rows, LATENT] → [rows, *shape] from 0 to 1."""
    module: nn.Module = _pair(shape).generator(shape)
    return module
