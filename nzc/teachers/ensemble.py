"""An ensemble of networks, trained on disjoint shards of the private split."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nzc import networks
from nzc.data import DataSplits
from nzc.storage.fingerprint import source_digest
from nzc.storage.predictions import PredictionStore
from nzc.teachers.base import VoteShape
from nzc.teachers.sharded import ShardedTeachers, collect, missing
from nzc.training.trainer import TrainerSettings
from nzc.types import AnyArray
from nzc.validation import fits_memory, not_negative, positive, whole

#: The modules whose code every prediction depends on.
_CODE = (
    *(f"nzc.teachers.{name}" for name in ("engine", "teacher", "threads", "stacked", "sharded")),
    *("nzc.data.hashing", "nzc.training.optimizer", "nzc.networks"),
)


@dataclass(frozen=True, kw_only=True)
class Ensemble(ShardedTeachers):
    """`count` networks of one kind.

    network              a name in nzc/networks, or what makes an nn.Module
    epochs               passes of each teacher over its shard
    lr, weight_decay     of AdamW with a one-cycle schedule
    optimizer, schedule  partials that replace both; without a schedule, an own optimiser keeps its learning rate
    augment              augmentation of a batch: (x, torch.Generator) → x
    stacked              train teachers as one, with stacked weights; false: one thread each; None: stacked on a GPU.
                         Networks with dropout, optimisers that are not elementwise, and teachers whose shards follow
                         from names, and so differ in size, are never stacked
    unfold               compute convolutions with stacked weights as one batched matrix product of unfolded patches;
                         false: as a grouped convolution
    """

    network: networks.Network
    epochs: int
    batch_size: int
    lr: float
    weight_decay: float
    augment: Callable[..., Any] | None = None
    optimizer: Callable[..., Any] | None = None
    schedule: Callable[..., Any] | None = None
    stacked: bool | None = None
    unfold: bool = False

    #: The further fields change the speed, with predictions that agree up to rounding.
    not_in_key = (*ShardedTeachers.not_in_key, "stacked", "unfold")

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(1, epochs=self.epochs, batch_size=self.batch_size)
        fits_memory(100 * self.epochs, epochs=self.epochs)  # the list of passes
        positive(lr=self.lr)
        not_negative(weight_decay=self.weight_decay)
        if self.optimizer is not None or self.schedule is not None:
            from nzc.training.optimizer import check_optimizer

            check_optimizer(self.lr, self.weight_decay, self.optimizer, self.schedule)

    def check(self, splits: DataSplits | None) -> VoteShape:
        networks.check(self.network)
        return super().check(splits)

    def check_training(self, splits: DataSplits, store: PredictionStore, trainer: TrainerSettings) -> None:
        if not store.has(self.stored_request(splits, trainer)):
            networks.require_fit(self.network, splits.private.x.shape[1:], splits.classes)

    def request(self, splits: DataSplits, trainer: TrainerSettings) -> dict[str, Any]:
        # The source of a network that has no name in nzc/networks is in its description.
        source = source_digest(f"nzc.networks.{self.network}") if isinstance(self.network, str) else ""
        return {
            "code": source_digest(*_CODE, follow=False) + source,
            "precision": trainer.precision,
            "device": trainer.device_kind,
        }

    def teach(self, splits: DataSplits, trainer: TrainerSettings, work: Path) -> AnyArray:
        self._train_missing(splits, trainer, work)
        return collect(work, self.number(splits))

    def _train_missing(self, splits: DataSplits, trainer: TrainerSettings, work: Path) -> None:
        """Train the teachers whose file work/i.npz is missing, and write their predictions [rows] there."""
        from nzc.teachers.engine import TeacherEnsemble

        shards = self.shards(splits)
        self.settle_empty(splits, shards, work)
        engine = TeacherEnsemble(self, splits, shards, work)
        options: dict[str, Any] = {"max_epochs": 1, "use_distributed_sampler": False, "num_nodes": trainer.nodes}
        trainer.fit(engine, "Teachers", teachers=len(missing(work, range(self.number(splits)))), **options)

    def train_worker(self, splits: DataSplits | None, store: PredictionStore, trainer: TrainerSettings) -> None:
        assert splits is not None
        request = self.stored_request(splits, trainer)
        store.train_worker(request, lambda work: self._train_missing(splits, trainer, work))
