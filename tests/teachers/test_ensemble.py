"""An ensemble of networks: what it refuses, and how records reach it."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from conftest import parametrize
from few_labels import FIVE, QUIET
from numpy.testing import assert_array_equal
from pytest import MonkeyPatch, raises
from torch import nn

from nzc.data import DataSplits, Units
from nzc.data.rows import FileRows
from nzc.protocols import Data
from nzc.protocols.query_selection import QuerySelection
from nzc.storage.predictions import PredictionStore
from nzc.teachers.ensemble import sendable
from nzc.validation import InputError


@parametrize(("missing", "kind"), [(0, np.ndarray), (1, FileRows)])
def test_records_beyond_shared_memory_are_sent_by_a_file(
    splits: DataSplits, missing: int, kind: type, monkeypatch: MonkeyPatch
) -> None:
    usage = SimpleNamespace(free=2 * splits.private.x.nbytes - missing)
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    private = sendable(splits.private)
    assert isinstance(private.x, kind)
    assert private.x.dtype == splits.private.x.dtype
    assert_array_equal(private.x[:], splits.private.x)
    assert_array_equal(private.y, splits.private.y)


def batches() -> nn.Module:
    """Return a network with batch normalisation, which needs two rows."""
    return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, 10))


class Asks(nn.Linear):
    """Asks a tensor for its value, which stacked teachers cannot."""

    def __init__(self) -> None:
        super().__init__(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not x.is_meta and x.mean() < 0:
            return super().forward(-x.flatten(1))
        return super().forward(x.flatten(1))


def _data(splits: DataSplits, store: Path) -> Data:
    """Return the data of a run, with a store that has no predictions."""
    rows = QuerySelection("first")
    return Data(splits, FIVE.check(splits), rows, None, QUIET, PredictionStore(store))


def _cropped(x: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    return x[:, :, 1:]


@parametrize(
    ("line", "own"),
    [
        ("network=batches: .*batch of 1 ", {"batch_size": 23}),
        ("network=batches: .*batch of 1 ", {"batch_size": 1, "stacked": True}),
        ("network=Asks: .*vmap", {"network": Asks, "stacked": True}),
        ("optimizer=LBFGS: ", {"network": "mlp", "optimizer": torch.optim.LBFGS}),
        ("augment=_cropped: ", {"network": "mlp", "augment": _cropped}),
    ],
)
def test_what_cannot_train_on_a_shard_is_refused(
    line: str, own: dict[str, Any], splits: DataSplits, tmp_path: Path
) -> None:
    """Five shards of 24 records."""
    settings = replace(FIVE, **{"network": batches, "epochs": 1} | own)
    with raises(InputError, match=f"^{line}"):
        settings.check_training(_data(splits, tmp_path))
    with raises((ValueError, TypeError, RuntimeError)):  # it would have failed
        settings.teach_all(splits, QUIET, tmp_path)


def test_names_do_not_decide_what_is_refused(splits: DataSplits, tmp_path: Path) -> None:
    """They are private, and say how many records a teacher has: any shard may leave one row."""
    for salt in range(5):
        named = replace(splits, units=Units(keys=np.arange(120) + 1000 * salt))
        with raises(InputError, match=r"^network=batches: .*batch of 1 "):
            replace(FIVE, network=batches).check_training(_data(named, tmp_path))
        FIVE.check_training(_data(named, tmp_path))
