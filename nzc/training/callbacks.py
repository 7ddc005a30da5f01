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
    """Shows the batches of a fit on rank 0. Lightning's own bar cannot name a fit, nor count teachers' passes."""

    def __init__(self, fit: str) -> None:
        self.fit = fit

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.bar = Bar(self.fit)  # made here, because it cannot be sent to other processes
        if trainer.is_global_zero:
            self.bar.start(trainer.num_training_batches)

    def on_train_batch_end(self, *args: Any, **kwargs: Any) -> None:
        self.bar.advance()

    def on_train_end(self, *args: Any) -> None:
        self.bar.stop()

    def on_exception(self, *args: Any) -> None:
        if hasattr(self, "bar"):
            self.bar.stop()


class EndTogether(Callback):
    """Lets no rank end before the others, because a node waits for its own processes only."""

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        trainer.strategy.barrier()
