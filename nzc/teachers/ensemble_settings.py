"""Settings of an ensemble of networks: what its engine, on a CPU or a GPU, knows of `Ensemble`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nzc.networks import Network
from nzc.settings import Count
from nzc.teachers.sharded import ShardedTeachers
from nzc.training.optimizer import OptimizerSettings


@dataclass(frozen=True, kw_only=True)
class EnsembleSettings(OptimizerSettings, ShardedTeachers):
    """Further settings of teachers that are networks of one kind.

    network  a name in nzc.networks, or what makes an nn.Module
    epochs   passes of each teacher over its shard
    augment  augmentation of a batch: (x, torch.Generator) → x
    stacked  train teachers as one (`stacked.py`); false: one thread each; None: stacked on a GPU. Never stacked are
             networks with dropout, optimisers that are not elementwise, and shards of different sizes
    """

    network: Network
    epochs: Count
    batch_size: Count
    augment: Callable[..., Any] | None = None
    stacked: bool | None = None

    #: Stacking changes the speed, with predictions that agree up to rounding.
    not_in_key = (*ShardedTeachers.not_in_key, "stacked")
