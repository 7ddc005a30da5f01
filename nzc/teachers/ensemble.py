"""An ensemble of networks, trained on disjoint shards of the private split."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nzc import networks
from nzc.data import DataSplits
from nzc.storage.fingerprint import source_digest
from nzc.storage.predictions import PredictionStore
from nzc.teachers.sharded import EnsembleSettings, ShardedTeachers, collect, missing
from nzc.training.trainer import TrainerSettings
from nzc.types import AnyArray


@dataclass(frozen=True, kw_only=True)
class Ensemble(EnsembleSettings):
    """`count` networks of one kind."""

    code = (
        *(f"nzc.teachers.{name}" for name in ("engine", "teacher", "stacked")),
        *("nzc.training.optimizer", "nzc.networks", *ShardedTeachers.code),
    )

    def check_training(self, splits: DataSplits, store: PredictionStore, trainer: TrainerSettings) -> None:
        if not store.has(self.stored_request(splits, trainer)):
            networks.require_fit(self.network, splits.private.x.shape[1:], splits.classes)

    def request(self, splits: DataSplits, trainer: TrainerSettings) -> dict[str, Any]:
        # The source of a network that has no name in nzc.networks is in its description.
        source = source_digest(networks.MODULES[self.network]) if isinstance(self.network, str) else ""
        facts = {"network_code": source, "precision": trainer.precision, "device": trainer.device_kind}
        return super().request(splits, trainer) | facts

    def teach(self, splits: DataSplits, trainer: TrainerSettings, work: Path) -> AnyArray:
        self._train_missing(splits, trainer, work)
        return collect(work, self.number(splits))

    def train_worker(self, splits: DataSplits | None, store: PredictionStore, trainer: TrainerSettings) -> None:
        assert splits is not None
        request = self.stored_request(splits, trainer)
        store.train_worker(request, lambda work: self._train_missing(splits, trainer, work))

    def _train_missing(self, splits: DataSplits, trainer: TrainerSettings, work: Path) -> None:
        """Write the predictions [rows] of the teachers whose file work/i.npz is missing."""
        from nzc.teachers.engine import TeacherEnsemble

        shards = self.shards(splits)
        self.settle_empty(splits, shards, work)
        engine = TeacherEnsemble(self, splits, shards, work, trainer.compile)
        options: dict[str, Any] = {"max_epochs": 1, "use_distributed_sampler": False, "num_nodes": trainer.nodes}
        trainer.fit(engine, "Teachers", total=len(missing(work, range(self.number(splits)))), **options)
