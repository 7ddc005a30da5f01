"""Stacked teachers: the weights of a cohort in one tensor, trained as one network (docs/gpu.md).

No number passes from one teacher to another, and each has its own generator, as when it is trained
alone.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from nzc.data.augment import RowWise
from nzc.networks import as_input
from nzc.teachers.teacher import Teacher


class Stacked:
    """Weights stacked, [teachers, ...], and trained as one network under vmap; torch.compile may
    make its losses.
    """

    def __init__(self, teachers: list[Teacher], compiled: bool = False) -> None:
        self.teachers, self.first = teachers, teachers[0]
        self.step_losses = torch.compile(self.losses, dynamic=False) if compiled else self.losses
        self.network = self.first.network
        self.parameters, self.buffers = stack_module_state(
            [teacher.network for teacher in teachers]
        )
        self.first.set_optimizer(list(self.parameters.values()))
        lengths = [len(teacher.y) for teacher in teachers]
        self.starts = [sum(lengths[:i]) for i in range(len(lengths))]  # the first row of each shard
        self.x, self.y = (
            torch.cat([one.x for one in teachers]),
            torch.cat([one.y for one in teachers]),
        )
        for teacher, x in zip(teachers, self.x.split(lengths), strict=True):
            teacher.x = x  # a view: the rows are held once

    @staticmethod
    def fitting(probe: Teacher, teachers: int) -> int:
        """Return how many teachers like this one are best trained at once on its device."""
        if probe.device.type != "cuda":
            return 32
        free = torch.cuda.mem_get_info(probe.device)[0]
        return int(max(1, min(teachers, free // 2 // _footprint(probe))))

    def train_pass(self) -> None:
        """Train one pass of every teacher over its shard."""
        for x, y in self.batches():
            self.first.optimizer.zero_grad()
            self.step_losses(x, y).sum().backward()
            self.first.step()

    def batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the batches of one pass, x [teachers, rows, ...] and y [teachers, rows]: those of
        `draw_pass`.
        """
        size, augment = self.first.settings.batch_size, self.first.settings.augment
        if augment is not None and not isinstance(augment, RowWise):
            x, y = (
                torch.stack(part)
                for part in zip(*(one.draw_pass() for one in self.teachers), strict=True)
            )
            yield from zip(x.split(size, dim=1), y.split(size, dim=1), strict=True)
            return
        if augment is not None and not augment.takes(self.x.shape[1:]):
            augment = None
        order, draws = [], []
        for start, teacher in zip(self.starts, self.teachers, strict=True):
            rows = torch.randperm(len(teacher.y), generator=teacher.rng)[: teacher.rows]
            order.append(start + rows)
            draws.append(
                torch.empty(len(rows), 0)
                if augment is None
                else augment.draw(len(rows), teacher.rng)
            )
        device = self.first.device
        batches = (torch.stack(part).to(device).split(size, dim=1) for part in (order, draws))
        for rows, drawn in zip(*batches, strict=True):
            x, y = self.x[rows], self.y[rows]
            if augment is not None:
                x = augment.apply(x.flatten(0, 1), drawn.flatten(0, 1)).view_as(x)
            yield x, y

    def losses(self, x: Tensor, y: Tensor) -> Tensor:
        """Return every teacher's own loss of its own batch, [teachers]."""
        with Unfolded():
            logits = vmap(self._logits)(self.parameters, self.buffers, x)
            return vmap(F.cross_entropy)(logits, y)

    def logits(self, x: Tensor) -> Tensor:
        """Return every teacher's logits [teachers, rows, classes] of the same rows, as networks
        take them.
        """
        with Unfolded():
            return vmap(self._logits, in_dims=(0, 0, None))(self.parameters, self.buffers, x)

    @torch.no_grad()
    def predict(self, public: Tensor) -> Iterator[Tensor]:
        """Yield each teacher's labels of the public rows, [rows], on the CPU."""
        self.network.eval()
        chunks = public.split(max(16, 32_000 // len(self.teachers)))
        parts = [self.logits(as_input(x.to(self.first.device))).argmax(dim=2).cpu() for x in chunks]
        yield from torch.cat(parts, dim=1)

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
        return (_unfolded if function is torch.conv2d else function)(*args, **(kwargs or {}))


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
    if groups != 1 or isinstance(padding, str) or {*_pair(dilation)} != {1}:
        return torch.conv2d(x, weight, bias, stride, padding, dilation, groups)
    (high, wide), (down, right) = _pair(padding), _pair(stride)
    if high or wide:
        x = F.pad(x, (wide, wide, high, high))
    patches = (
        x.unfold(2, weight.shape[2], down)
        .unfold(3, weight.shape[3], right)
        .permute(0, 2, 3, 1, 4, 5)
    )
    places = patches.shape[:3]  # rows, height, width
    y = (
        patches.reshape(places.numel(), -1) @ weight.flatten(1).T
    )  # F.linear would multiply by 1 under vmap
    if bias is not None:
        y = y + bias.to(y.dtype)
    return (
        y.view(*places, -1).permute(0, 3, 1, 2).contiguous()
    )  # on CUDA, vmap's batch normalisation wants it so


def _pair(of: Any) -> tuple[int, int]:
    return (of, of) if isinstance(of, int) else (of[0], of[-1])


def _footprint(teacher: Teacher) -> int:
    """Return about how many bytes a stacked teacher takes: weights, gradients, moments, activations
    and its shard.
    """
    sizes: list[int] = []

    def measure(module: nn.Module, inputs: object, output: Tensor) -> None:
        sizes.append(output.numel() * output.element_size())
        if isinstance(module, nn.Conv2d):
            sizes.append(sizes[-1] * module.weight[0].numel() // module.out_channels)  # the patches

    hooks = [module.register_forward_hook(measure) for module in teacher.network.modules()]
    with torch.no_grad():
        teacher.network(teacher.x[: teacher.settings.batch_size])
    for hook in hooks:
        hook.remove()
    weights = sum(
        parameter.numel() * parameter.element_size() for parameter in teacher.network.parameters()
    )
    return 6 * weights + 4 * sum(sizes) + 3 * teacher.x.numel() * teacher.x.element_size()
