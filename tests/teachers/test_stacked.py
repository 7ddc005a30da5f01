"""Stacked teachers learn as they would alone, and share nothing."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import parametrize
from few_labels import FIVE
from pytest import MonkeyPatch
from torch import nn
from torch.testing import assert_close

from nzc import networks
from nzc.data import DataSplits
from nzc.networks.classifiers import DROPOUT
from nzc.teachers.engine import TeacherEnsemble
from nzc.teachers.ensemble import Ensemble
from nzc.teachers.sharded import partition
from nzc.teachers.stacked import Stacked, Unfolded
from nzc.teachers.teacher import Threads


@pytest.fixture(scope="module")
def large(splits: DataSplits) -> DataSplits:
    """Private digits of 16 × 16 pixels, as most networks need them."""
    x = splits.private.x.repeat(2, axis=2).repeat(2, axis=3)
    return replace(splits, private=replace(splits.private, x=x))


def _has_dropout(network: str) -> bool:
    modules = networks.build(network, (1, 16, 16), 10).modules()
    return any(isinstance(module, DROPOUT) for module in modules)


#: Networks without dropout, whose random numbers would come from one stream.
STACKABLE = [name for name in sorted(networks.MODULES) if not _has_dropout(name)]


def _cohorts(
    settings: Ensemble, splits: DataSplits, work: Path, monkeypatch: MonkeyPatch
) -> tuple[Threads, Stacked]:
    """Return three teachers alone and stacked.

    They compute in double precision, because Adam divides by gradients that may be tiny.
    """
    for module in ("teacher", "stacked"):
        monkeypatch.setattr(f"nzc.teachers.{module}.as_input", lambda x: x.double() / 255)
    build = networks.build
    monkeypatch.setattr("nzc.networks.build", lambda *shape: build(*shape).double())
    shards = partition(62, 3, 0)
    ensemble = TeacherEnsemble(settings, splits, shards, work)
    alone = [*map(ensemble.teacher, range(3))]
    stacked = [*map(ensemble.teacher, range(3))]
    return Threads(alone, 2, nullcontext), Stacked(stacked)


@parametrize(
    "network",
    [
        pytest.param(network, marks=pytest.mark.slow if network in ("resnet32", "pate_cnn") else ())
        for network in STACKABLE
    ],
)
def test_stacked_weights_are_those_of_teachers_alone(
    large: DataSplits, tmp_path: Path, network: str, monkeypatch: MonkeyPatch
) -> None:
    settings = replace(FIVE, network=network, weight_decay=0.1)
    alone, stacked = _cohorts(settings, large, tmp_path, monkeypatch)
    x = torch.rand(20, 1, 16, 16, dtype=torch.float64)
    alone.train_pass()
    stacked.train_pass()
    for name, values in (stacked.parameters | stacked.buffers).items():
        for teacher, value in zip(alone.teachers, values, strict=True):
            expected = teacher.network.state_dict()[name]
            assert_close(value, expected, rtol=1e-8, atol=1e-10)
    stacked.network.eval()
    logits = torch.stack([teacher.network.eval()(x) for teacher in alone.teachers])
    assert_close(stacked.logits(x), logits, rtol=1e-8, atol=1e-8)


@parametrize(
    "options",
    [
        {"stride": 2, "padding": 1},
        {"stride": (1, 3), "padding": (0, 2), "dilation": 2},
        {"padding": "same", "groups": 2},
        {"bias": False, "padding": 1, "padding_mode": "reflect"},
    ],
)
def test_unfolded_convolutions_are_convolutions(options: dict[str, Any]) -> None:
    convolution = nn.Conv2d(4, 6, (3, 1), **options).double()
    x = torch.rand(5, 4, 9, 8, dtype=torch.float64)
    expected = convolution(x)
    with Unfolded():
        assert_close(convolution(x), expected)


def test_no_number_passes_between_stacked_teachers(
    large: DataSplits, tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    """All records of teacher 1 become NaN. Every other teacher keeps its weights, bit for bit."""
    weights = []
    for spoilt in (False, True):
        _, stacked = _cohorts(replace(FIVE, network="cnn_bn"), large, tmp_path, monkeypatch)
        if spoilt:
            stacked.x[stacked.starts[1] : stacked.starts[2]] = torch.nan
        stacked.train_pass()
        weights.append(stacked.parameters | stacked.buffers)
    before, after = weights
    assert all(before[name][[0, 2]].equal(after[name][[0, 2]]) for name in before)
    assert all(value[1].isnan().any() for value in after.values() if value.is_floating_point())
