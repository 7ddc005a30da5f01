"""What all teachers that are trained here share: disjoint shards of the private split, one each."""

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from nzc._types import AnyArray, Ints
from nzc.datasets import Roles
from nzc.errors import InputError, whole
from nzc.teachers.teachers import Ballots, Size, Teachers


@dataclass(frozen=True, kw_only=True)
class Sharded(Teachers):
    """`count` teachers, each on its own shard. Their predictions follow from the fields and the data alone."""

    count: int
    seed: int
    stratify: bool = False
    parallel: int | None = None  # trained at once: changes the speed, never the result

    def __post_init__(self) -> None:
        whole(1, count=self.count)
        whole(0, seed=self.seed)
        if self.parallel is not None:
            whole(1, parallel=self.parallel)

    @abstractmethod
    def check_learner(self) -> None:
        """InputError where what is to be trained cannot be."""

    def check(self, roles: Roles | None) -> Size:
        if roles is None:
            raise InputError("dataset", "none", "must be a dataset where teachers are to be trained; or teachers=votes")
        self.check_learner()
        whole(1, len(roles.private), "(one private record each)", count=self.count)
        return Size(len(roles.public), roles.classes, self.count)

    def shards(self, roles: Roles) -> list[Ints]:
        """The rows of the private split that each teacher gets."""
        return partition(roles.private.y, self.count, self.seed, self.stratify)

    def truth(self, roles: Roles | None) -> Ints | None:
        return None if roles is None else roles.public.y

    def learnt_from(self, roles: Roles | None) -> str:
        assert roles is not None
        return roles.private_digest

    def vote(self, roles: Roles | None, trained: AnyArray) -> Ballots:
        assert roles is not None
        return Ballots.tally(trained, roles.classes, roles.public.y)


def partition(labels: Ints, count: int, seed: int, stratify: bool) -> list[Ints]:
    """`count` disjoint shards that cover every row, sizes equal up to one.

    Plain: by row number alone, so that a change of one record changes one shard, whatever the record was.
    Stratified: dealt class by class. A record whose label changes would then move others between shards, so the
    neighbours of the privacy analysis are those in which a record's features change and its label stays.
    """
    order = np.random.default_rng([seed, 1]).permutation(len(labels))
    if stratify:
        order = order[np.argsort(labels[order], kind="stable")]
    return [np.sort(order[teacher::count]) for teacher in range(count)]
