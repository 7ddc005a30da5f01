"""The ensemble engine: the same teachers however they are trained, and whatever interrupts them."""

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from conftest import parametrize
from few_labels import ENSEMBLE, QUIET, quiet
from numpy.testing import assert_array_equal
from pytest import MonkeyPatch, TempPathFactory, raises
from torch import nn
from torch.testing import assert_close

from nzc import networks
from nzc.data import DataSplits, Records, Units
from nzc.data.augment import Affine
from nzc.data.digits import Digits
from nzc.data.rows import FileRows, gather
from nzc.networks.classifiers import DROPOUT
from nzc.storage.predictions import PredictionStore, save
from nzc.teachers.engine import TeacherEnsemble
from nzc.teachers.ensemble import Ensemble, sendable
from nzc.teachers.sharded import partition
from nzc.teachers.stacked import Stacked, Unfolded
from nzc.teachers.teacher import Threads
from nzc.validation import InputError

SETTINGS = replace(ENSEMBLE, count=5, epochs=2, augment=Affine(rotate=10))


@pytest.fixture(scope="module")
def splits() -> DataSplits:
    return Digits(0, 120, 30).load()


@pytest.fixture(scope="module")
def large(splits: DataSplits) -> DataSplits:
    """Private digits of 16 × 16 pixels, as most networks need them."""
    x = splits.private.x.repeat(2, axis=2).repeat(2, axis=3)
    return replace(splits, private=replace(splits.private, x=x))


@pytest.fixture(scope="module")
def trained(splits: DataSplits, tmp_path_factory: TempPathFactory) -> np.ndarray:
    """The predictions of SETTINGS."""
    return SETTINGS.teach(splits, QUIET, tmp_path_factory.mktemp("trained"))


@parametrize(
    "own",
    [
        {},
        {"augment": None},
        {"optimizer": partial(torch.optim.Adafactor, lr=0.01)},
    ],
    ids=["augmented", "plain", "Adafactor"],
)
def test_a_teacher_does_not_depend_on_those_beside_it(
    own: dict[str, Any], splits: DataSplits, tmp_path: Path
) -> None:
    """Nor on how many are trained at once, stacked or not, augmented or not.

    Adafactor scales updates by the norm of all numbers: stacked teachers would share it.
    """
    predictions = []
    for parallel, stacked in ((5, None), (1, None), (3, True), (5, False)):
        work = tmp_path / f"{parallel}{stacked}"
        work.mkdir()
        settings = replace(SETTINGS, parallel=parallel, stacked=stacked, **own)
        predictions.append(settings.teach(splits, QUIET, work))
    together, alone, *others = predictions
    assert_array_equal(together, alone)
    assert len({row.tobytes() for row in together}) == 5
    for other in others:
        assert (other == together).mean() > 0.99  # up to rounding


@pytest.mark.slow
def test_compilation_changes_only_the_speed(
    splits: DataSplits, trained: np.ndarray, tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    # Other backends compile for a minute.
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    predictions = replace(SETTINGS, stacked=True).teach(splits, quiet(compile=True), tmp_path)
    assert (predictions == trained).mean() > 0.99


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
    settings = replace(SETTINGS, network=network, weight_decay=0.1)
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
        _, stacked = _cohorts(replace(SETTINGS, network="cnn_bn"), large, tmp_path, monkeypatch)
        if spoilt:
            stacked.x[stacked.starts[1] : stacked.starts[2]] = torch.nan
        stacked.train_pass()
        weights.append(stacked.parameters | stacked.buffers)
    before, after = weights
    assert all(before[name][[0, 2]].equal(after[name][[0, 2]]) for name in before)
    assert all(value[1].isnan().any() for value in after.values() if value.is_floating_point())


def _drops() -> nn.Module:
    """Return a network that draws from the process's one stream of random numbers."""
    return nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 10))


def test_dropout_belongs_to_its_teacher(splits: DataSplits, tmp_path: Path) -> None:
    """Such teachers are always trained alone."""
    settings = replace(SETTINGS, network=_drops, epochs=1, count=3)
    for name in ("first", "resumed"):
        (tmp_path / name).mkdir()
    together = replace(settings, parallel=3, stacked=True)
    first = together.teach(splits, QUIET, tmp_path / "first")
    torch.manual_seed(99)
    # Teacher 0 is done: the others must not notice.
    save(tmp_path / "resumed" / "0.npz", labels=first[0])
    assert_array_equal(settings.teach(splits, QUIET, tmp_path / "resumed"), first)


@pytest.mark.slow
def test_ranks_share_the_teachers(splits: DataSplits, trained: np.ndarray, tmp_path: Path) -> None:
    """Two processes under Lightning's ddp: the same predictions as one."""
    two = quiet(devices=2, strategy="ddp")
    assert_array_equal(SETTINGS.teach(splits, two, tmp_path), trained)


@parametrize(("missing", "kind"), [(0, np.ndarray), (1, FileRows)])
def test_records_that_shared_memory_cannot_hold_are_sent_by_a_file(
    splits: DataSplits, missing: int, kind: type, monkeypatch: MonkeyPatch
) -> None:
    usage = SimpleNamespace(free=2 * splits.private.x.nbytes - missing)
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    private = sendable(splits.private)
    assert isinstance(private.x, kind)
    assert private.x.dtype == splits.private.x.dtype
    assert_array_equal(private.x[:], splits.private.x)
    assert_array_equal(private.y, splits.private.y)


def test_rows_in_a_file_teach_the_same(
    splits: DataSplits, trained: np.ndarray, tmp_path: Path
) -> None:
    private = Records(gather([splits.private.x], held=0), splits.private.y)
    assert_array_equal(SETTINGS.teach(replace(splits, private=private), QUIET, tmp_path), trained)


def test_what_is_trained_is_not_trained_again(
    splits: DataSplits, trained: np.ndarray, tmp_path: Path
) -> None:
    marked = np.full(30, 7, dtype=np.int16)
    save(tmp_path / "2.npz", labels=marked)
    (tmp_path / "3.npz").write_bytes(b"")  # damaged: trained again
    resumed = SETTINGS.teach(splits, QUIET, tmp_path)
    assert_array_equal(resumed[[0, 1, 3, 4]], trained[[0, 1, 3, 4]])
    assert_array_equal(resumed[2], marked)


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
    settings = replace(SETTINGS, **{"network": batches, "epochs": 1} | own)
    with raises(InputError, match=f"^{line}"):
        settings.check_training(splits, PredictionStore(tmp_path), QUIET)
    with raises((ValueError, TypeError, RuntimeError)):  # it would have failed
        settings.teach(splits, QUIET, tmp_path)


def test_names_do_not_decide_what_is_refused(splits: DataSplits, tmp_path: Path) -> None:
    """They are private, and say how many records a teacher has: any shard may leave one row."""
    store = PredictionStore(tmp_path)
    for salt in range(5):
        named = replace(splits, units=Units(keys=np.arange(120) + 1000 * salt))
        with raises(InputError, match=r"^network=batches: .*batch of 1 "):
            replace(SETTINGS, network=batches).check_training(named, store, QUIET)
        SETTINGS.check_training(named, store, QUIET)
