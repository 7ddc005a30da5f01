"""CUDA graphs: the kernels of a function, recorded once and then started all together."""

from collections.abc import Callable

import torch
from torch import Tensor

from nzc.validation import InputError, in_a_line

WARM_UP = 3  # calls before kernels are recorded: libraries choose theirs, and streams are joined


class Graph:
    """A function of tensors on a GPU, for which Python no longer runs after its first calls.

    What it reads must stay where it is, and change in place; it may draw from `generator` and from
    the device's own, and not from the CPU's. What it returns is overwritten by the next call.
    """

    output: Tensor

    def __init__(self, function: Callable[..., Tensor], generator: torch.Generator) -> None:
        self.function = function
        self.generator = generator
        self.calls = 0
        self.graph = torch.cuda.CUDAGraph()
        self.side = torch.cuda.Stream()
        self.inputs = list[Tensor]()

    def __call__(self, *inputs: Tensor) -> Tensor:
        """Return function(*inputs). InputError: its kernels cannot be recorded."""
        self.calls += 1
        if self.calls <= WARM_UP:
            # On the stream that records; it and the current one wait for each other.
            main = torch.cuda.current_stream()
            self.side.wait_stream(main)
            with torch.cuda.stream(self.side):
                output = self.function(*inputs)
            main.wait_stream(self.side)
            return output
        if not self.inputs:
            self._record(inputs)
        torch._foreach_copy_(self.inputs, inputs)
        self.graph.replay()
        return self.output

    def _record(self, inputs: tuple[Tensor, ...]) -> None:
        self.inputs = [x.clone() for x in inputs]
        if torch.__version__ < "2.14":  # from then on a recording finds its generators itself
            self.graph.register_generator_state(self.generator)
        try:
            with (
                torch.cuda.stream(torch.cuda.current_stream()),  # restores it after an error, too
                torch.cuda.graph(self.graph, stream=self.side, capture_error_mode="thread_local"),
            ):
                self.output = self.function(*self.inputs)
        except Exception as error:  # parts of users raise many types
            rng = torch.cuda.default_generators[torch.cuda.current_device()]
            rng.graphsafe_set_state(rng.clone_state())  # torch 2.11 leaves it as in a recording
            cause = in_a_line(error.__context__ or error, 200)
            raise InputError(
                "trainer.compile", True, f"must be false: this step cannot be recorded ({cause})"
            ) from error
