"""Lightning's Trainer as this project uses it: quiet, with one progress bar that says what it counts."""

import logging
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from nzc.errors import InputError, whole

if TYPE_CHECKING:
    from pytorch_lightning import LightningModule, Trainer

#: Takes points of curves: whose they are, values by name, and the step.
Draw = Callable[[str, Mapping[str, float], int], None]


class Training:
    """Settings of pytorch_lightning.Trainer, shared by teachers and student; torch is imported when a fit begins."""

    def __init__(self, *, progress: bool = True, threads: int = 1, **options: Any) -> None:
        whole(1, threads=threads)
        if options.get("strategy") == "ddp":
            options["strategy"] = "ddp_spawn"  # processes that only fit: the rest of the run happens once
        self.progress, self.threads, self.options = progress, threads, options

    def fit(self, module: "LightningModule", what: str, draw: Draw | None = None, **options: Any) -> None:
        """Fit `module`, showing progress over its batches under the name `what`; `draw` gets points of its curves."""
        from nzc._progress import CurveLogger, ProgressBar

        logger = False if draw is None else CurveLogger(what, draw)
        trainer = self._trainer(callbacks=[ProgressBar(what)] if self.progress else [], logger=logger, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                trainer.fit(module)
            except SystemExit as end:
                if isinstance(end.__context__, KeyboardInterrupt):  # Lightning makes the one of the other
                    raise KeyboardInterrupt from end
                raise

    def check(self) -> None:
        """InputError where Lightning does not take these options."""
        self._trainer(logger=False)

    def _trainer(self, **options: Any) -> "Trainer":
        import torch
        from lightning_fabric.utilities.exceptions import MisconfigurationException
        from pytorch_lightning import Trainer

        logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
        torch.set_num_threads(self.threads)
        quiet: dict[str, Any] = {"enable_progress_bar": False, "enable_model_summary": False}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return Trainer(**self.options, **options, **quiet, enable_checkpointing=False)
        except (MisconfigurationException, TypeError, ValueError, RuntimeError) as error:
            said = " ".join(str(error).split())
            raise InputError(
                "trainer", self.options, f"must be options of pytorch_lightning.Trainer ({said})"
            ) from error
