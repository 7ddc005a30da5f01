"""An ensemble of networks, trained on disjoint shards of the private split."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nzc import networks
from nzc.data import DataSplits
from nzc.storage.fingerprint import source_digest
from nzc.storage.predictions import PredictionStore
from nzc.teachers.sharded import EnsembleSettings, ShardedTeachers, missing
from nzc.training.trainer import TrainerSettings
from nzc.types import Ints


@dataclass(frozen=True, kw_only=True)
class Ensemble(EnsembleSettings):
    """`count` networks of one kind."""

    code = (
        *("nzc.teachers.engine", "nzc.teachers.teacher", "nzc.teachers.stacked"),
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

    def train_worker(self, splits: DataSplits | None, store: PredictionStore, trainer: TrainerSettings) -> None:
        assert splits is not None
        request = self.stored_request(splits, trainer)
        store.train_worker(request, lambda work: self.teach_missing(splits, trainer, work))

    def teach_shards(self, splits: DataSplits, shards: list[Ints], trainer: TrainerSettings, work: Path) -> None:
        from nzc.teachers.engine import TeacherEnsemble

        engine = TeacherEnsemble(self, splits, shards, work, trainer.compile)
        options: dict[str, Any] = {"max_epochs": 1, "use_distributed_sampler": False, "num_nodes": trainer.nodes}
        trainer.fit(engine, "Teachers", total=len(missing(work, range(len(shards)))), **options)
