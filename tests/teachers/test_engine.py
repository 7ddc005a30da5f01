"""The ensemble engine: the same teachers however they are trained, and whatever interrupts them."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import parametrize
from few_labels import FIVE, QUIET, quiet
from numpy.testing import assert_array_equal
from pytest import MonkeyPatch, TempPathFactory
from torch import nn

from nzc.data import DataSplits, Records
from nzc.data.rows import gather
from nzc.storage.predictions import save


@pytest.fixture(scope="module")
def trained(splits: DataSplits, tmp_path_factory: TempPathFactory) -> np.ndarray:
    """The predictions of FIVE."""
    return FIVE.teach_all(splits, QUIET, tmp_path_factory.mktemp("trained"))


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
        settings = replace(FIVE, parallel=parallel, stacked=stacked, **own)
        predictions.append(settings.teach_all(splits, QUIET, work))
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
    predictions = replace(FIVE, stacked=True).teach_all(splits, quiet(compile=True), tmp_path)
    assert (predictions == trained).mean() > 0.99


def _drops() -> nn.Module:
    """Return a network that draws from the process's one stream of random numbers."""
    return nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 10))


def test_dropout_belongs_to_its_teacher(splits: DataSplits, tmp_path: Path) -> None:
    """Such teachers are always trained alone."""
    settings = replace(FIVE, network=_drops, epochs=1, count=3)
    for name in ("first", "resumed"):
        (tmp_path / name).mkdir()
    together = replace(settings, parallel=3, stacked=True)
    first = together.teach_all(splits, QUIET, tmp_path / "first")
    torch.manual_seed(99)
    # Teacher 0 is done: the others must not notice.
    save(tmp_path / "resumed" / "0.npz", labels=first[0])
    assert_array_equal(settings.teach_all(splits, QUIET, tmp_path / "resumed"), first)


@pytest.mark.slow
def test_ranks_share_the_teachers(splits: DataSplits, trained: np.ndarray, tmp_path: Path) -> None:
    """Two processes under Lightning's ddp: the same predictions as one."""
    two = quiet(devices=2, strategy="ddp")
    assert_array_equal(FIVE.teach_all(splits, two, tmp_path), trained)


def test_rows_in_a_file_teach_the_same(
    splits: DataSplits, trained: np.ndarray, tmp_path: Path
) -> None:
    private = Records(gather([splits.private.x], held=0), splits.private.y)
    assert_array_equal(FIVE.teach_all(replace(splits, private=private), QUIET, tmp_path), trained)


def test_what_is_trained_is_not_trained_again(
    splits: DataSplits, trained: np.ndarray, tmp_path: Path
) -> None:
    marked = np.full(30, 7, dtype=np.int16)
    save(tmp_path / "2.npz", labels=marked)
    (tmp_path / "3.npz").write_bytes(b"")  # damaged: trained again
    resumed = FIVE.teach_all(splits, QUIET, tmp_path)
    assert_array_equal(resumed[[0, 1, 3, 4]], trained[[0, 1, 3, 4]])
    assert_array_equal(resumed[2], marked)
