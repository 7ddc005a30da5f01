"""Optimisers and schedules of one's own: their rate is theirs, and what cannot be made is refused
beforehand.
"""

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from few_labels import COMMON, QUIET
from torch import optim
from torch.optim.lr_scheduler import CosineAnnealingLR, OneCycleLR, StepLR

from nzc.data import DataSplits
from nzc.data.digits import Digits
from nzc.mechanisms import ABSTAIN
from nzc.students import StudentConfig, StudentData
from nzc.students.gan_ssl import GANSSL
from nzc.students.supervised import Supervised
from nzc.teachers.engine import TeacherEnsemble
from nzc.teachers.ensemble import Ensemble
from nzc.teachers.sharded import partition
from nzc.teachers.stacked import Stacked
from nzc.teachers.teacher import Threads
from nzc.validation import InputError

ENSEMBLE = Ensemble(
    count=3, network="mlp", epochs=3, batch_size=16, lr=0.01, weight_decay=0.01, seed=3
)
STUDENT = COMMON | {"steps": 6}
STUDENTS = [
    Supervised(**STUDENT),
    GANSSL(
        **STUDENT | {"network": "gan_mlp"},
        unlabelled=8,
        lr_generator=0.01,
        entropy=0,
        consistency=0,
    ),
]
STEPS = partial(StepLR, step_size=3, gamma=0.1)
ENGINES = [lambda teachers: Threads(teachers, 1, nullcontext), Stacked]


class Sign(optim.Optimizer):
    """Descends by the sign of the gradient; it has no momentum, and no rate where torch's
    optimisers have theirs.
    """

    def __init__(self, parameters: Any, stride: float) -> None:
        super().__init__(parameters, {"stride": stride})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = closure and closure()
        for group in self.param_groups:
            for weight in group["params"]:
                weight -= group["stride"] * weight.grad.sign()
        return loss


class Noted(optim.SGD):
    """SGD that notes its learning rate at every step."""

    rates: list[float]

    def step(self, closure: Any = None) -> Any:
        self.rates.append(self.param_groups[0]["lr"])
        return super().step(closure)


@pytest.fixture
def rates(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The learning rates of all steps of `Noted`."""
    noted: list[float] = []
    monkeypatch.setattr(Noted, "rates", noted, raising=False)
    return noted


@pytest.fixture(scope="module")
def splits() -> DataSplits:
    return Digits(0, 120, 30).load()


def _trained(engine: Any, settings: Ensemble, splits: DataSplits, work: Path) -> Any:
    ensemble = TeacherEnsemble(
        settings, splits, partition(splits.private.y, 3, 0, stratify=False), work
    )
    cohort = engine([ensemble.teacher(number) for number in range(3)])
    for _ in range(settings.epochs):
        cohort.train_pass()
    return cohort


def _fit(config: StudentConfig, splits: DataSplits) -> Any:
    labels = np.where(np.arange(30) < 20, splits.public.y, ABSTAIN)
    return config.fit(StudentData(splits.public.x, labels, 10), 0, QUIET, "Student")


@pytest.mark.parametrize("engine", ENGINES, ids=["threads", "stacked"])
def test_teachers_keep_the_rate_of_their_own_optimiser(
    splits: DataSplits, tmp_path: Path, engine: Any, rates: list[float]
) -> None:
    own = replace(ENSEMBLE, optimizer=partial(Noted, lr=0.03))
    each = 1 if engine is Stacked else 3
    _trained(engine, own, splits, tmp_path)
    assert rates == [0.03] * 9 * each  # three passes of three batches
    rates.clear()
    _trained(engine, replace(own, schedule=STEPS), splits, tmp_path)
    np.testing.assert_allclose(
        sorted(rates, reverse=True), np.repeat([0.03, 0.003, 0.0003], 3 * each)
    )


@pytest.mark.parametrize("config", STUDENTS, ids=["supervised", "gan_ssl"])
def test_students_keep_the_rate_of_their_own_optimiser(
    splits: DataSplits, config: StudentConfig, rates: list[float]
) -> None:
    own = replace(config, optimizer=partial(Noted, lr=0.03))
    for each in (own, replace(own, schedule=STEPS)):
        _fit(each, splits)
    np.testing.assert_allclose(rates, [0.03] * 9 + [0.003] * 3)


@pytest.mark.parametrize(
    "own", [partial(optim.Adagrad, lr=0.05), partial(Sign, stride=0.003)], ids=["Adagrad", "own"]
)
def test_optimisers_without_momentum_train(splits: DataSplits, tmp_path: Path, own: Any) -> None:
    settings, labels = (
        replace(ENSEMBLE, optimizer=own, epochs=12),
        torch.from_numpy(splits.public.y),
    )
    for engine in ENGINES:
        predicted = _trained(engine, settings, splits, tmp_path).predict(
            torch.from_numpy(splits.public.x)
        )
        assert min((labels == of).float().mean() for of in predicted) > 0.3  # by chance it is 0.1
    for config in STUDENTS:
        _fit(replace(config, optimizer=own), splits)


REFUSED = {
    "optimizer=SGD": {"optimizer": partial(optim.SGD, lr=-1)},
    "schedule=OneCycleLR": {
        "optimizer": optim.Adagrad,
        "schedule": partial(OneCycleLR, max_lr=0.1),
    },
    "schedule=CosineAnnealingLR": {"schedule": CosineAnnealingLR},
    "schedule=StepLR": {
        "optimizer": partial(Sign, stride=1),
        "schedule": partial(StepLR, step_size=3),
    },
}


@pytest.mark.parametrize("key", REFUSED)
def test_what_cannot_be_made_is_refused(key: str) -> None:
    with pytest.raises(InputError, match=f"^{key}: cannot be made"):
        replace(ENSEMBLE, **REFUSED[key])
