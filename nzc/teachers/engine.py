"""The ensemble engine: trains all teachers in one Lightning fit.

One step of the fit is one pass of `parallel` teachers over their shards. On a CPU each teacher has its own thread on
one core: small networks gain nothing from several cores per operation. On a GPU the weights are stacked and trained as
one network (`stacked.py`). Lightning's overhead per step is paid once per pass. With several devices each rank
trains its share of the teachers. Ranks share nothing but a folder, into which each writes its predictions.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from pytorch_lightning import LightningModule
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.dropout import _DropoutNd
from torch.utils.data import DataLoader

from nzc import networks
from nzc.data import DataSplits
from nzc.networks import as_input
from nzc.teachers.cohort import Cohort
from nzc.teachers.prediction_store import save
from nzc.teachers.sharded import missing
from nzc.teachers.stacked import Stacked
from nzc.training.optimizer import keeps_apart, make_optimizer, make_schedule
from nzc.types import Ints

if TYPE_CHECKING:
    from nzc.teachers.ensemble import Ensemble

#: Bytes of several small shards for one core.
_SMALL = 2**24
#: A thread labels so many rows at a time: what a layer makes of them stays in its core's cache.
_AT_ONCE = 200


class TeacherEnsemble(LightningModule):
    """Trains teacher i on shard i and writes its predicted labels [public rows] to `work`/i.npz.

    Weights, batches and augmentation of teacher i depend on (seed, i) only, whoever else is trained beside it. Teachers
    whose file exists are not trained again.
    """

    def __init__(self, settings: "Ensemble", splits: DataSplits, shards: list[Ints], work: Path) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.anchor = nn.Parameter(torch.zeros(1))  # strategies require a parameter; each teacher has its own
        self.settings, self.shards, self.classes, self.work = settings, shards, splits.classes, work
        x = splits.private.x
        self.x = torch.from_numpy(x) if isinstance(x, np.ndarray) else x  # processes of several devices share a tensor
        self.y, self.public = torch.from_numpy(splits.private.y), torch.from_numpy(splits.public.x[splits.to_label])
        # How many rows all take in a pass; None: each takes all of its own, because names decide the sizes of shards.
        self.even = min(map(len, shards)) if splits.names is None else None

    def train_dataloader(self) -> DataLoader[tuple[list[int], int]]:
        """Return (teachers, pass): a few teachers through all their passes, then the next few.

        Ranks meet before each step, so a rank with fewer steps gets idle ones.
        """
        todo = missing(self.work, range(self.global_rank, len(self.shards), self.trainer.world_size))
        probe = _Teacher(self, 0)
        stacked = self.device.type != "cpu" if self.settings.stacked is None else self.settings.stacked
        self.kind: type[Cohort] = Stacked if stacked and probe.can_be_stacked else _Threads
        size = 1 if probe.has_dropout else self.settings.parallel or self.kind.fitting(self, probe)
        cohorts = [todo[first : first + size] for first in range(0, len(todo), size)]
        passes = [(cohort, number) for cohort in cohorts for number in range(self.settings.epochs)]
        most = self.trainer.strategy.reduce(torch.tensor(len(passes), device=self.device), reduce_op="max")
        idle: list[tuple[list[int], int]] = [([], 0)] * (int(most) - len(passes))
        return DataLoader(passes + idle, batch_size=None)  # type: ignore[arg-type]

    def configure_optimizers(self) -> None:
        """Return no optimiser: each teacher has its own."""

    def training_step(self, batch: tuple[list[int], int], batch_idx: int) -> None:
        teachers, number = batch
        if not teachers:
            return
        if number == 0:
            self.cohort = self.kind(self, [_Teacher(self, teacher) for teacher in teachers])
        self.cohort.train_pass()
        if number == self.settings.epochs - 1:
            for teacher, labels in zip(teachers, self.cohort.predict(self.public), strict=True):
                save(self.work / f"{teacher}.npz", labels=labels.numpy())


class _Teacher:
    """One teacher: its network, shard and random generator."""

    def __init__(self, ensemble: TeacherEnsemble, number: int) -> None:
        self.settings, self.device = ensemble.settings, ensemble.device
        shard = ensemble.shards[number]
        x = ensemble.x[shard] if isinstance(ensemble.x, Tensor) else torch.from_numpy(ensemble.x[shard])
        self.x, self.y = as_input(x.to(self.device)), ensemble.y[shard].to(self.device)
        seed = int(np.random.SeedSequence([self.settings.seed, number]).generate_state(1, np.uint64)[0] >> 1)
        self.rng = torch.Generator().manual_seed(seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = networks.build(self.settings.network, tuple(self.x.shape[1:]), ensemble.classes)
        self.network = network.to(self.device)
        self.rows = len(shard) if ensemble.even is None else ensemble.even
        # Dropout uses the global generator. Such a teacher is trained alone, and that generator is seeded.
        self.has_dropout = any(isinstance(module, _DropoutNd) for module in network.modules())
        self.can_be_stacked = (
            keeps_apart(self.settings.optimizer) and not self.has_dropout and ensemble.even is not None
        )

    def draw_pass(self) -> tuple[Tensor, Tensor]:
        """Return the rows of one pass, in random order and augmented; as many as the smallest shard has.

        So all teachers take the same number of steps. Where names decide the shards, a pass takes all rows of the
        shard: its size then depends on its own records or groups, and must not change another teacher.
        """
        order = torch.randperm(len(self.y), generator=self.rng)[: self.rows].to(self.device)
        x, y = self.x[order], self.y[order]
        return x if self.settings.augment is None else self.settings.augment(x, self.rng), y

    def train_pass(self) -> None:
        """Train one pass of this teacher alone."""
        size = self.settings.batch_size
        x, y = self.draw_pass()
        if self.has_dropout:
            torch.manual_seed(int(torch.randint(2**62, (1,), generator=self.rng)))
        for rows, labels in zip(x.split(size), y.split(size), strict=True):
            self.optimizer.zero_grad()
            F.cross_entropy(self.network(rows), labels).backward()
            self.optimizer.step()
            self.schedule.step()

    def set_optimizer(self, parameters: list[Tensor]) -> None:
        """Create optimiser and schedule for these parameters: this teacher's, or a cohort's stacked ones."""
        settings = self.settings
        self.optimizer = make_optimizer(parameters, settings.lr, settings.weight_decay, settings.optimizer)
        steps = settings.epochs * -(-self.rows // settings.batch_size)
        self.schedule = make_schedule(self.optimizer, settings.lr, steps, settings.schedule)


def _cores(ensemble: TeacherEnsemble) -> int:
    """Return how many cores this process has for its teachers."""
    return max(1, len(os.sched_getaffinity(0)) // ensemble.trainer.world_size)


class _Threads(Cohort):
    """One thread for each core, which trains one teacher at a time.

    Of teachers with small shards there are several for each core, so that no core waits long at the end of a pass.
    """

    def __init__(self, ensemble: TeacherEnsemble, teachers: list[_Teacher]) -> None:
        super().__init__(ensemble, teachers)
        self.pool = ThreadPoolExecutor(min(len(teachers), _cores(ensemble)))
        for teacher in teachers:
            teacher.set_optimizer(list(teacher.network.parameters()))

    @staticmethod
    def fitting(ensemble: TeacherEnsemble, probe: _Teacher) -> int:
        shard = probe.x.numel() * probe.x.element_size()  # none where names decide and leave it empty
        return min(4, max(1, _SMALL // max(1, shard))) * _cores(ensemble)

    def train_pass(self) -> None:
        def train(teacher: _Teacher) -> None:
            with self.precision():
                teacher.train_pass()

        list(self.pool.map(train, self.teachers))

    def predict(self, public: Tensor) -> Iterator[Tensor]:
        @torch.no_grad()
        def labels(teacher: _Teacher) -> Tensor:
            teacher.network.eval()
            with self.precision():
                parts = [
                    teacher.network(as_input(x.to(teacher.device))).argmax(1).cpu() for x in public.split(_AT_ONCE)
                ]
            return torch.cat(parts)

        yield from self.pool.map(labels, self.teachers)
