"""Optimisers and schedules of one's own: their rate is theirs; what cannot be made is refused."""

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from few_labels import COMMON, clouds, fit
from numpy.testing import assert_allclose
from torch import optim
from torch.optim.lr_scheduler import CosineAnnealingLR, OneCycleLR, StepLR

from nzc.data import DataSplits, Split
from nzc.students import StudentConfig
from nzc.students.gan_ssl import GANSSL
from nzc.students.supervised import Supervised
from nzc.teachers.engine import TeacherEnsemble
from nzc.teachers.ensemble import Ensemble
from nzc.teachers.stacked import Stacked
from nzc.teachers.teacher import Threads
from nzc.validation import InputError

ENSEMBLE = Ensemble(
    count=3, network="mlp", epochs=3, batch_size=16, lr=0.01, weight_decay=0.01, seed=3
)
_GAN = {"unlabelled": 8, "lr_generator": 0.01, "entropy": 0, "consistency": 0}
STUDENTS = [
    Supervised(**COMMON | {"steps": 6}),
    GANSSL(**COMMON | {"steps": 6, "network": "gan_mlp"}, **_GAN),
]
STEPS = partial(StepLR, step_size=3, gamma=0.1)
ENGINES = {"threads": partial(Threads, cores=1, precision=nullcontext), "stacked": Stacked}


@pytest.fixture
def rates(monkeypatch: pytest.MonkeyPatch) -> list[float]:
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
    """Three classes that differ; 120 records are private."""
    data, y = clouds(150, 0)
    private = Split(data.x[:120], y[:120])
    public = Split(data.x[120:], y[120:])
    return DataSplits(private, public, public, 3)


def _trained(engine: str, settings: Ensemble, splits: DataSplits, work: Path) -> Any:
    ensemble = TeacherEnsemble(settings, splits, settings.shards(splits), work)
    cohort = ENGINES[engine]([ensemble.teacher(number) for number in range(3)])
    for _ in range(settings.epochs):
        cohort.train_pass()
    return cohort


@pytest.mark.parametrize(("engine", "optimizers"), [("threads", 3), ("stacked", 1)])
def test_teachers_keep_the_rate_of_their_own_optimiser(
    splits: DataSplits, tmp_path: Path, engine: str, optimizers: int, rates: list[float]
) -> None:
    """Three passes of three batches."""
    own = replace(ENSEMBLE, optimizer=partial(optim.SGD, lr=0.03))
    _trained(engine, own, splits, tmp_path)
    assert rates == [0.03] * 9 * optimizers
    rates.clear()
    _trained(engine, replace(own, schedule=STEPS), splits, tmp_path)
    expected = np.repeat([0.03, 0.003, 0.0003], 3 * optimizers)
    assert_allclose(sorted(rates, reverse=True), expected)


@pytest.mark.parametrize("config", STUDENTS, ids=["supervised", "gan_ssl"])
def test_students_keep_the_rate_of_their_own_optimiser(
    config: StudentConfig, rates: list[float]
) -> None:
    own = replace(config, optimizer=partial(optim.SGD, lr=0.03))
    data, _ = clouds(30, 20)
    fit(own, data)
    fit(replace(own, schedule=STEPS), data)
    assert_allclose(rates, [0.03] * 9 + [0.003] * 3)


@pytest.mark.parametrize(
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
    with pytest.raises(InputError, match=f"^{key}: "):
        replace(ENSEMBLE, **own)
