"""An ensemble of networks, trained on disjoint shards of the private split; stored, and never trained twice."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nzc import networks
from nzc._types import AnyArray
from nzc.datasets import Roles
from nzc.datasets.augment import Affine
from nzc.errors import not_negative, positive, whole, within
from nzc.store import Store
from nzc.store.store import code_digest, sift
from nzc.teachers.sharded import Sharded
from nzc.training import Training


@dataclass(frozen=True, kw_only=True)
class Ensemble(Sharded):
    """`count` networks of one kind. What they predict depends on these fields and the data, and on nothing else."""

    network: str
    epochs: int
    batch_size: int
    lr: float
    weight_decay: float
    augment: Affine | None = None
    stacked: bool | None = None  # one after another in threads, or stacked under vmap; None: stacked on a GPU

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(1, epochs=self.epochs, batch_size=self.batch_size)
        positive(lr=self.lr)
        not_negative(weight_decay=self.weight_decay)

    def check_learner(self) -> None:
        networks.check(self.network)

    def train(self, roles: Roles | None, store: Store, training: Training) -> AnyArray:
        assert roles is not None
        made = store.fetch("predictions", self._request(roles), lambda work: self._fit(roles, training, work))
        return made["predictions"]

    def help(self, roles: Roles | None, store: Store, training: Training) -> None:
        assert roles is not None
        store.help("predictions", self._request(roles), lambda work: self._share(roles, training, work))

    def _request(self, roles: Roles) -> dict[str, Any]:
        made_by = [
            "teachers/engine",
            "teachers/sharded",
            "datasets/augment",
            "networks/_conv",
            f"networks/{self.network}",
        ]
        code = code_digest(Path(__file__).parents[1] / f"{name}.py" for name in made_by)
        request = {"data": roles.digest, "code": code, **asdict(self)}
        del request["parallel"], request["stacked"]  # they change the speed, never the result
        return request

    def _fit(self, roles: Roles, training: Training, work: Path) -> dict[str, AnyArray]:
        self._share(roles, training, work)
        return {"predictions": np.stack([np.load(work / f"{teacher}.npy") for teacher in range(self.count)])}

    def _share(self, roles: Roles, training: Training, work: Path) -> None:
        """This node's share of the teachers; of one node, all."""
        from nzc.teachers.ranks import RankedEnsemble

        with within("teachers"):
            networks.suits(self.network, roles.private.x.shape[1:], roles.classes)
        sift(work)
        shards = self.shards(roles)
        engine = RankedEnsemble(self, roles.private, roles.public.x, shards, roles.classes, work)
        training.fit(engine, "Teachers", max_epochs=1, use_distributed_sampler=False, num_nodes=training.nodes)
