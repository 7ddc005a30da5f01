"""Teachers in threads: the engine's path on a CPU.

Each teacher has its own thread on one core, because small networks gain nothing from several cores per operation.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import torch
from torch import Tensor

from nzc.networks import as_input
from nzc.teachers.teacher import Teacher

#: Bytes of several small shards for one core.
_SMALL = 2**24
#: A thread labels so many rows at a time: what a layer makes of them stays in its core's cache.
_AT_ONCE = 200


class Threads:
    """One thread for each core, which trains one teacher at a time.

    precision  the context of every forward pass: autocast is a setting of each thread
    """

    def __init__(
        self, teachers: list[Teacher], cores: int, precision: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self.teachers, self.precision = teachers, precision
        self.pool = ThreadPoolExecutor(min(len(teachers), cores))
        for teacher in teachers:
            teacher.set_optimizer(list(teacher.network.parameters()))

    @staticmethod
    def fitting(probe: Teacher, cores: int) -> int:
        """Return how many teachers like this one are best trained at once.

        Of teachers with small shards there are several for each core, so that no core waits long at the end of a pass.
        """
        shard = probe.x.numel() * probe.x.element_size()  # none where names decide and leave it empty
        return min(4, max(1, _SMALL // max(1, shard))) * cores

    def train_pass(self) -> None:
        """Train one pass of every teacher over its shard."""

        def train(teacher: Teacher) -> None:
            with self.precision():
                teacher.train_pass()

        list(self.pool.map(train, self.teachers))

    def predict(self, public: Tensor) -> Iterator[Tensor]:
        """Yield each teacher's labels of the public rows, [rows], on the CPU."""

        @torch.no_grad()
        def labels(teacher: Teacher) -> Tensor:
            teacher.network.eval()
            with self.precision():
                parts = [
                    teacher.network(as_input(x.to(teacher.device))).argmax(1).cpu() for x in public.split(_AT_ONCE)
                ]
            return torch.cat(parts)

        yield from self.pool.map(labels, self.teachers)
