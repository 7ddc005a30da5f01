"""One line of progress for a fit."""

from typing import Any

from pytorch_lightning import Callback, LightningModule, Trainer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class ProgressBar(Callback):
    """Shown on a terminal's standard error, on rank 0; elsewhere silent."""

    def __init__(self, what: str) -> None:
        self.what = what

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        columns = (TextColumn("{task.description:9}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        console = Console(stderr=True)
        self.bar = Progress(*columns, TextColumn("·"), TimeRemainingColumn(), console=console, refresh_per_second=4)
        self.bar.disable = not (console.is_terminal and trainer.is_global_zero)
        self.task = self.bar.add_task(self.what, total=trainer.num_training_batches)
        self.bar.start()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.bar.advance(self.task)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.bar.stop()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        if hasattr(self, "bar"):
            self.bar.stop()
