"""CUDA graphs: on a GPU, the same results. benchmarks/gpu.py (same) compares whole students."""

import pytest
import torch
from pytest import raises

from nzc.training.graph import WARM_UP, Graph
from nzc.validation import InputError

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
CALLS = WARM_UP + 3


def _results(graphed: bool) -> list[torch.Tensor]:
    """Noisy sums of a vector that grows in place, and of a number that changes with each call."""
    device = torch.device("cuda")
    rng = torch.Generator(device).manual_seed(1)
    torch.manual_seed(2)
    total = torch.zeros(5, device=device)

    def function(x: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
        noise = torch.randn(5, generator=rng, device=device) + torch.rand(5, device=device)
        return total.add_(number * x + noise).clone()

    call = Graph(function, rng) if graphed else function
    arguments = torch.arange(CALLS, device=device, dtype=torch.float32)
    return [call(torch.ones(5, device=device), number).clone() for number in arguments]


def test_inputs_draws_and_changes_in_place_go_on() -> None:
    torch.testing.assert_close(_results(True), _results(False), rtol=0, atol=0)


def test_a_function_that_waits_for_the_gpu_is_refused() -> None:
    graph = Graph(lambda x: x * x.sum().item(), torch.Generator("cuda"))
    for _ in range(WARM_UP):
        graph(torch.ones(3, device="cuda"))
    with raises(InputError, match=r"trainer\.compile"):
        graph(torch.ones(3, device="cuda"))
    torch.rand(3, device="cuda")  # later runs of this process draw as before
