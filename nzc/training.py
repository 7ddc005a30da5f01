"""Lightning's Trainer as this project uses it: quiet, with one progress bar that says what it counts."""

import logging
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytorch_lightning import LightningModule


class Training:
    """Settings of pytorch_lightning.Trainer, shared by teachers and student; torch is imported when a fit begins."""

    def __init__(self, *, progress: bool = True, **options: Any) -> None:
        self.progress, self.options = progress, options

    def fit(self, module: "LightningModule", what: str, *, steps: int, **options: Any) -> None:
        """Fit `module`, showing progress over `steps` batches under the name `what`."""
        from pytorch_lightning import Trainer

        from nzc._progress import ProgressBar

        logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trainer = Trainer(
                **self.options,
                **options,
                callbacks=[ProgressBar(what, steps)] if self.progress else [],
                logger=False,
                enable_checkpointing=False,
                enable_progress_bar=False,
                enable_model_summary=False,
            )
            trainer.fit(module)
