"""An ensemble of networks, trained on disjoint shards of the private split."""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from nzc import networks
from nzc.clock import Clock
from nzc.data import DataSplits
from nzc.data.rows import gather
from nzc.data.splits import Records
from nzc.privacy.session import Session
from nzc.protocols import Data
from nzc.storage.fingerprint import source_digest
from nzc.teachers.sharded import EnsembleSettings, ShardedTeachers, missing
from nzc.training.trainer import TrainerSettings
from nzc.training.trial import trial
from nzc.types import Ints
from nzc.validation import Tree


@dataclass(frozen=True, kw_only=True)
class Ensemble(EnsembleSettings):
    """`count` networks of one kind."""

    code = (
        "nzc.teachers.engine",
        "nzc.teachers.teacher",
        "nzc.teachers.stacked",
        "nzc.training.optimizer",
        "nzc.networks",
        *ShardedTeachers.code,
    )

    def check_training(self, data: Data) -> None:
        splits = data.splits
        if not data.store.has(self.stored_request(splits, data.trainer)):
            networks.require_fit(self.network, splits.private.x.shape[1:], splits.classes)
            self._try_step(splits, data.trainer.device_kind)

    def _try_step(self, splits: DataSplits, device_kind: str) -> None:
        """Raise InputError where a teacher cannot learn from the smallest batch of its shard.

        The rows are made up. Where names decide who learns from a record, a shard may leave a batch
        of one row: whether one does is private, so it must not decide whether the run ends.
        """
        import torch
        from torch.nn import functional as F

        from nzc.teachers.stacked import Stacked
        from nzc.teachers.teacher import Teacher

        shard_size = max(1, len(splits.private) // self.number(splits))
        rows = 1
        pass_size = None
        if splits.units.names is None:
            rows = min(2, shard_size % self.batch_size or self.batch_size)
            pass_size = rows
        x = torch.from_numpy(np.zeros((rows, *splits.private.x.shape[1:]), splits.private.x.dtype))
        y = torch.zeros(rows, dtype=torch.int64)
        teacher = Teacher(self, 0, x, y, pass_size, splits.classes, torch.device("cpu"))
        teacher.rows = shard_size  # which decides how many steps a schedule has
        with trial("network", self.network, f"must train on a batch of {rows}"):
            if teacher.is_stacked(device_kind):
                loss = Stacked([teacher]).losses(teacher.x[None], y[None]).sum()
            else:
                loss = F.cross_entropy(teacher.network(teacher.x), y)
            loss.backward()
        with trial("augment", self.augment, "must give rows that the network takes"):
            teacher.network(teacher.draw_pass()[0])
        with trial("optimizer", self.optimizer, "must train teachers by steps without a closure"):
            teacher.set_optimizer(list(teacher.network.parameters()))
            teacher.optimizer.step()

    def stored_request(self, splits: DataSplits, trainer: TrainerSettings) -> Tree:
        request = super().stored_request(splits, trainer)
        request["precision"] = trainer.precision
        request["device"] = trainer.device_kind
        request["network_code"] = ""  # of a network of one's own, its description has the source
        if isinstance(self.network, str):
            request["network_code"] = source_digest(networks.MODULES[self.network])
        if trainer.deterministic:
            request["deterministic"] = trainer.deterministic
        return request

    def train_worker(self, data: Data, session: Session, stage: Clock) -> None:
        if self.labels_asked_only:
            data = self.placed(data, stage)
        splits = self.asked(data, session)
        data.store.train_worker(
            self.stored_request(splits, data.trainer),
            lambda work: self.teach_missing(splits, data.trainer, work),
        )

    def teach_shards(
        self, splits: DataSplits, shards: list[Ints], trainer: TrainerSettings, work: Path
    ) -> None:
        from nzc.teachers.engine import TeacherEnsemble

        if trainer.processes > 1:
            splits = replace(splits, private=sendable(splits.private))
        trainer.fit(
            TeacherEnsemble(self, splits, shards, work, trainer.compile),
            "Teachers",
            total=len(missing(work, range(len(shards)))),
            ranks=True,
            max_epochs=1,
            use_distributed_sampler=False,
        )


def sendable(private: Records) -> Records:
    """Return the records as other processes can get them: by shared memory, or from a file.

    torch sends arrays by shared memory, of which a container has 64 MiB by default.
    """
    shared = Path("/dev/shm")
    if not isinstance(private.x, np.ndarray) or not shared.is_dir():
        return private
    if private.x.nbytes <= shutil.disk_usage(shared).free // 2:
        return private
    return Records(gather([private.x], held=0), private.y)
