"""An ensemble of networks, trained on disjoint shards of the private split; stored, and never trained twice."""

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from nzc import networks
from nzc._types import AnyArray, Ints
from nzc.datasets import Roles
from nzc.datasets.augment import Affine
from nzc.datasets.roles import partition
from nzc.errors import InputError, not_negative, positive, whole
from nzc.store import Store
from nzc.store.store import code_digest
from nzc.teachers.teachers import Ballots, Size, Teachers
from nzc.training import Training


@dataclass(frozen=True)
class Ensemble(Teachers):
    """`count` networks of one kind. What they predict depends on these fields and the data, and on nothing else."""

    count: int
    network: str
    epochs: int
    batch_size: int
    lr: float
    weight_decay: float
    seed: int
    stratify: bool = False
    augment: Affine | None = None
    parallel: int | None = None  # trained at once; None: one a core, or what a GPU's memory holds
    stacked: bool | None = None  # one after another in threads, or stacked under vmap; None: stacked on a GPU

    def __post_init__(self) -> None:
        whole(1, count=self.count, epochs=self.epochs, batch_size=self.batch_size)
        whole(0, seed=self.seed)
        if self.parallel is not None:
            whole(1, parallel=self.parallel)
        positive(lr=self.lr)
        not_negative(weight_decay=self.weight_decay)

    def check(self, roles: Roles | None) -> Size:
        if roles is None:
            raise InputError("dataset", "none", "must be a dataset where teachers are to be trained; or teachers=votes")
        networks.check(self.network)
        whole(1, len(roles.private), "(one private record each)", count=self.count)
        return Size(len(roles.public), roles.classes, self.count)

    def truth(self, roles: Roles | None) -> Ints | None:
        return None if roles is None else roles.public.y

    def train(self, roles: Roles | None, store: Store, training: Training) -> AnyArray:
        assert roles is not None
        here = Path(__file__).parent
        code = code_digest([here / "engine.py", *sorted(here.parent.glob("networks/*.py"))])
        request = {"data": roles.digest, "code": code, **asdict(self)}
        del request["parallel"], request["stacked"]  # they change the speed, never the result
        return store.fetch("predictions", request, lambda work: self._fit(roles, training, work))["predictions"]

    def vote(self, roles: Roles | None, trained: AnyArray) -> Ballots:
        assert roles is not None
        return Ballots.tally(trained, roles.classes, roles.public.y)

    def _fit(self, roles: Roles, training: Training, work: Path) -> dict[str, AnyArray]:
        from nzc.teachers.engine import TeacherEnsemble

        shards = partition(roles.private.y, self.count, self.seed, self.stratify)
        engine = TeacherEnsemble(self, roles.private, roles.public.x, shards, roles.classes, work)
        training.fit(engine, "Teachers", max_epochs=1, use_distributed_sampler=False)
        return {"predictions": np.stack([np.load(work / f"{teacher}.npy") for teacher in range(self.count)])}
