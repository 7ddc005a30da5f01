"""GAN-SSL pair of Salimans et al. 2016 for MNIST: perceptrons, for small grey images and tables."""

from itertools import pairwise
from math import prod

from torch import nn

from nzc.networks._layers import LATENT, AddNoise, WeightNormLinear


def build(shape: tuple[int, ...], classes: int) -> nn.Module:
    """The discriminator: any shape, flattened → 1000, 500, 250, 250, 250 → classes.

    Weight normalisation, ReLU, Gaussian noise of 0.3 on the input and 0.5 on each hidden layer.
    """
    layers: list[nn.Module] = [nn.Flatten(), AddNoise(0.3)]
    for of, to in pairwise((prod(shape), 1000, 500, 250, 250, 250)):
        layers += [WeightNormLinear(of, to, 0), nn.ReLU(), AddNoise(0.5)]
    return nn.Sequential(*layers, WeightNormLinear(250, classes, None))


def generator(shape: tuple[int, ...]) -> nn.Module:
    """[rows, LATENT] → 500, 500 (softplus, batch-normalised) → [rows, *shape] from 0 to 1."""
    layers: list[nn.Module] = []
    for of in (LATENT, 500):
        layers += [nn.Linear(of, 500, bias=False), nn.BatchNorm1d(500), nn.Softplus()]
    return nn.Sequential(*layers, nn.Linear(500, prod(shape)), nn.Sigmoid(), nn.Unflatten(1, shape))
