"""The small networks of the papers: one file each, named by its file. Importing this package does not import torch."""

import warnings
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from nzc.errors import InputError, in_a_line, one_of

if TYPE_CHECKING:
    from torch import Tensor, nn


def names() -> tuple[str, ...]:
    """The networks that can be asked for."""
    return tuple(sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py")))


def check(network: object) -> None:
    """Raise InputError unless `network` is one of `names()`."""
    one_of(names(), network=network)


def build(network: str, shape: tuple[int, ...], classes: int) -> "nn.Module":
    """A fresh network for inputs of `shape` (without the rows), giving logits [rows, classes]."""
    import torch

    module: nn.Module = import_module(f"nzc.networks.{network}").build(shape, classes)
    return module.to(memory_format=torch.channels_last)


def suits(network: str, shape: tuple[int, ...], classes: int) -> None:
    """Raise InputError unless `network` takes inputs of `shape`. Nothing is computed or drawn: it is all on `meta`."""
    import torch

    try:
        with torch.device("meta"), warnings.catch_warnings(action="ignore"):
            build(network, shape, classes)(torch.empty(2, *shape))
    except Exception as error:  # whatever its layers made of them
        allowed = f"must take rows of shape {list(shape)} ({in_a_line(error)})"
        raise InputError("network", network, allowed) from error


def generator(network: str, shape: tuple[int, ...]) -> "nn.Module":
    """A fresh generator to train against `network`: uniform numbers [rows, LATENT] → rows of `shape`, from 0 to 1.

    Its own, where the file has one; otherwise the one that suits the shape.
    """
    import torch

    module = import_module(f"nzc.networks.{network}")
    if not hasattr(module, "generator"):
        module = import_module("nzc.networks.gan")
    made: nn.Module = module.generator(shape)
    return made.to(memory_format=torch.channels_last)


def as_input(x: "Tensor") -> "Tensor":
    """What networks take: bytes of images become floats from 0 to 1."""
    import torch

    return x.float().div_(255) if x.dtype == torch.uint8 else x
