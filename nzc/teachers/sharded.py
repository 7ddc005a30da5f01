"""Teachers that learn from disjoint shards of the private split, and the settings of those that are
networks.
"""

import sys
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
from nzc.settings import Count, CountOrZero
from nzc.storage.fingerprint import describe, source_digest
from nzc.storage.predictions import PredictionStore, load, save
from nzc.teachers.base import Teachers, VoteHistograms, VoteShape
from nzc.training.optimizer import OptimizerSettings
from nzc.training.trainer import TrainerSettings
from nzc.types import AnyArray, Ints
from nzc.validation import InputError, whole


@dataclass(frozen=True, kw_only=True)
class ShardedTeachers(Teachers):
    """`count` teachers, one per shard. Their predictions depend on these fields and the data only."""

    count: Count | None  # None: one for so many private records, or groups, as `records` says
    seed: CountOrZero
    stratify: bool = False  # every shard has the classes in equal proportions (see `partition`)
    parallel: Count | None = None  # how many are trained at once
    label: Literal["all", "asked"] = (
        "all"  # which public rows each teacher labels: all, or the rows of this run only
    )
    records: Count = 1

    takes_budgets = True
    #: Fields that change the speed only, or are in the store's key as the rows to label and the
    #: number of teachers.
    not_in_key: ClassVar[tuple[str, ...]] = ("parallel", "label", "records")
    #: The modules whose code every prediction depends on.
    code: ClassVar[tuple[str, ...]] = (__name__, "nzc.data.hashing")

    @property
    def labels_asked_only(self) -> bool:  # type: ignore[override]
        return self.label == "asked"

    def request(self, splits: DataSplits, trainer: TrainerSettings) -> dict[str, Any]:
        """Return what can change a prediction beside data and fields, in JSON types: the source, a
        device, …
        """
        return {"code": source_digest(*self.code, follow=False)}

    def stored_request(self, splits: DataSplits, trainer: TrainerSettings) -> dict[str, Any]:
        """Return what identifies the stored predictions: all that can change one."""
        names = [field.name for field in fields(self) if field.name not in self.not_in_key]
        settings = {name: describe(getattr(self, name)) for name in names}
        settings |= {"data": splits.digest, "classes": splits.classes, "count": self.number(splits)}
        rows = {} if splits.asked is None else {"asked": splits.asked.tolist()}
        own = type(self).__module__
        source = (
            {}
            if own.startswith("nzc.")
            else {"class": type(self).__qualname__, "source": source_digest(own)}
        )
        return {**settings, **self.request(splits, trainer), **rows, **source}

    def neighbours(self, splits: DataSplits | None) -> str:
        words = super().neighbours(splits)
        return f"{words} in its features and keeps its label" if self.stratify else words

    def check(self, splits: DataSplits | None) -> VoteShape:
        assert splits is not None
        if self.stratify and (splits.labels_only or splits.names is not None):
            why = (
                "labels are private"
                if splits.labels_only
                else "the name of a record or group decides its teacher"
            )
            raise InputError("stratify", True, f"must be false where {why}")
        whole(
            "count", self.number(splits), 1, splits.units, f"(one private {self.unit(splits)} each)"
        )
        return VoteShape(len(splits.public), splits.classes, self.number(splits))

    def number(self, splits: DataSplits) -> int:
        """Return how many teachers there are."""
        return max(1, splits.units // self.records) if self.count is None else self.count

    def shards(self, splits: DataSplits) -> list[Ints]:
        """Return the rows of the private split that each teacher learns from."""
        return partition(
            splits.private.y,
            self.number(splits),
            self.seed,
            self.stratify,
            splits.names,
            splits.weights,
        )

    def train(
        self, splits: DataSplits | None, store: PredictionStore, trainer: TrainerSettings
    ) -> AnyArray:
        assert splits is not None
        empty = np.exp(-splits.units / self.number(splits))  # as expected: from public numbers only
        if splits.names is not None and empty > 0.1:
            which = f"about {100 * empty:.0f} % of {self.number(splits):,} teachers have no {self.unit(splits)}"
            print(f"nzc: {which}: they vote for the class of their own number", file=sys.stderr)
        return store.fetch(
            self.stored_request(splits, trainer), lambda work: self.teach(splits, trainer, work)
        )

    def teach(self, splits: DataSplits, trainer: TrainerSettings, work: Path) -> AnyArray:
        """Train the teachers, and return their predictions [teachers, rows to label]; `work` keeps
        unfinished work.
        """
        self.teach_missing(splits, trainer, work)
        return collect(work, self.number(splits))

    def teach_missing(self, splits: DataSplits, trainer: TrainerSettings, work: Path) -> None:
        """Train the teachers without predictions in `work`; those without a record need no
        training.
        """
        shards = self.shards(splits)
        for teacher, own in enumerate(without_records(len(shards), splits.classes)):
            if not len(shards[teacher]):
                save(work / f"{teacher}.npz", labels=np.full(len(splits.to_label), own))
        self.teach_shards(splits, shards, trainer, work)

    @abstractmethod
    def teach_shards(
        self, splits: DataSplits, shards: list[Ints], trainer: TrainerSettings, work: Path
    ) -> None:
        """Write the predictions [rows to label] of every `missing` teacher i to `work`/i.npz."""

    def vote(self, splits: DataSplits | None, trained: AnyArray) -> VoteHistograms:
        assert splits is not None
        votes = np.zeros((len(splits.public), splits.classes), np.int64)
        votes[splits.to_label] = count_votes(trained, splits.classes)
        return super().vote(splits, votes)


@dataclass(frozen=True, kw_only=True)
class EnsembleSettings(OptimizerSettings, ShardedTeachers):
    """Further settings of teachers that are networks of one kind."""

    network: Network  # a name in nzc.networks, or what makes an nn.Module
    epochs: Count  # passes of each teacher over its shard
    batch_size: Count
    augment: Callable[..., Any] | None = None  # augmentation of a batch: (x, torch.Generator) → x
    #: Train teachers as one (`stacked.py`); false: one thread each; None: stacked on a GPU, and
    #: small ones of nzc's. Never stacked are networks with dropout, optimisers that are not
    #: elementwise, and shards of different sizes.
    stacked: bool | None = None
    not_in_key = (
        *ShardedTeachers.not_in_key,
        "stacked",
    )  # which changes the speed; predictions agree up to rounding


def missing(work: Path, teachers: Iterable[int]) -> list[int]:
    """Return which of these teachers have no undamaged file of predictions in `work`."""
    return [teacher for teacher in teachers if load(work / f"{teacher}.npz") is None]


def collect(work: Path, count: int) -> AnyArray:
    """Return the predictions [teachers, rows] that `count` teachers have left in `work`, one file
    each.
    """
    parts = [load(work / f"{teacher}.npz") for teacher in range(count)]
    if None in parts:
        raise RuntimeError(f"teacher {parts.index(None)} has left no predictions in {work}")
    return np.stack([part["labels"] for part in parts if part is not None])


def without_records(count: int, classes: int) -> Ints:
    """Return what each of `count` teachers votes for where it has no record: its number modulo the
    classes.
    """
    return np.arange(count) % classes


def partition(
    labels: Ints,
    count: int,
    seed: int,
    stratify: bool,
    names: Ints | None = None,
    weights: Ints | None = None,
) -> list[Ints]:
    """Return `count` disjoint shards of row numbers that cover all rows, in sizes that differ by at
    most one row.

    Plain: by row number only, so a changed record changes one shard. Stratified: class by class, so
    neighbouring datasets are those in which a record keeps its label. With names [rows], keys of
    records or groups: a hash of seed and key decides the teacher, and whatever becomes of one name,
    all others reach the same teachers in the same order; such shards differ in size, and may be
    empty. With weights [rows] so many teachers learn from a row; those of a smaller weight are the
    first of a larger one, and shards overlap.
    """
    if names is not None:
        parts = [np.arange(len(names))]
        parts += (
            []
            if weights is None
            else [np.flatnonzero(weights > copy) for copy in range(1, int(weights.max()))]
        )
        draws = [
            draw_by_key(names[part], seed, 1, *[copy] * (copy > 0))
            for copy, part in enumerate(parts)
        ]
        rows, teacher = (
            np.concatenate(parts),
            (np.concatenate(draws) % np.uint64(count)).astype(np.int64),
        )
        order = np.lexsort((names[rows], teacher))
        return np.split(rows[order], np.bincount(teacher, minlength=count).cumsum()[:-1])
    order = np.random.default_rng([seed, 1]).permutation(len(labels))
    if stratify:
        order = order[np.argsort(labels[order], kind="stable")]
    return [np.sort(order[teacher::count]) for teacher in range(count)]
