"""One line of progress for a fit."""

from typing import Any

from pytorch_lightning import Callback, LightningModule, Trainer

from nzc._bar import Bar


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
