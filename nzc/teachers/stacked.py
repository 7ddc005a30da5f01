"""Stacked teachers: the weights of a cohort in one tensor, trained as one network (docs/gpu.md).

No number passes from one teacher to another, and each has its own generator, as when it is trained
alone.
"""

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from nzc.data.augment import RowWise
from nzc.networks import as_input
from nzc.teachers.teacher import Batch, Teacher


class Stacked:
    """Weights stacked, [teachers, ...], and trained as one network under vmap.

    compiled  whether torch.compile makes the losses
    """

    def __init__(self, teachers: list[Teacher], compiled: bool = False) -> None:
        self.teachers = teachers
        self.first = teachers[0]
        self.network = self.first.network
        self.step_losses = torch.compile(self.losses, dynamic=False) if compiled else self.losses
        self.parameters, self.buffers = stack_module_state(
            [teacher.network for teacher in teachers]
        )
        self.first.set_optimizer(list(self.parameters.values()))
        lengths = [len(teacher.y) for teacher in teachers]
        self.starts = list(accumulate(lengths[:-1], initial=0))  # the first row of each shard
        self.x = torch.cat([teacher.x for teacher in teachers])
        self.y = torch.cat([teacher.y for teacher in teachers])
        for teacher, x in zip(teachers, self.x.split(lengths), strict=True):
            teacher.x = x  # a view: the rows are held once

    @staticmethod
    def fitting(probe: Teacher, teachers: int) -> int:
        """Return how many teachers like this one are best trained at once on its device."""
        if probe.device.type != "cuda":
            return 32
        free = torch.cuda.mem_get_info(probe.device)[0]
        return max(1, min(teachers, free // 2 // _footprint(probe)))

    def train_pass(self) -> None:
        """Train one pass of every teacher over its shard."""
        for x, y in self.batches():
            self.first.optimizer.zero_grad()
            self.step_losses(x, y).sum().backward()
            self.first.step()

    def batches(self) -> Iterator[Batch]:
        """Yield the batches of one pass, x [teachers, rows, ...] and y [teachers, rows].

        They are those of `draw_pass`.
        """
        augment = self.first.settings.augment
        size = self.first.settings.batch_size
        if augment is None or isinstance(augment, RowWise):
            yield from self._row_wise_batches(augment, size)
        else:
            passes = [teacher.draw_pass() for teacher in self.teachers]
            x, y = map(torch.stack, zip(*passes, strict=True))
            yield from zip(x.split(size, dim=1), y.split(size, dim=1), strict=True)

    def _row_wise_batches(self, augment: RowWise | None, size: int) -> Iterator[Batch]:
        """Yield the batches of a pass; each is augmented in one call for all teachers."""
        if augment is not None and not augment.takes(self.x.shape[1:]):
            augment = None
        orders = []
        draws = []
        for start, teacher in zip(self.starts, self.teachers, strict=True):
            order = torch.randperm(len(teacher.y), generator=teacher.rng)[: teacher.rows]
            orders.append(start + order)
            if augment is not None:
                draws.append(augment.draw(len(order), teacher.rng))
        rows = torch.stack(orders).to(self.first.device)
        numbers = torch.stack(draws).to(self.first.device) if draws else rows
        for batch, drawn in zip(rows.split(size, dim=1), numbers.split(size, dim=1), strict=True):
            x = self.x[batch]
            if augment is not None:
                x = augment.apply(x.flatten(0, 1), drawn.flatten(0, 1)).view_as(x)
            yield x, self.y[batch]

    def losses(self, x: Tensor, y: Tensor) -> Tensor:
        """Return every teacher's own loss of its own batch, [teachers]."""
        with Unfolded():
            logits = vmap(self._logits)(self.parameters, self.buffers, x)
            return vmap(F.cross_entropy)(logits, y)

    def logits(self, x: Tensor) -> Tensor:
        """Return every teacher's logits of the same rows, [teachers, rows, classes]."""
        with Unfolded():
            return vmap(self._logits, in_dims=(0, 0, None))(self.parameters, self.buffers, x)

    @torch.no_grad()
    def predict(self, public: Tensor) -> Iterator[Tensor]:
        """Yield each teacher's labels of the public rows, [rows], on the CPU."""
        self.network.eval()
        labels = [
            self.logits(as_input(x.to(self.first.device))).argmax(dim=2).cpu()
            for x in public.split(max(16, 32_000 // len(self.teachers)))
        ]
        yield from torch.cat(labels, dim=1)

    def _logits(
        self, parameters: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor
    ) -> Tensor:
        logits: Tensor = functional_call(self.network, (parameters, buffers), (x,))
        return logits


class Unfolded(TorchFunctionMode):
    """Within this context a 2-D convolution is a matrix product of its patches and filters.

    Under vmap that is one batched product; a convolution with a group for each teacher would be
    slow.
    """

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function is torch.conv2d:
            function = _unfolded
        return function(*args, **(kwargs or {}))


def _unfolded(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Return conv2d's result. `F.unfold` would start a CUDA kernel for every row."""
    if groups != 1 or isinstance(padding, str) or _pair(dilation) != (1, 1):
        return torch.conv2d(x, weight, bias, stride, padding, dilation, groups)
    high, wide = _pair(padding)
    down, right = _pair(stride)
    if high or wide:
        x = F.pad(x, (wide, wide, high, high))
    patches = x.unfold(2, weight.shape[2], down).unfold(3, weight.shape[3], right)
    patches = patches.permute(0, 2, 3, 1, 4, 5)
    places = patches.shape[:3]  # rows, height, width
    # F.linear would multiply by 1 under vmap.
    y = patches.reshape(places.numel(), -1) @ weight.flatten(1).T
    if bias is not None:
        y = y + bias.to(y.dtype)
    # On CUDA, vmap's batch normalisation wants it contiguous.
    return y.view(*places, -1).permute(0, 3, 1, 2).contiguous()


def _footprint(teacher: Teacher) -> int:
    """Return about how many bytes a stacked teacher takes.

    They are those of weights, gradients, moments, activations and its shard.
    """
    activations: list[int] = []

    def measure(module: nn.Module, inputs: object, output: Tensor) -> None:
        activations.append(output.nbytes)
        if isinstance(module, nn.Conv2d):  # the patches
            activations.append(output.nbytes * module.weight[0].numel() // module.out_channels)

    hooks = [module.register_forward_hook(measure) for module in teacher.network.modules()]
    with torch.no_grad():
        teacher.network(teacher.x[: teacher.settings.batch_size])
    for hook in hooks:
        hook.remove()
    weights = sum(parameter.nbytes for parameter in teacher.network.parameters())
    return 6 * weights + 4 * sum(activations) + 3 * teacher.x.nbytes


def _pair(size: int | tuple[int, int]) -> tuple[int, int]:
    """Return sizes in both directions: one number stands for both."""
    return (size, size) if isinstance(size, int) else size
