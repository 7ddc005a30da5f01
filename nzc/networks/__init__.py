"""Networks by name. Importing this package does not import torch."""

import warnings
from collections.abc import Callable
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any

from nzc.ranges import checked
from nzc.types import AnyArray, Shape
from nzc.validation import InputError, in_a_line, one_of

if TYPE_CHECKING:
    from torch import Tensor, nn

_CLASSIFIERS = ("auto", "mlp", "cnn", "cnn_bn", "pate_cnn", "conv_small", "conv_large", "resnet32")
_DISCRIMINATORS = ("gan", "gan_mlp", "gan_cnn", "gan_conv", "gan_conv_small")
#: The module of each network; its function of that name gets what it takes of the arguments of
#: `build`.
MODULES = {
    **dict.fromkeys(_CLASSIFIERS, "nzc.networks.classifiers"),
    **dict.fromkeys(_DISCRIMINATORS, "nzc.networks.gan"),
}


def check(key: str, network: object) -> None:
    """Raise InputError unless a network is one of MODULES, or makes a module."""
    if not callable(network):
        one_of(key, network, sorted(MODULES))


#: A name, or a class or function that makes an nn.Module: of the arguments of `build` it is given
#: those that it takes.
Network = Annotated[str | Callable[..., Any], checked(check)]


def build(network: Network, shape: Shape, classes: int, unlabeled: bool = False) -> "nn.Module":
    """Return a network for rows of `shape`, giving logits [rows, classes].

    unlabeled  whether it also learns from rows without labels
    """
    import torch

    make: Any = network
    if isinstance(network, str):
        make = getattr(import_module(MODULES[network]), network)
    arguments = {"shape": shape, "classes": classes, "unlabeled": unlabeled}
    takes = signature(make).parameters
    module: nn.Module = make(**{name: arguments[name] for name in arguments if name in takes})
    return module.to(memory_format=torch.channels_last)


def require_fit(
    network: Network | None, shape: Shape, classes: int, unlabeled: bool = False
) -> None:
    """Raise InputError unless the network maps rows of `shape` to logits [rows, classes].

    It is tried on the meta device, which computes nothing.
    """
    import torch

    check("network", network)
    assert network is not None
    try:
        with torch.device("meta"), warnings.catch_warnings(action="ignore"):
            module = build(network, shape, classes, unlabeled)
            logits = list(module(torch.empty(2, *shape)).shape)
    except Exception as error:  # layers raise many types
        allowed = f"must take rows of shape {list(shape)} ({in_a_line(error)})"
        raise InputError("network", network, allowed) from error
    if logits != [2, classes]:
        allowed = f"must give logits [rows, {classes}], not {['rows', *logits[1:]]}"
        raise InputError("network", network, allowed)


def as_input(x: "Tensor") -> "Tensor":
    """Return rows as networks take them: image bytes become floats from 0 to 1."""
    import torch

    if x.dtype == torch.uint8:
        return x.float().div_(255)
    return x


def outputs(network: "nn.Module", x: AnyArray) -> "Tensor":
    """Return what a trained network makes of rows x [rows, ...], on the CPU, in small batches."""
    import torch

    network.eval()
    device = next(network.parameters(), torch.empty(0)).device
    with torch.no_grad():
        batches = torch.from_numpy(x).split(1000)
        return torch.cat([network(as_input(batch.to(device))).cpu() for batch in batches])
