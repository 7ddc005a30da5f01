"""The ensemble engine: the same teachers however they are trained, and whatever interrupts them."""

import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from conftest import TEACHERS, Nzc

from nzc import networks
from nzc.data import DataSplits, Split
from nzc.data.augment import Affine
from nzc.data.digits import Digits
from nzc.data.rows import FileRows
from nzc.networks.classifiers import DROPOUT
from nzc.storage.predictions import PredictionStore, save
from nzc.teachers.engine import TeacherEnsemble
from nzc.teachers.ensemble import Ensemble, sendable
from nzc.teachers.sharded import partition
from nzc.teachers.stacked import Stacked, Unfolded
from nzc.teachers.teacher import Threads
from nzc.training.trainer import TrainerSettings
from nzc.validation import InputError

QUIET = TrainerSettings(progress=False, accelerator="cpu", devices=1)
COMPILED = TrainerSettings(progress=False, accelerator="cpu", devices=1, compile=True)
SETTINGS = Ensemble(count=5, network="mlp", epochs=3, batch_size=16, lr=0.01, weight_decay=0.01, seed=3,
                    augment=Affine(rotate=10))  # fmt: skip


@pytest.fixture(scope="module")
def splits() -> DataSplits:
    return Digits(0, 200, 50).load()


def _predictions(
    settings: Ensemble, splits: DataSplits, folder: Path, training: TrainerSettings = QUIET
) -> np.ndarray:
    folder.mkdir(exist_ok=True)
    return settings.teach(splits, training, folder)


@pytest.mark.parametrize("images", [True, False])
def test_a_teacher_does_not_depend_on_those_beside_it(
    images: bool, splits: DataSplits, tmp_path: Path
) -> None:
    """The same seed gives the same teachers, however many are trained at once, and whether rows are
    augmented.
    """
    if not images:
        private, public = (
            replace(part, x=part.x.reshape(len(part.x), -1))
            for part in (splits.private, splits.public)
        )
        splits = replace(splits, private=private, public=public)
    together = _predictions(replace(SETTINGS, parallel=5), splits, tmp_path / "a")
    alone = _predictions(replace(SETTINGS, parallel=1), splits, tmp_path / "b")
    np.testing.assert_array_equal(together, alone)
    assert len({row.tobytes() for row in together}) == 5
    stacked = _predictions(replace(SETTINGS, stacked=True, parallel=3), splits, tmp_path / "c")
    assert (stacked == together).mean() > 0.99  # up to rounding


def test_autocast_and_compilation_change_only_the_speed(
    splits: DataSplits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Autocast keeps copies of the weights, which a pass of several steps must not use again."""
    engine, weights = TeacherEnsemble(SETTINGS, splits, SETTINGS.shards(splits), tmp_path), []
    for kept in (True, False):
        cohort = Threads(
            [engine.teacher(0)],
            1,
            partial(torch.autocast, "cpu", torch.bfloat16, cache_enabled=kept),
        )
        cohort.train_pass()
        weights.append(cohort.teachers[0].network.state_dict())
    torch.testing.assert_close(*weights, rtol=0, atol=0)
    monkeypatch.setattr(
        torch, "compile", partial(torch.compile, backend="eager")
    )  # others compile for a minute
    stacked = replace(SETTINGS, stacked=True)
    found = [
        _predictions(stacked, splits, tmp_path / str(of), COMPILED if of else QUIET)
        for of in (0, 1)
    ]
    assert (found[0] == found[1]).mean() > 0.99


def _has_dropout(network: str) -> bool:
    return any(
        isinstance(part, DROPOUT) for part in networks.build(network, (1, 16, 16), 10).modules()
    )


#: Networks without dropout, whose random numbers would come from one stream.
STACKABLE = [name for name in sorted(networks.MODULES) if not _has_dropout(name)]


def _cohorts(
    settings: Ensemble, splits: DataSplits, work: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Threads, Stacked]:
    """Return three teachers alone and stacked, in double precision: Adam divides by gradients that
    may be tiny.
    """
    for module in ("teacher", "stacked"):
        monkeypatch.setattr(f"nzc.teachers.{module}.as_input", lambda x: x.double() / 255)
    monkeypatch.setattr(
        "nzc.networks.build", lambda *shape, build=networks.build: build(*shape).double()
    )
    ensemble = TeacherEnsemble(
        settings, splits, partition(splits.private.y[:62], 3, 0, stratify=False), work
    )
    alone, stacked = ([ensemble.teacher(number) for number in range(3)] for _ in range(2))
    return Threads(alone, 2, nullcontext), Stacked(stacked)


@pytest.mark.parametrize("network", STACKABLE)
def test_stacked_weights_are_those_of_teachers_alone(
    splits: DataSplits, tmp_path: Path, network: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(SETTINGS, network=network, weight_decay=0.1)
    alone, stacked = _cohorts(settings, _enlarged(splits, 2), tmp_path, monkeypatch)
    x = torch.rand(20, 1, 16, 16, dtype=torch.float64)
    for _ in range(2):
        alone.train_pass()
        stacked.train_pass()
    for name, value in (stacked.parameters | stacked.buffers).items():
        for teacher, own in zip(alone.teachers, value, strict=True):
            torch.testing.assert_close(
                teacher.network.state_dict()[name], own, rtol=1e-8, atol=1e-10
            )
    stacked.network.eval()
    logits = torch.stack([teacher.network.eval()(x) for teacher in alone.teachers])
    torch.testing.assert_close(stacked.logits(x), logits, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    "options",
    [{"stride": 2, "padding": 1}, {"stride": (1, 3), "padding": (0, 2)}, {"padding": "same"}, {"dilation": 2},
     {"groups": 2}, {"bias": False, "padding": 1, "padding_mode": "reflect"}],
)  # fmt: skip
def test_unfolded_convolutions_are_convolutions(options: dict) -> None:
    convolution = torch.nn.Conv2d(4, 6, (3, 1), **options).double()
    x = torch.rand(5, 4, 9, 8, dtype=torch.float64)
    expected = convolution(x)
    with Unfolded():
        torch.testing.assert_close(convolution(x), expected)


def test_no_number_passes_between_stacked_teachers(
    splits: DataSplits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All records of teacher 1 become NaN. Every other teacher keeps its weights, bit for bit."""
    settings = replace(SETTINGS, network="cnn_bn")
    weights = []
    for spoilt in (False, True):
        _, stacked = _cohorts(settings, _enlarged(splits, 2), tmp_path, monkeypatch)
        if spoilt:
            stacked.x[stacked.starts[1] : stacked.starts[2]] = torch.nan
        stacked.train_pass()
        weights.append(stacked.parameters | stacked.buffers)
    before, after = weights
    assert all(before[name][[0, 2]].equal(after[name][[0, 2]]) for name in before)
    assert all(value[1].isnan().any() for value in after.values() if value.is_floating_point())


def _enlarged(splits: DataSplits, times: int) -> DataSplits:
    """Digits at 8 · times pixels a side."""

    def enlarge(split: Split) -> Split:
        return replace(split, x=split.x.repeat(times, axis=2).repeat(times, axis=3))

    return replace(
        splits,
        private=enlarge(splits.private),
        public=enlarge(splits.public),
        test=enlarge(splits.test),
    )


def test_dropout_belongs_to_its_teacher(splits: DataSplits, tmp_path: Path) -> None:
    """It draws from the process's one stream, so such teachers are trained alone, whatever is asked
    for.
    """
    settings = replace(SETTINGS, network="conv_small", epochs=1, count=3)
    first = _predictions(
        replace(settings, parallel=3, stacked=True), _enlarged(splits, 2), tmp_path / "a"
    )
    torch.manual_seed(99)
    (tmp_path / "b").mkdir()
    save(tmp_path / "b" / "0.npz", labels=first[0])  # teacher 0 is done: the others must not notice
    np.testing.assert_array_equal(
        _predictions(settings, _enlarged(splits, 2), tmp_path / "b"), first
    )


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, torch.optim.Adafactor])
def test_a_changed_record_changes_one_teacher(
    splits: DataSplits, tmp_path: Path, optimizer: type[torch.optim.Optimizer], stacked: bool
) -> None:
    """Adafactor scales an update by the norm of all its numbers: teachers that share it would share
    their records.
    """
    constant = partial(torch.optim.lr_scheduler.ConstantLR, factor=1)
    own = {"optimizer": partial(optimizer, lr=0.01), "schedule": constant, "augment": None}
    settings = replace(SETTINGS, stacked=stacked, **own)
    before = _predictions(settings, splits, tmp_path / "a")
    private = replace(splits.private, y=splits.private.y.copy())
    private.y[0] = (private.y[0] + 1) % 10
    after = _predictions(settings, replace(splits, private=private), tmp_path / "b")
    assert (before != after).any(axis=1).sum() <= 1


def test_ranks_share_the_teachers(splits: DataSplits, tmp_path: Path) -> None:
    """Two processes under Lightning's ddp: the same predictions as one."""
    two = TrainerSettings(progress=False, accelerator="cpu", devices=2, strategy="ddp")
    one = _predictions(SETTINGS, splits, tmp_path / "a")
    np.testing.assert_array_equal(_predictions(SETTINGS, splits, tmp_path / "b", two), one)


def test_records_that_shared_memory_cannot_hold_are_sent_by_a_file(
    splits: DataSplits, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = splits.private.x.nbytes
    for free, kind in ((2 * size, np.ndarray), (2 * size - 1, FileRows)):
        monkeypatch.setattr("shutil.disk_usage", lambda path, free=free: SimpleNamespace(free=free))
        private = sendable(splits.private)
        assert isinstance(private.x, kind) and private.x.dtype == splits.private.x.dtype
        np.testing.assert_array_equal(private.x[:], splits.private.x)
        np.testing.assert_array_equal(private.y, splits.private.y)


def test_what_is_trained_is_not_trained_again(splits: DataSplits, tmp_path: Path) -> None:
    whole = _predictions(SETTINGS, splits, tmp_path / "a")
    marked = np.full(50, 7, dtype=np.int16)
    save(tmp_path / "a" / "2.npz", labels=marked)
    (tmp_path / "a" / "4.npz").unlink()
    (tmp_path / "a" / "3.npz").write_bytes(b"")  # damaged: trained again
    resumed = _predictions(SETTINGS, splits, tmp_path / "a")
    np.testing.assert_array_equal(resumed[[0, 1, 3, 4]], whole[[0, 1, 3, 4]])
    np.testing.assert_array_equal(resumed[2], marked)


class Batches(torch.nn.Sequential):
    """Batch normalisation, which needs two rows."""

    def __init__(self) -> None:
        super().__init__(torch.nn.Flatten(), torch.nn.BatchNorm1d(64), torch.nn.Linear(64, 10))


class Asks(torch.nn.Linear):
    """Asks a tensor for its value, which stacked teachers cannot."""

    def __init__(self) -> None:
        super().__init__(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not x.is_meta and x.mean() < 0:
            return super().forward(-x.flatten(1))
        return super().forward(x.flatten(1))


#: What is refused before any teacher trains: the start of the line, and settings.
UNTRAINABLE = [
    ("network=Batches: must train on a batch of one row: teachers.count=200", {"count": 200}),
    ("network=Batches: must train on a batch of one row: teachers.count=5", {"batch_size": 13}),
    ("network=Batches: must train on a batch of one row", {"batch_size": 1}),
    ("network=Batches: must train on a batch of one row", {"batch_size": 1, "stacked": True}),
    ("network=.*Asks: must be trainable .*vmap", {"network": Asks, "stacked": True}),
    (
        "optimizer=LBFGS: must be able to train teachers",
        {"network": "mlp", "optimizer": torch.optim.LBFGS},
    ),
    (
        "augment=.*: must give rows that the network takes",
        {"network": "mlp", "augment": lambda x, rng: x[:, :, 1:]},
    ),
]
TRAINABLE = [
    {},
    {"stacked": True},
    {"network": Asks},
    {"network": "mlp", "batch_size": 1},
    {"batch_size": 38},
]


@pytest.mark.parametrize(("line", "own"), UNTRAINABLE)
def test_what_cannot_train_on_a_shard_is_refused(
    line: str, own: dict, splits: DataSplits, tmp_path: Path
) -> None:
    assert len(splits.private) == 200
    settings = replace(SETTINGS, **{"network": Batches, "epochs": 1} | own)
    with pytest.raises(InputError, match=f"^{line}"):
        settings.check_training(splits, PredictionStore(tmp_path), QUIET)
    with pytest.raises((ValueError, TypeError, RuntimeError)):  # it would have failed
        _predictions(settings, splits, tmp_path / "work")


@pytest.mark.parametrize("own", TRAINABLE)
def test_what_can_train_on_a_shard_is_accepted(
    own: dict, splits: DataSplits, tmp_path: Path
) -> None:
    settings = replace(SETTINGS, **{"network": Batches, "epochs": 1, "augment": None} | own)
    before = torch.get_rng_state()
    settings.check_training(splits, PredictionStore(tmp_path), QUIET)
    assert before.equal(torch.get_rng_state())
    _predictions(settings, splits, tmp_path / "work")


def test_names_do_not_decide_what_is_refused(splits: DataSplits, tmp_path: Path) -> None:
    """They are private, and say how many records a teacher has: any shard may leave a batch of one
    row.
    """
    for seed in range(5):
        named = replace(splits, keys=np.random.default_rng(seed).integers(2**60, size=200))
        with pytest.raises(
            InputError, match=r"^network=Batches: must train on a batch of one row: where names"
        ):
            replace(SETTINGS, network=Batches).check_training(
                named, PredictionStore(tmp_path), QUIET
            )
        SETTINGS.check_training(named, PredictionStore(tmp_path), QUIET)


LONG = ["teachers.count=16", "teachers.epochs=20", "student=none", "tracking=none", *TEACHERS[2:]]


def _start(folder: Path) -> subprocess.Popen[bytes]:
    # A session of its own, so that a kill reaches all of it.
    return subprocess.Popen([sys.executable, "-m", "nzc", *LONG], cwd=folder, start_new_session=True,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip


def test_a_kill_in_training_changes_nothing_and_two_runs_at_once_train_once(
    nzc: Nzc, tmp_path: Path
) -> None:
    assert nzc(*LONG).code == 0
    folder = tmp_path / "killed"
    folder.mkdir()
    running = _start(folder)
    while running.poll() is None and not list(folder.glob(".nzc/predictions/*.work/*.npz")):
        time.sleep(0.1)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    first, second = _start(folder), _start(folder)
    assert first.wait(timeout=120) == second.wait(timeout=120) == 0
    assert len(list(folder.glob("outputs/*/*/result.json"))) == 2
    one, other = (next(at.glob(".nzc/predictions/*.npz")) for at in (folder, tmp_path))
    assert one.read_bytes() == other.read_bytes()
    assert not list(folder.glob(".nzc/predictions/*.work"))
