"""The ensemble engine: every teacher in one Lightning fit.

A step of the fit is one pass of `parallel` teachers over their shards. On a processor each has a thread of its own
that keeps to one core: small networks gain nothing from several cores an operation, and lose much where other programs
want them too. On a GPU their weights are stacked and trained as one (`torch.func.vmap`). What Lightning costs per step
is spread over whole passes. Under several devices each rank trains its share; teachers share nothing but a folder,
into which each writes its predictions when it is done.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from pytorch_lightning import LightningModule
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn import functional as F
from torch.nn.modules.dropout import _DropoutNd
from torch.utils.data import DataLoader

from nzc import networks
from nzc._types import AnyArray, Ints
from nzc.datasets import Split
from nzc.networks import as_input
from nzc.store.store import save

if TYPE_CHECKING:
    from nzc.teachers.ensemble import Ensemble


class TeacherEnsemble(LightningModule):
    """Trains teacher i on shard i and writes its labels of the public rows to `folder`/i.npy, [queries].

    Teacher i's weights, batches and augmentation follow from (seed, i) alone, whoever else is trained beside it. What
    the folder holds already is not trained again.
    """

    def __init__(
        self, settings: "Ensemble", private: Split, public: AnyArray, shards: list[Ints], classes: int, folder: Path
    ) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.anchor = nn.Parameter(torch.zeros(1))  # strategies want a parameter; the teachers' are their own
        self.settings, self.shards, self.classes, self.folder = settings, shards, classes, folder
        self.x, self.y, self.public = torch.from_numpy(private.x), torch.from_numpy(private.y), torch.from_numpy(public)

    def train_dataloader(self) -> DataLoader[tuple[list[int], int]]:
        """(teachers, pass): a few teachers through all their passes, then the next few."""
        mine = range(self.global_rank, len(self.shards), self.trainer.world_size)
        missing = [teacher for teacher in mine if not (self.folder / f"{teacher}.npy").is_file()]
        probe = _Teacher(self, 0)
        stacked = self.device.type != "cpu" if self.settings.stacked is None else self.settings.stacked
        self.kind: type[_Cohort] = _Stacked if stacked and not probe.draws else _Threads
        size = 1 if probe.draws else self.settings.parallel or self.kind.fitting(self, probe)
        cohorts = [missing[first : first + size] for first in range(0, len(missing), size)]
        passes = [(cohort, number) for cohort in cohorts for number in range(self.settings.epochs)]
        return DataLoader(passes, batch_size=None)  # type: ignore[arg-type]

    def configure_optimizers(self) -> None:
        """Each teacher has its own."""

    def training_step(self, batch: tuple[list[int], int], batch_idx: int) -> None:
        teachers, number = batch
        if number == 0:
            self.cohort = self.kind([_Teacher(self, teacher) for teacher in teachers])
        self.cohort.train_once()
        if number == self.settings.epochs - 1:
            for teacher, labels in zip(teachers, self.cohort.predict(self.public), strict=True):
                save(self.folder / f"{teacher}.npy", labels.numpy().astype(np.int16))


class _Teacher:
    """One teacher before and in training: network, shard, settings, and its own stream of randomness."""

    def __init__(self, ensemble: TeacherEnsemble, number: int) -> None:
        self.settings, self.device = ensemble.settings, ensemble.device
        shard = torch.from_numpy(ensemble.shards[number])
        self.x, self.y = as_input(ensemble.x[shard]).to(self.device), ensemble.y[shard].to(self.device)
        seed = int(np.random.SeedSequence([self.settings.seed, number]).generate_state(1, np.uint64)[0] >> 1)
        self.rng = torch.Generator().manual_seed(seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = networks.build(self.settings.network, tuple(self.x.shape[1:]), ensemble.classes)
        self.network = network.to(self.device)
        self.rows = min(len(rows) for rows in ensemble.shards)
        # Dropout draws from the one stream of the process: such a teacher is trained alone, and that stream seeded.
        self.draws = any(isinstance(module, _DropoutNd) for module in network.modules())

    def drawn(self) -> tuple[Tensor, Tensor]:
        """The rows of one pass, in a fresh order and freshly augmented: as many as the smallest shard has, so that all
        teachers take the same steps."""
        order = torch.randperm(len(self.y), generator=self.rng)[: self.rows].to(self.device)
        x, y = self.x[order], self.y[order]
        return x if self.settings.augment is None else self.settings.augment(x, self.rng), y

    def train_once(self) -> None:
        """One pass of this teacher alone."""
        size = self.settings.batch_size
        x, y = self.drawn()
        if self.draws:
            torch.manual_seed(int(torch.randint(2**62, (1,), generator=self.rng)))
        for rows, labels in zip(x.split(size), y.split(size), strict=True):
            self.optimizer.zero_grad()
            F.cross_entropy(self.network(rows), labels).backward()
            self.optimizer.step()
            self.schedule.step()

    def optimise(self, parameters: list[Tensor]) -> None:
        """An optimiser for these parameters: this teacher's, or those of a cohort as one."""
        settings = self.settings
        fused = {"weight_decay": settings.weight_decay, "fused": True}
        self.optimizer = torch.optim.AdamW(parameters, settings.lr, **fused)  # type: ignore[arg-type]
        steps = settings.epochs * -(-self.rows // settings.batch_size)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, settings.lr, total_steps=steps + 1)


class _Cohort(ABC):
    """A few teachers, trained side by side."""

    def __init__(self, teachers: list[_Teacher]) -> None:
        self.teachers = teachers

    @staticmethod
    @abstractmethod
    def fitting(ensemble: TeacherEnsemble, probe: _Teacher) -> int:
        """How many are best trained at once on this machine."""

    @abstractmethod
    def train_once(self) -> None:
        """One pass of every teacher over its shard."""

    @abstractmethod
    def predict(self, public: Tensor) -> Iterator[Tensor]:
        """Each teacher's labels of the public rows, [queries], on the CPU."""


class _Threads(_Cohort):
    """One thread and one core a teacher."""

    def __init__(self, teachers: list[_Teacher]) -> None:
        super().__init__(teachers)
        self.pool = ThreadPoolExecutor(len(teachers))
        for teacher in teachers:
            teacher.optimise(list(teacher.network.parameters()))

    @staticmethod
    def fitting(ensemble: TeacherEnsemble, probe: _Teacher) -> int:
        return max(1, len(os.sched_getaffinity(0)) // ensemble.trainer.world_size)

    def train_once(self) -> None:
        list(self.pool.map(_Teacher.train_once, self.teachers))

    def predict(self, public: Tensor) -> Iterator[Tensor]:
        @torch.no_grad()
        def labels(teacher: _Teacher) -> Tensor:
            teacher.network.eval()
            parts = [teacher.network(as_input(x.to(teacher.device))).argmax(dim=1).cpu() for x in public.split(1000)]
            return torch.cat(parts)

        yield from self.pool.map(labels, self.teachers)


class _Stacked(_Cohort):
    """Weights stacked, [teachers, ...], and trained as one under vmap."""

    def __init__(self, teachers: list[_Teacher]) -> None:
        super().__init__(teachers)
        self.first = teachers[0]
        self.network = self.first.network
        self.parameters, self.buffers = stack_module_state([teacher.network for teacher in teachers])
        self.first.optimise(list(self.parameters.values()))

    @staticmethod
    def fitting(ensemble: TeacherEnsemble, probe: _Teacher) -> int:
        if ensemble.device.type != "cuda":
            return 32
        free = torch.cuda.mem_get_info(ensemble.device)[0]
        return int(max(1, min(len(ensemble.shards), free // 2 // _footprint(probe))))

    def train_once(self) -> None:
        size = self.first.settings.batch_size
        drawn = [teacher.drawn() for teacher in self.teachers]
        x, y = (torch.stack(part) for part in zip(*drawn, strict=True))
        for rows, labels in zip(x.split(size, dim=1), y.split(size, dim=1), strict=True):
            self.first.optimizer.zero_grad()
            vmap(self._loss)(self.parameters, self.buffers, rows, labels).sum().backward()
            self.first.optimizer.step()
            self.first.schedule.step()

    def predict(self, public: Tensor) -> Iterator[Tensor]:
        self.network.eval()
        parts = []
        with torch.no_grad():
            for x in public.split(max(16, 32_000 // len(self.teachers))):
                rows = as_input(x.to(self.first.device))
                logits = vmap(self._logits, in_dims=(0, 0, None))(self.parameters, self.buffers, rows)
                parts.append(logits.argmax(dim=2).cpu())
        yield from torch.cat(parts, dim=1)

    def _logits(self, parameters: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor) -> Tensor:
        logits: Tensor = functional_call(self.network, (parameters, buffers), (x,))
        return logits

    def _loss(self, parameters: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(self._logits(parameters, buffers, x), y)


def _footprint(teacher: _Teacher) -> int:
    """About how many bytes a stacked teacher takes: weights, gradients and moments; activations; its shard."""
    sizes: list[int] = []

    def measure(module: nn.Module, inputs: object, output: Tensor) -> None:
        sizes.append(output.numel() * output.element_size())

    hooks = [module.register_forward_hook(measure) for module in teacher.network.modules()]
    with torch.no_grad():
        teacher.network(teacher.x[: teacher.settings.batch_size])
    for hook in hooks:
        hook.remove()
    weights = sum(parameter.numel() * parameter.element_size() for parameter in teacher.network.parameters())
    return 6 * weights + 4 * sum(sizes) + 3 * teacher.x.numel() * teacher.x.element_size()
