"""Lightning callbacks and logger of every fit: progress bar, learning curves, common end of all ranks."""

from collections.abc import Mapping
from typing import Any

from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.loggers import Logger

from nzc.training.progress import Bar
from nzc.types import CurveLog


class CurveLogger(Logger):
    """Passes every metric of a fit to `log`, under the fit's name."""

    name: str = ""
    version: str = ""

    def __init__(self, fit: str, log: CurveLog) -> None:
        super().__init__()
        self.name, self.log = fit, log

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        self.log(self.name, metrics, step or 0)

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: the composed configuration is recorded instead."""


class ProgressBar(Callback):
    """Shows the progress of a fit on rank 0. Lightning's own bar cannot name a fit, nor count teachers.

    teachers  how many teachers the batches train together; None: the batches are counted, as steps
    """

    def __init__(self, fit: str, teachers: int | None) -> None:
        self.fit, self.teachers = fit, teachers

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        unit = "steps" if self.teachers is None else "teachers"
        total = float(trainer.num_training_batches if self.teachers is None else self.teachers)
        self.bar = Bar(self.fit, unit=unit)  # made here, because it cannot be sent to other processes
        self.share = total / max(1, trainer.num_training_batches)
        if trainer.is_global_zero:
            self.bar.start(total)

    def on_train_batch_end(self, *args: Any, **kwargs: Any) -> None:
        self.bar.advance(self.share)

    def on_train_end(self, *args: Any) -> None:
        self.bar.stop()

    def on_exception(self, *args: Any) -> None:
        if hasattr(self, "bar"):
            self.bar.stop()


class EndTogether(Callback):
    """Lets no rank end before the others, because a node waits for its own processes only."""

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        trainer.strategy.barrier()
