"""The GAN-SSL pair that suits the shape: gan_conv for colour images, gan_cnn for grey images, gan_mlp otherwise."""

from types import ModuleType

from torch import nn

from nzc.networks import gan_cnn, gan_conv, gan_mlp


def _pair(shape: tuple[int, ...]) -> ModuleType:
    """Return the module of the pair. Images below 16 × 16 pixels are small enough for perceptrons."""
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
