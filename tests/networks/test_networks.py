"""The networks of the papers: logits, sizes of the literature, learning, and training side by side under vmap."""

import copy

import pytest
import torch
from torch.func import functional_call, grad, stack_module_state, vmap
from torch.nn import functional as F

from nzc import networks
from nzc.validation import InputError

pytestmark = pytest.mark.usefixtures("one_thread")
SHAPES = [(1, 28, 28), (3, 32, 32)]
PAPERS = ["conv_large", "conv_small", "resnet32"]


@pytest.mark.parametrize("network", networks.names())
@pytest.mark.parametrize("shape", [*SHAPES, (1, 8, 8)])
def test_networks_give_logits(network: str, shape: tuple[int, ...]) -> None:
    if shape == (1, 8, 8) and network == "cnn":
        pytest.skip("two 5 × 5 convolutions without padding need 16 × 16")
    assert networks.build(network, shape, 7)(torch.zeros(2, *shape)).shape == (2, 7)


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        ("resnet32", 464_154),  # He et al. 2015, Table 6: 0.46M; option A: 464,154
        ("conv_large", 3_121_802),  # 3.1M in all who reuse it (Tarvainen and Valpola, Oliver et al.)
        ("conv_small", 624_320 + 2 * (3 * 64 + 6 * 128) + 1290),  # convolutions, γ and β, logits
    ],
)
def test_sizes_are_the_literatures(network: str, expected: int) -> None:
    built = networks.build(network, (3, 32, 32), 10)
    assert sum(weight.numel() for weight in built.parameters()) == expected


@pytest.mark.parametrize("network", networks.names())
def test_gradients_reach_every_weight(network: str) -> None:
    built = networks.build(network, (1, 16, 16), 5)
    F.cross_entropy(built(torch.randn(2, 1, 16, 16)), torch.arange(2)).backward()
    for name, weight in built.named_parameters():
        assert weight.grad is not None and weight.grad.isfinite().all(), name
        assert weight.grad.abs().sum() > 0, name


@pytest.mark.parametrize("network", ["conv_small", "resnet32"])
def test_a_tiny_batch_is_learned(network: str) -> None:
    """Conv-Large is Conv-Small with other widths."""
    built = networks.build(network, (1, 8, 8), 4)
    x, y = torch.randn(8, 1, 8, 8), torch.arange(8) % 4
    optimizer = torch.optim.Adam(built.parameters(), 3e-3)
    for _ in range(60):
        optimizer.zero_grad()
        F.cross_entropy(built(x), y).backward()
        optimizer.step()
    assert (networks.outputs(built, x.numpy()).argmax(1) == y).all()


@pytest.mark.parametrize("network", PAPERS)
def test_side_by_side_is_as_alone(network: str) -> None:
    """Logits, gradients and running statistics of stacked networks are those of each by itself (dropout off)."""
    alone = [networks.build(network, (1, 12, 12), 3) for _ in range(2)]
    for module in (part for one in alone for part in one.modules()):
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    base = copy.deepcopy(alone[0]).to("meta")
    weights, buffers = stack_module_state(alone)  # type: ignore[arg-type]
    buffers = {name: buffer.clone() for name, buffer in buffers.items()}
    x, y = torch.randn(2, 6, 1, 12, 12), torch.randint(3, (2, 6))

    def loss(weights, buffers, x, y):
        logits = functional_call(base, (weights, buffers), (x,))
        return F.cross_entropy(logits, y), logits

    gradients, logits = vmap(grad(loss, has_aux=True), randomness="different")(weights, buffers, x, y)
    for i, one in enumerate(alone):
        expected = one(x[i])
        F.cross_entropy(expected, y[i]).backward()
        torch.testing.assert_close(logits[i], expected, rtol=1e-4, atol=1e-4)
        for name, weight in one.named_parameters():
            torch.testing.assert_close(gradients[name][i], weight.grad, rtol=1e-3, atol=1e-4)
        for name, buffer in one.named_buffers():
            torch.testing.assert_close(buffers[name][i], buffer, rtol=1e-4, atol=1e-5)


def test_dropout_is_drawn_for_each_network() -> None:
    one = networks.build("conv_small", (1, 12, 12), 3)
    weights, buffers = stack_module_state([one, one])  # type: ignore[arg-type]
    x = torch.randn(6, 1, 12, 12)
    run = vmap(lambda w, b: functional_call(one, (w, b), (x,)), randomness="different")
    first, second = run(weights, buffers)
    assert not torch.allclose(first, second)


def test_what_suits_a_shape_is_known_before_anything_is_computed() -> None:
    state = torch.get_rng_state()
    networks.require_fit("resnet32", (3, 32, 32), 10)
    networks.require_fit("gan", (4,), 3)
    for network in ("resnet32", "gan_conv"):
        with pytest.raises(InputError, match=rf"network={network}: must take rows of shape \[4\]"):
            networks.require_fit(network, (4,), 3)
    assert (torch.get_rng_state() == state).all()
