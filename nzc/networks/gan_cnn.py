"""GAN-SSL pair for grey images of about 28 × 28 pixels; one core trains it in minutes."""

from functools import partial

from torch import nn

from nzc.networks import gan_conv
from nzc.networks._layers import AddNoise, WeightNormConv2d, WeightNormLinear, size_after

__all__ = ["build", "generator"]

# A generator of perceptrons draws rough images, which a convolutional discriminator soon recognises without fail.
generator = partial(gan_conv.generator, maps=16)


def build(shape: tuple[int, ...], classes: int) -> nn.Module:
    """5 × 5 and 3 × 3 convolutions (16, 32), each of stride 2, then 128 hidden units; noise as in gan_mlp."""
    body = nn.Sequential(
        *(AddNoise(0.3), WeightNormConv2d(shape[0], 16, 5, 0, stride=2, padding=2), nn.ReLU()),
        *(WeightNormConv2d(16, 32, 3, 0, stride=2, padding=1), nn.ReLU(), AddNoise(0.5), nn.Flatten()),
    )
    hidden = WeightNormLinear(size_after(body, shape), 128, 0)
    return nn.Sequential(*body, hidden, nn.ReLU(), AddNoise(0.5), WeightNormLinear(128, classes, None))
