"""The Lightning callback of every fit: a progress bar, and a common end of all ranks."""

from typing import Any

from pytorch_lightning import Callback, LightningModule, Trainer

from nzc.progress import Bar


class Progress(Callback):
    """Shows the progress of a fit on rank 0: of `total` steps or teachers; None: of batches."""

    def __init__(self, fit: str, shown: bool, total: int | None) -> None:
        self.fit = fit
        self.shown = shown
        self.total = total

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        batches = float(trainer.num_training_batches) * (trainer.max_epochs or 1)
        total = batches if self.total is None else self.total
        self.share = total / max(1, batches)
        # A bar is made here, because it cannot be sent to other processes.
        self.bar = Bar(self.shown and trainer.is_global_zero)
        self.task = self.bar.add_task(self.fit, total=total)
        self.bar.start()

    def on_train_batch_end(self, *args: Any, **kwargs: Any) -> None:
        self.bar.advance(self.task, self.share)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.bar.stop()
        # No rank ends before the others, because a node waits for its own processes only.
        trainer.strategy.barrier()

    def on_exception(self, *args: Any) -> None:
        if hasattr(self, "bar"):
            self.bar.stop()
