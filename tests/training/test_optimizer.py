"""Optimisers and schedules of one's own: their rate is theirs; what cannot be made is refused."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import parametrize
from few_labels import COMMON, ENSEMBLE, GAN, QUIET, clouds, fit
from numpy.testing import assert_allclose
from pytest import MonkeyPatch, raises
from torch import optim
from torch.optim.lr_scheduler import CosineAnnealingLR, OneCycleLR, StepLR

from nzc.data import DataSplits
from nzc.data.digits import Digits
from nzc.students import NetworkStudent
from nzc.students.supervised import Supervised
from nzc.validation import InputError

STUDENTS = [Supervised(**COMMON | {"steps": 6}), replace(GAN, steps=6)]
STEPS = partial(StepLR, step_size=3, gamma=0.1)


@pytest.fixture
def rates(monkeypatch: MonkeyPatch) -> list[float]:
    """The learning rates of all steps of SGD."""
    noted: list[float] = []
    step = optim.SGD.step

    def noting(optimizer: optim.SGD, closure: Any = None) -> Any:
        noted.append(optimizer.param_groups[0]["lr"])
        return step(optimizer, closure)

    monkeypatch.setattr(optim.SGD, "step", noting)
    return noted


@pytest.fixture(scope="module")
def splits() -> DataSplits:
    return Digits(0, 120, 30).load()


@parametrize(("stacked", "optimizers"), [(False, 3), (True, 1)])
def test_teachers_keep_the_rate_of_their_own_optimiser(
    splits: DataSplits, tmp_path: Path, stacked: bool, optimizers: int, rates: list[float]
) -> None:
    """Three passes of three batches."""
    own = replace(ENSEMBLE, optimizer=partial(optim.SGD, lr=0.03), stacked=stacked, parallel=3)
    own.teach_all(splits, QUIET, tmp_path)
    assert rates == [0.03] * 9 * optimizers
    rates.clear()
    scheduled = tmp_path / "scheduled"
    scheduled.mkdir()
    replace(own, schedule=STEPS).teach_all(splits, QUIET, scheduled)
    expected = np.repeat([0.03, 0.003, 0.0003], 3 * optimizers)
    assert_allclose(sorted(rates, reverse=True), expected)


@parametrize("config", STUDENTS, ids=["supervised", "gan_ssl"])
def test_students_keep_the_rate_of_their_own_optimiser(
    config: NetworkStudent, rates: list[float]
) -> None:
    own = replace(config, optimizer=partial(optim.SGD, lr=0.03))
    data, _ = clouds(30, 20)
    fit(own, data)
    fit(replace(own, schedule=STEPS), data)
    assert_allclose(rates, [0.03] * 9 + [0.003] * 3)


@parametrize(
    ("key", "own"),
    [
        ("optimizer=SGD", {"optimizer": partial(optim.SGD, lr=-1)}),
        (
            "schedule=OneCycleLR",
            {"optimizer": optim.Adagrad, "schedule": partial(OneCycleLR, max_lr=0.1)},
        ),
        ("schedule=CosineAnnealingLR", {"schedule": CosineAnnealingLR}),
        (
            "schedule=StepLR",
            {"optimizer": partial(optim.Optimizer, defaults={}), "schedule": STEPS},
        ),
    ],
)
def test_what_cannot_be_made_is_refused(key: str, own: dict[str, Any]) -> None:
    with raises(InputError, match=f"^{key}: "):
        replace(ENSEMBLE, **own)
