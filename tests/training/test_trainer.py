"""Lightning's options: who gets them, which are refused and why, and that they do for a student
what they say.
"""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import pandas as pd
import pytest
import torch
from conftest import SMALL, Nzc
from few_labels import COMMON, clouds
from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.callbacks import (
    EarlyStopping,
    ModelCheckpoint,
    StochasticWeightAveraging,
    Timer,
)
from pytorch_lightning.loggers import CSVLogger

from nzc.students import StudentConfig
from nzc.students.gan_ssl import GANSSL
from nzc.students.supervised import Supervised
from nzc.training.trainer import TrainerSettings
from nzc.validation import InputError

PLAIN = Supervised(**COMMON)
DATA = clouds(60, 40)[0]


def _settings(**options: Any) -> TrainerSettings:
    return TrainerSettings(progress=False, accelerator="cpu", devices=1, **options)


class Watch(Callback):
    """Notes every fit that it sees."""

    def __init__(self) -> None:
        self.batches = 0

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, *args: Any, **kwargs: Any
    ) -> None:
        self.batches += 1

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
        facts = {"batches": self.batches, "steps": trainer.global_step, "metrics": metrics}
        with Path("noted.jsonl").open("a") as file:
            file.write(json.dumps({"module": type(pl_module).__name__} | facts) + "\n")


class End(Callback):
    """Ends a fit after a number of batches."""

    def __init__(self, batches: int) -> None:
        self.left = batches

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, *args: Any, **kwargs: Any
    ) -> None:
        self.left -= 1
        trainer.should_stop = trainer.should_stop or self.left == 0


class Held(Callback):
    """Holds what cannot be copied."""

    def __init__(self) -> None:
        self.lock = Lock()


def _noted() -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path("noted.jsonl").read_text().splitlines()]


def test_callbacks_see_student_and_representation_and_no_teacher(nzc: Nzc) -> None:
    """Each fit has a copy of its own. Lightning's logger gets the points of student.csv."""
    small = [
        *SMALL,
        "representation=contrastive",
        "query_choice=representative",
        "teachers.count=2",
    ]
    small += ["representation.encoder.steps=4", "queries=60", "rounds=2", "teachers.epochs=1"]
    callback = f"+trainer.callbacks=[{{_target_: {__name__}.Watch}}]"
    logger = "+trainer.logger={_target_: pytorch_lightning.loggers.CSVLogger, save_dir: logs}"
    ran = nzc(*small, callback, logger)
    assert ran.code == 0, ran.err
    noted = _noted()
    assert [fit["module"] for fit in noted] == [
        "ContrastiveModule",
        "StudentModule",
        "StudentModule",
    ]
    assert [fit["batches"] for fit in noted] == [4, 60, 60]  # a batch is a step where there are few
    assert [fit["steps"] for fit in noted] == [4, 60, 60]
    curves = pd.read_csv(next(ran.folder.glob("outputs/*/*/student.csv")))
    logged = pd.read_csv(next(Path("logs").rglob("metrics.csv")))
    for name, points in curves.groupby("curve"):
        found = logged.dropna(subset=[name])
        assert found["step"].tolist() == points["step"].tolist()
        assert found[name].tolist() == pytest.approx(points["value"].tolist(), rel=1e-6)
    assert noted[-1]["metrics"]["loss_labelled"] == pytest.approx(
        curves["value"].iloc[-1], rel=1e-6
    )


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"max_steps": 3}, "max_steps=3: must not be given: .*student.steps"),
        ({"fast_dev_run": True}, "fast_dev_run=true: must not be given"),
        (
            {"accumulate_grad_batches": 2},
            "accumulate_grad_batches=2: must not be given: batch_size",
        ),
        ({"enable_progress_bar": True}, "enable_progress_bar=true: .*trainer.progress"),
        ({"gradient_clip_val": -1}, "gradient_clip_val=-1: must be a finite number, 0 or above"),
        ({"gradient_clip": 1}, "trainer.gradient_clip=1: .*unexpected keyword"),
        (
            {"gradient_clip_val": 1, "gradient_clip_algorithm": "l3"},
            "trainer.gradient_clip_algorithm=l3: ",
        ),
        ({"max_time": "soon", "profiler": "simple"}, "trainer.max_time=soon: .*DD:HH:MM:SS"),
        ({"max_time": {"seconds": 0}}, "trainer.max_time=.*must leave time for a step"),
        ({"callbacks": [Timer({"seconds": 0})]}, "trainer.max_time=.*must leave time for a step"),
        ({"profiler": "simpel"}, "trainer.profiler=simpel: "),
        (
            {"callbacks": ["watch"]},
            "trainer.callbacks=watch: must be objects of pytorch_lightning.*Callback",
        ),
        ({"logger": "csv"}, "trainer.logger=csv: must be objects of pytorch_lightning.*Logger"),
        ({"callbacks": [Held()]}, "trainer.callbacks=.*must be objects that can be copied"),
        ({"treads": 2}, "trainer.treads=2: "),
        (
            {"callbacks": EarlyStopping("loss_labelled")},
            "trainer.callbacks=EarlyStopping: .*student.patience",
        ),
        ({"callbacks": [StochasticWeightAveraging(0.1)]}, "trainer.callbacks=.*student.average"),
    ],
)
def test_an_option_that_cannot_be_is_refused_by_its_name(
    options: dict[str, Any], line: str
) -> None:
    with pytest.raises(InputError, match=line):
        PLAIN.check((6,), 3, _settings(**options))


GAN = GANSSL(
    **COMMON | {"network": "gan_mlp"}, unlabelled=8, lr_generator=0.01, entropy=0, consistency=0
)  # fmt: skip


@pytest.mark.parametrize("config", [PLAIN, GAN], ids=["student", "gan"])
@pytest.mark.parametrize(
    ("algorithm", "measure"), [("norm", torch.Tensor.norm), ("value", lambda x: x.abs().max())]
)
def test_a_step_is_as_long_as_its_clipped_gradient(
    config: StudentConfig, algorithm: str, measure: Any
) -> None:
    """One step of descent at rate 1 moves the weights by the gradient, which is far longer without
    a limit.
    """
    config = replace(config, steps=1, optimizer=partial(torch.optim.SGD, lr=1.0))
    before = torch.cat(
        [weight.flatten() for weight in config.student(DATA, 0).network.parameters()]
    )
    moved = []
    for options in ({}, {"gradient_clip_val": 1e-3, "gradient_clip_algorithm": algorithm}):
        fitted = config.fit(DATA, 0, _settings(**options), "Student")
        after = torch.cat([weight.flatten() for weight in fitted.classifier.parameters()])
        moved.append(float(measure((after - before).detach())))
    assert moved[0] > 0.01 and moved[1] == pytest.approx(1e-3, rel=0.01)


def test_a_fit_that_is_ended_early_leaves_a_student(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    saved = ModelCheckpoint(tmp_path, every_n_train_steps=1, save_top_k=-1)
    settings = _settings(callbacks=[End(3), saved], deterministic=True)
    ended = replace(PLAIN, average=0.9).fit(DATA, 0, settings, "Student")
    assert (
        "nzc: Student: trainer.max_time, or a callback, ended it after 3 of 60 steps"
        in capfd.readouterr().err
    )
    assert torch.tensor(ended.probabilities(DATA.x)).isfinite().all()
    steps = sorted(path.stem.partition("step=")[2] for path in tmp_path.iterdir())
    assert steps == ["1", "2", "3"]
    PLAIN.fit(DATA, 0, _settings(max_time={"hours": 1}), "Student")
    assert capfd.readouterr().err == ""


def test_settings_change_no_fit_that_they_do_not_concern(tmp_path: Path) -> None:
    """A logger, a profiler and a watching callback leave a student as it is, to the last digit."""
    options = {"logger": CSVLogger(tmp_path), "callbacks": [End(1000)], "gradient_clip_val": 1e6}
    found = [
        PLAIN.fit(DATA, 0, _settings(**own), "Student").probabilities(DATA.x)
        for own in ({}, options)
    ]
    assert (found[0] == found[1]).all()


def test_an_option_that_nothing_uses_is_named(nzc: Nzc) -> None:
    ran = nzc(
        "teachers=logistic",
        "teachers.count=2",
        "student=linear",
        "queries=20",
        "+trainer.gradient_clip_val=1",
    )
    assert (
        ran.code == 0
        and "nzc: trainer.gradient_clip_val: does nothing where Lightning trains neither" in ran.err
    )
    assert "does nothing" not in nzc(*SMALL, "teachers.count=2", "+trainer.gradient_clip_val=1").err
