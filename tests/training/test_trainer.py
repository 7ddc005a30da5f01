"""Lightning's options: who gets them, which are refused, and that they do what they say."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from conftest import SMALL, RunNzc, parametrize
from few_labels import COMMON, GAN, clouds, quiet
from pytest import approx, raises
from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.callbacks import (
    EarlyStopping,
    EMAWeightAveraging,
    LearningRateFinder,
    StochasticWeightAveraging,
)
from torch.nn.utils import parameters_to_vector

from nzc.students import NetworkStudent
from nzc.students.supervised import Supervised
from nzc.validation import InputError

PLAIN = Supervised(**COMMON)
DATA = clouds(60, 40)[0]


class Watch(Callback):
    """Notes every fit that it sees."""

    def __init__(self) -> None:
        self.batches = 0

    def on_train_batch_end(self, trainer: Trainer, *args: Any, **kwargs: Any) -> None:
        self.batches += 1

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        fit = {
            "module": type(pl_module).__name__,
            "batches": self.batches,
            "steps": trainer.global_step,
            "metrics": {name: float(value) for name, value in trainer.callback_metrics.items()},
        }
        with Path("noted.jsonl").open("a") as file:
            file.write(json.dumps(fit) + "\n")


def test_callbacks_see_student_and_representation_and_no_teacher(run_nzc: RunNzc) -> None:
    """Each fit has a copy of its own. Lightning's logger gets the points of student.csv."""
    ran = run_nzc(
        *SMALL,
        "representation=contrastive",
        "representation.encoder.steps=4",
        "query_choice=representative",
        "teachers.count=2",
        "teachers.epochs=1",
        "queries=60",
        "rounds=2",
        f"+trainer.callbacks=[{{_target_: {__name__}.Watch}}]",
        "+trainer.logger={_target_: pytorch_lightning.loggers.CSVLogger, save_dir: logs}",
    )
    noted = [json.loads(line) for line in Path("noted.jsonl").read_text().splitlines()]
    modules = [fit["module"] for fit in noted]
    assert modules == ["ContrastiveModule", "StudentModule", "StudentModule"]
    assert [fit["batches"] for fit in noted] == [fit["steps"] for fit in noted] == [4, 60, 60]
    curves = pd.read_csv(next(ran.folder.glob("outputs/*/*/student.csv")))
    logged = pd.read_csv(next(Path("logs").rglob("metrics.csv")))
    for name, points in curves.groupby("curve"):
        found = logged.dropna(subset=[name])
        assert found["step"].tolist() == points["step"].tolist()
        assert found[name].tolist() == approx(points["value"].tolist(), rel=1e-6)
    last = curves["value"].iloc[-1]
    assert noted[-1]["metrics"]["loss_labeled"] == approx(last, rel=1e-6)


@parametrize(
    ("options", "line"),
    [
        ({"max_epochs": 3}, "max_epochs=3: "),
        ({"gradient_clip_val": -1}, "gradient_clip_val=-1: "),
        ({"gradient_clip": 1}, "trainer.gradient_clip=1: .*unexpected keyword"),
        ({"max_time": "soon", "profiler": "simple"}, "trainer.max_time=soon: "),
        ({"logger": "csv"}, "trainer.logger=csv: "),
        ({"callbacks": LearningRateFinder()}, "trainer.callbacks=LearningRateFinder: "),
    ],
)
def test_an_option_that_cannot_be_is_refused_by_its_name(
    options: dict[str, Any], line: str
) -> None:
    with raises(InputError, match=f"^{line}"):
        PLAIN.check((6,), 3, quiet(**options))


@parametrize("config", [PLAIN, GAN], ids=["student", "gan"])
@parametrize(
    ("algorithm", "measure"), [("norm", torch.Tensor.norm), ("value", lambda x: x.abs().max())]
)
def test_a_step_is_as_long_as_its_clipped_gradient(
    config: NetworkStudent, algorithm: str, measure: Any
) -> None:
    """One step at rate 1 moves the weights by the gradient, which is far longer without a limit."""
    config = replace(config, steps=1, optimizer=partial(torch.optim.SGD, lr=1.0))

    before = parameters_to_vector(config.student(DATA, 0).network.parameters())
    moved = []
    for options in ({}, {"gradient_clip_val": 1e-3, "gradient_clip_algorithm": algorithm}):
        fitted = config.fit(DATA, 0, quiet(**options), "Student")
        after = parameters_to_vector(fitted.classifier.parameters())
        moved.append(float(measure((after - before).detach())))
    assert moved[0] > 0.01
    assert moved[1] == approx(1e-3, rel=0.01)


@parametrize(
    ("options", "steps"),
    [
        ({"max_steps": 7, "min_epochs": 1}, 7),
        ({"fast_dev_run": True}, 1),
        ({"callbacks": EarlyStopping("loss_labeled", stopping_threshold=99)}, 1),
        ({"callbacks": [StochasticWeightAveraging(0.1), EMAWeightAveraging()]}, 60),
    ],
)
def test_lightning_decides_how_long_a_fit_is(options: dict[str, Any], steps: int) -> None:
    points: list[int] = []
    PLAIN.fit(DATA, 0, quiet(**options), "", lambda fit, curves, step: points.append(step))
    assert points == list(range(steps))
