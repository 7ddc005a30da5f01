"""The networks of the papers: logits, sizes of the literature, and gradients."""

import pytest
import torch
from conftest import parametrize
from pytest import raises
from torch.nn import functional as F

from nzc import networks
from nzc.validation import InputError

pytestmark = pytest.mark.usefixtures("one_thread")


@parametrize("network", sorted(networks.MODULES))
@parametrize("shape", [(1, 28, 28), (3, 32, 32), (1, 8, 8)])
def test_networks_give_logits_and_gradients_reach_every_weight(
    network: str, shape: tuple[int, ...]
) -> None:
    if shape == (1, 8, 8) and network == "cnn":
        pytest.skip("two 5 × 5 convolutions without padding need 16 × 16")
    built = networks.build(network, shape, 7)
    logits = built(torch.randn(2, *shape))
    assert logits.shape == (2, 7)
    F.cross_entropy(logits, torch.arange(2)).backward()
    for name, weight in built.named_parameters():
        assert weight.grad.isfinite().all(), name
        assert weight.grad.any(), name


@parametrize(
    ("network", "expected"),
    [
        ("resnet32", 464_154),  # He et al. 2015, Table 6: 0.46M; option A: 464,154
        ("conv_large", 3_121_802),  # 3.1M of Tarvainen and Valpola, Oliver et al.
        ("conv_small", 624_320 + 2 * (3 * 64 + 6 * 128) + 1290),  # convolutions, γ and β, logits
    ],
)
def test_sizes_are_the_literatures(network: str, expected: int) -> None:
    built = networks.build(network, (3, 32, 32), 10)
    assert sum(weight.numel() for weight in built.parameters()) == expected


@parametrize(
    ("shape", "unlabeled", "expected"),
    [
        ((1, 16, 16), False, "cnn"),
        ((3, 40, 20), True, "cnn_bn"),
        ((1, 15, 40), True, "mlp"),
        ((14,), True, "mlp"),
    ],
)
def test_a_network_follows_from_the_shape_of_a_row(
    shape: tuple[int, ...], unlabeled: bool, expected: str
) -> None:
    auto = networks.build("auto", shape, 3, unlabeled)
    assert str(auto) == str(networks.build(expected, shape, 3, unlabeled))


def test_what_suits_a_shape_is_known_before_anything_is_computed() -> None:
    state = torch.get_rng_state()
    networks.require_fit("resnet32", (3, 32, 32), 10)
    networks.require_fit("gan", (4,), 3)
    for network in ("resnet32", "gan_conv"):
        with raises(InputError, match=rf"^network={network}: .*\[4\]"):
            networks.require_fit(network, (4,), 3)
    assert (torch.get_rng_state() == state).all()
