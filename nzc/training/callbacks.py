"""The Lightning callback of every fit: a progress bar, and a common end of all ranks."""

from typing import Any

from pytorch_lightning import Callback, LightningModule, Trainer

from nzc.training.progress import Bar


class Progress(Callback):
    """Shows the progress of a fit on rank 0. Lightning's own bar cannot name a fit, nor count teachers.

    teachers  how many teachers the batches train together; None: the batches are counted, as steps
    """

    def __init__(self, fit: str, shown: bool, teachers: int | None) -> None:
        self.fit, self.shown, self.teachers = fit, shown, teachers

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        unit = "steps" if self.teachers is None else "teachers"
        total = float(trainer.num_training_batches if self.teachers is None else self.teachers)
        # made here, because it cannot be sent to other processes
        self.bar = Bar(self.fit, self.shown and trainer.is_global_zero, unit)
        self.share = total / max(1, trainer.num_training_batches)
        self.bar.start(total)

    def on_train_batch_end(self, *args: Any, **kwargs: Any) -> None:
        self.bar.advance(self.share)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.bar.close()
        trainer.strategy.barrier()  # no rank ends before the others, because a node waits for its own processes only

    def on_exception(self, *args: Any) -> None:
        if hasattr(self, "bar"):
            self.bar.close()
