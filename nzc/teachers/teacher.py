"""One teacher of an ensemble of networks; and several in threads: the engine's way on a CPU."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from nzc import networks
from nzc.data.augment import RowWise
from nzc.networks import as_input
from nzc.networks.classifiers import DROPOUT
from nzc.teachers.sharded import EnsembleSettings

Batch = tuple[Tensor, Tensor]  # rows and their labels
#: Rows of a teacher that are drawn together.
_AHEAD = 500
#: Multiplications of a step, below which the work around it takes longer than the step.
_SMALL = 2**18
#: Rows that a thread labels at a time: what a layer makes of them stays in its core's cache.
_AT_ONCE = 200


class Teacher:
    """A network and the rows x, y of one shard. (settings.seed, number) decides what it draws."""

    def __init__(
        self,
        settings: EnsembleSettings,
        number: int,
        x: Tensor,
        y: Tensor,
        rows: int | None,  # of a pass; None: all
        classes: int,
        device: torch.device,
    ) -> None:
        self.settings = settings
        self.device = device
        self.x = as_input(x.to(device))
        self.y = y.to(device)
        self.rows = len(y) if rows is None else rows
        self.drawn = list[Batch]()  # the rows of passes to come
        state = np.random.SeedSequence([settings.seed, number]).generate_state(1, np.uint64)
        seed = int(state[0] >> 1)
        self.rng = torch.Generator().manual_seed(seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = networks.build(settings.network, tuple(self.x.shape[1:]), classes)
        self.network = network.to(device)
        # Dropout uses the global generator, which is seeded: such a teacher is trained alone.
        self.has_dropout = any(isinstance(module, DROPOUT) for module in network.modules())
        self.can_be_stacked = settings.keeps_apart and not self.has_dropout and rows is not None

    def is_stacked(self, device_kind: str) -> bool:
        """Return whether it is trained as one network with others: as set, or where faster."""
        if not self.can_be_stacked:
            return False
        if self.settings.stacked is not None:
            return self.settings.stacked
        if device_kind != "cpu":
            return True
        if not isinstance(self.settings.network, str):  # it may choose by numbers of a batch
            return False
        weights = sum(weight.numel() for weight in self.network.parameters())
        return weights * min(self.rows, self.settings.batch_size) < _SMALL

    def draw_pass(self) -> Batch:
        """Return the rows of one pass, in random order and augmented."""
        if not self.drawn:
            self.drawn = self._draw_passes()
        return self.drawn.pop(0)

    def _draw_passes(self) -> list[Batch]:
        """Return the rows of the next pass, or of several: a call costs more than few rows.

        Several are drawn only where augmentation and dropout draw the same numbers then.
        """
        augment: Any = self.settings.augment
        passes = 1
        if isinstance(augment, RowWise) and not self.has_dropout:
            passes = max(1, _AHEAD // self.rows)
        orders = []
        draws = []
        for _ in range(passes):
            orders.append(torch.randperm(len(self.y), generator=self.rng)[: self.rows])
            if isinstance(augment, RowWise) and augment.takes(self.x.shape[1:]):
                draws.append(augment.draw(len(orders[-1]), self.rng))
        order = torch.cat(orders).to(self.device)
        x = self.x[order]
        if draws:
            x = augment.apply(x, torch.cat(draws))
        elif augment is not None:
            x = augment(x, self.rng)
        return list(zip(x.chunk(passes), self.y[order].chunk(passes), strict=True))

    def train_pass(self) -> None:
        """Train one pass of this teacher alone."""
        size = self.settings.batch_size
        x, y = self.draw_pass()
        if self.has_dropout:
            torch.manual_seed(int(torch.randint(2**62, (1,), generator=self.rng)))
        for rows, labels in zip(x.split(size), y.split(size), strict=True):
            self.optimizer.zero_grad()
            F.cross_entropy(self.network(rows), labels).backward()
            self.step()

    def set_optimizer(self, parameters: list[Tensor]) -> None:
        """Create optimiser and schedule of these parameters: its own, or a cohort's stacked."""
        steps = self.settings.epochs * -(-self.rows // self.settings.batch_size)
        self.optimizer, self.schedule = self.settings.make_optimizer(parameters, steps)

    def step(self) -> None:
        """Update the parameters by their gradients, and then the learning rate."""
        self.optimizer.step()
        torch.clear_autocast_cache()  # in bf16 it has the weights before this step
        if self.schedule is not None:
            self.schedule.step()


class Threads:
    """One thread for each core, which trains one teacher at a time, each pass in `precision`."""

    def __init__(self, teachers: list[Teacher], cores: int, precision: Callable[[], Any]) -> None:
        self.teachers = teachers
        self.precision = precision
        self.pool = ThreadPoolExecutor(min(len(teachers), cores))
        for teacher in teachers:
            teacher.set_optimizer(list(teacher.network.parameters()))

    def train_pass(self) -> None:
        """Train one pass of every teacher over its shard."""

        def train(teacher: Teacher) -> None:
            with self.precision():
                teacher.train_pass()

        list(self.pool.map(train, self.teachers))

    def predict(self, public: Tensor) -> Iterator[Tensor]:
        """Yield each teacher's labels of the public rows, [rows], on the CPU."""

        @torch.no_grad()
        def label(teacher: Teacher) -> Tensor:
            teacher.network.eval()
            with self.precision():
                labels = [
                    teacher.network(as_input(x.to(teacher.device))).argmax(1).cpu()
                    for x in public.split(_AT_ONCE)
                ]
            return torch.cat(labels)

        yield from self.pool.map(label, self.teachers)
