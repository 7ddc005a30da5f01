"""What goes with a fit: one line of progress, its curves, and its end."""

from collections.abc import Mapping
from typing import Any

from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.loggers import Logger

from nzc._bar import Bar
from nzc._types import Draw


class CurveLogger(Logger):
    """Hands on, under the name `what`, whatever a fit draws."""

    def __init__(self, what: str, draw: Draw) -> None:
        super().__init__()
        self.what, self.draw = what, draw

    @property
    def name(self) -> str:
        return self.what

    @property
    def version(self) -> str:
        return ""

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        self.draw(self.what, metrics, step or 0)

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """There are none: the configuration has them."""


class ProgressBar(Callback):
    """Shown on a terminal's standard error, on rank 0; elsewhere silent."""

    def __init__(self, what: str) -> None:
        self.what = what

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.bar = Bar(self.what)  # made here: it does not travel to other processes
        if trainer.is_global_zero:
            self.bar.start(trainer.num_training_batches)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.bar.advance()

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.bar.stop()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        if hasattr(self, "bar"):
            self.bar.stop()


class Together(Callback):
    """No rank ends before the others: a node waits for its own processes only."""

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        trainer.strategy.barrier()
