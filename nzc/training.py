"""Lightning's Trainer as this project uses it: quiet, with one progress bar that says what it counts."""

import logging
import os
import warnings
from datetime import timedelta
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any

from nzc._types import Draw
from nzc.errors import InputError, in_a_line, one_of, whole

if TYPE_CHECKING:
    from lightning_fabric.plugins.environments.lightning import LightningEnvironment
    from pytorch_lightning import LightningModule, Trainer

#: How long a rank waits for the others to begin, and to end.
_PATIENCE = timedelta(days=1)
#: Weights stay float32, as the rows are.
PRECISIONS = ("32-true", "16-mixed", "bf16-mixed", "32", "32bit")
#: Options of the Trainer that nzc sets itself: how long a fit takes, and what it reports to.
_OURS = {f"{least}_{unit}" for least in ("max", "min") for unit in ("epochs", "steps")} | {
    *("max_time", "limit_train_batches", "overfit_batches", "fast_dev_run", "logger", "callbacks"),
    *("enable_checkpointing", "enable_progress_bar", "enable_model_summary"),
}


class Training:
    """Settings of pytorch_lightning.Trainer, shared by teachers and student; torch is imported when a fit begins.

    Of several nodes, each of which starts the same command, the first does the whole run; the others help to train
    the teachers (`num_nodes=nodes` in a fit), and do nothing else.
    """

    def __init__(self, *, progress: bool = True, threads: int = 1, num_nodes: int = 1, **options: Any) -> None:
        whole(1, threads=threads, num_nodes=num_nodes)
        one_of(PRECISIONS, precision=str(options.get("precision", PRECISIONS[0])))
        for name in sorted(_OURS & options.keys()):
            raise InputError(name, options[name], "must not be given: nzc sets it itself")
        self.progress, self.threads, self.nodes, self.options = progress, threads, num_nodes, options

    @property
    def helps(self) -> bool:
        """Whether this process is of another node than the first."""
        return self.nodes > 1 and self._environment().node_rank() > 0

    def fit(self, module: "LightningModule", what: str, draw: Draw | None = None, **options: Any) -> None:
        """Fit `module`, showing progress over its batches under the name `what`; `draw` gets points of its curves."""
        from nzc._progress import CurveLogger, ProgressBar, Together

        logger = False if draw is None else CurveLogger(what, draw)
        callbacks = [Together(), *([ProgressBar(what)] if self.progress else [])]
        trainer = self._trainer(callbacks=callbacks, logger=logger, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                trainer.fit(module)
            except SystemExit as end:
                if isinstance(end.__context__, KeyboardInterrupt):  # Lightning turns the one into the other
                    raise KeyboardInterrupt from end
                raise

    def check(self) -> None:
        """InputError where Lightning does not take these options."""
        self._trainer(logger=False)

    def _trainer(self, **options: Any) -> "Trainer":
        import torch
        from pytorch_lightning import Trainer
        from pytorch_lightning.strategies import DDPStrategy

        logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
        torch.set_num_threads(self.threads)
        for name, option in signature(Trainer).parameters.items():  # Lightning looks at none of these before the fit
            if isinstance(option.default, bool) and not isinstance(self.options.get(name, False), bool):
                raise InputError(f"trainer.{name}", self.options[name], "must be true or false")
        quiet: dict[str, Any] = {"enable_progress_bar": False, "enable_model_summary": False}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                options = {"plugins": [self._environment()]} | self.options | options | quiet
                make = partial(Trainer, enable_checkpointing=False, **options)
                trainer = make()
                if isinstance(trainer.strategy, DDPStrategy):  # by default it starts the whole command again
                    trainer = make(strategy=DDPStrategy(start_method="spawn", timeout=_PATIENCE))
                return trainer
        except Exception as error:  # whatever Lightning made of these options
            allowed = f"must be options of pytorch_lightning.Trainer ({in_a_line(error)})"
            raise InputError("trainer", self.options, allowed) from error

    def _environment(self) -> "LightningEnvironment":
        """Which node this is and where the first one is: NODE_RANK, MASTER_ADDR, MASTER_PORT, or else as SLURM says.

        Never Lightning's environment for SLURM, which wants a task for each device and requeues jobs by itself.
        """
        from lightning_fabric.plugins.environments.lightning import LightningEnvironment
        from lightning_fabric.plugins.environments.slurm import SLURMEnvironment

        if self.nodes > 1 and "SLURM_NODEID" in os.environ:
            slurm = SLURMEnvironment(auto_requeue=False)
            os.environ.setdefault("NODE_RANK", str(slurm.node_rank()))
            os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = slurm.main_address, str(slurm.main_port)
        return LightningEnvironment()
