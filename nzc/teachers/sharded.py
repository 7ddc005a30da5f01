"""Teachers on disjoint shards of the private split: partition, stored predictions and votes."""

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from nzc.data import DataSplits
from nzc.data.hashing import draw_by_key
from nzc.mechanisms import count_votes
from nzc.networks import Network
from nzc.protocols.task import Task
from nzc.protocols.votes import Teachers
from nzc.ranges import Count, CountOrZero
from nzc.storage.fingerprint import describe, source_digest
from nzc.storage.predictions import PredictionStore, load, save
from nzc.streams import Stream
from nzc.training.optimizer import OptimizerSettings
from nzc.training.trainer import TrainerSettings
from nzc.types import AnyArray, Ints
from nzc.validation import Tree, whole


@dataclass(frozen=True, kw_only=True)
class ShardedTeachers(Teachers):
    """`count` teachers, one per shard. These fields and the data alone decide their predictions.

    count     None: one for so many private records, or groups, as `records` says
    parallel  how many are trained at once
    label     which public rows each teacher labels: all, or the rows of this run only
    """

    count: Count | None
    seed: CountOrZero
    parallel: Count | None = None
    label: Literal["all", "asked"] = "all"
    records: Count = 1

    #: Fields that change the speed only, or are in the store's key as the rows to label and the
    #: number of teachers.
    not_in_key: ClassVar[tuple[str, ...]] = ("parallel", "label", "records")
    #: The modules whose code every prediction depends on.
    code: ClassVar[tuple[str, ...]] = (__name__, "nzc.data.hashing", "nzc.streams")

    @property
    def labels_asked_only(self) -> bool:  # type: ignore[override]
        return self.label == "asked"

    def stored_request(self, splits: DataSplits, trainer: TrainerSettings) -> Tree:
        """Return what identifies the stored predictions, in JSON types: all that can change one."""
        request = {
            field.name: describe(getattr(self, field.name))
            for field in fields(self)
            if field.name not in self.not_in_key
        }
        request["data"] = splits.digest
        request["classes"] = splits.classes
        request["count"] = self.number(splits)
        request["code"] = source_digest(*self.code, follow=False)
        if splits.asked is not None:
            request["asked"] = splits.asked.tolist()
        module = type(self).__module__
        if not module.startswith("nzc."):
            request["class"] = type(self).__qualname__
            request["source"] = source_digest(module)
        return request

    def check(self, splits: DataSplits) -> Task:
        count = self.number(splits)
        whole("count", count, 1, splits.unit_count, f"(one private {splits.unit} each)")
        return Task.of(splits, count)

    def number(self, splits: DataSplits) -> int:
        """Return how many teachers there are."""
        if self.count is not None:
            return self.count
        return max(1, splits.unit_count // self.records)

    def shards(self, splits: DataSplits) -> list[Ints]:
        """Return the rows of the private split that each teacher learns from."""
        count = self.number(splits)
        return partition(len(splits.private), count, self.seed, splits.units.names)

    def train(
        self, splits: DataSplits, store: PredictionStore, trainer: TrainerSettings
    ) -> AnyArray:
        request = self.stored_request(splits, trainer)
        return store.fetch(request, lambda work: self.teach_all(splits, trainer, work))

    def teach_all(self, splits: DataSplits, trainer: TrainerSettings, work: Path) -> AnyArray:
        """Train the teachers, and return their predictions [teachers, rows to label].

        `work` keeps unfinished work.
        """
        self.teach_missing(splits, trainer, work)
        return collect(work, self.number(splits))

    def teach_missing(self, splits: DataSplits, trainer: TrainerSettings, work: Path) -> None:
        """Train the teachers without predictions in `work`; those without a record need none."""
        shards = self.shards(splits)
        fixed = without_records(len(shards), splits.classes)
        for teacher, shard in enumerate(shards):
            if len(shard) == 0:
                labels = np.full(len(splits.to_label), fixed[teacher])
                save(work / f"{teacher}.npz", labels=labels)
        self.teach_shards(splits, shards, trainer, work)

    @abstractmethod
    def teach_shards(
        self, splits: DataSplits, shards: list[Ints], trainer: TrainerSettings, work: Path
    ) -> None:
        """Write the predictions [rows to label] of every `missing` teacher i to `work`/i.npz."""

    def vote(self, splits: DataSplits, trained: AnyArray) -> Ints:
        votes = np.zeros((len(splits.public), splits.classes), np.int64)
        votes[splits.to_label] = count_votes(trained, splits.classes)
        return votes


@dataclass(frozen=True, kw_only=True)
class EnsembleSettings(OptimizerSettings, ShardedTeachers):
    """Further settings of teachers that are networks of one kind.

    network  a name in nzc.networks, or what makes an nn.Module
    epochs   passes of each teacher over its shard
    augment  augmentation of a batch: (x, torch.Generator) → x
    stacked  train teachers as one (`stacked.py`); false: one thread each; None: stacked on a GPU,
             and small ones of nzc's. Never stacked are networks with dropout, optimisers that are
             not elementwise, and shards of different sizes
    """

    network: Network
    epochs: Count
    batch_size: Count
    augment: Callable[..., Any] | None = None
    stacked: bool | None = None

    #: Stacked or not, predictions agree up to rounding.
    not_in_key = (*ShardedTeachers.not_in_key, "stacked")


def missing(work: Path, teachers: Iterable[int]) -> list[int]:
    """Return which of these teachers have no undamaged file of predictions in `work`."""
    return [teacher for teacher in teachers if load(work / f"{teacher}.npz") is None]


def collect(work: Path, count: int) -> AnyArray:
    """Return the predictions [teachers, rows] that `count` teachers have left in `work`."""
    predictions = []
    for teacher in range(count):
        stored = load(work / f"{teacher}.npz")
        if stored is None:
            raise RuntimeError(f"teacher {teacher} has left no predictions in {work}")
        predictions.append(stored["labels"])
    return np.stack(predictions)


def without_records(count: int, classes: int) -> Ints:
    """Return the votes of `count` teachers that have no record: their number modulo the classes."""
    return np.arange(count) % classes


def partition(rows: int, count: int, seed: int, names: Ints | None = None) -> list[Ints]:
    """Return `count` disjoint shards of all row numbers, whose sizes differ by at most one row.

    They are drawn by row number only, so a changed record changes one shard. With names [rows],
    keys of records or groups: a hash of seed and key decides the teacher, and whatever becomes of
    one name, all others reach the same teachers in the same order; such shards differ in size, and
    may be empty.
    """
    if names is None:
        order = np.random.default_rng([seed, Stream.SHARDS]).permutation(rows)
        return [np.sort(order[teacher::count]) for teacher in range(count)]
    teacher = (draw_by_key(names, seed, Stream.SHARDS) % np.uint64(count)).astype(np.int64)
    order = np.lexsort((names, teacher))
    return np.split(order, np.bincount(teacher, minlength=count).cumsum()[:-1])
