"""Settings of Lightning's Trainer for teachers and student. torch is imported when a fit begins."""

import logging
import os
import warnings
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from nzc.validation import InputError, in_a_line, one_of, whole

if TYPE_CHECKING:
    from lightning_fabric.plugins.environments.lightning import LightningEnvironment
    from pytorch_lightning import LightningModule, Trainer

PRECISIONS = ("32-true", "16-mixed", "bf16-mixed", "32", "32bit")  # weights stay float32, like the rows
_QUIET = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
#: Trainer options that nzc sets itself, or that Lightning refuses for the manual optimisation of teachers.
_RESERVED = {
    *("max_epochs", "min_epochs", "max_steps", "min_steps", "max_time", "limit_train_batches", "overfit_batches"),
    *("fast_dev_run", "callbacks", "gradient_clip_val", "gradient_clip_algorithm", "accumulate_grad_batches", *_QUIET),
}


class TrainerSettings:
    """Options of pytorch_lightning.Trainer, shared by all fits of a run; conf/trainer/auto.yaml explains the others.

    Of `num_nodes` machines that start the same command, the first does the whole run; the others train their share of
    the teachers and end.
    """

    def __init__(
        self, *, progress: bool = True, threads: int = 1, num_nodes: int = 1, compile: bool = False, **options: Any
    ) -> None:
        whole(1, 4096, threads=threads)
        whole(1, num_nodes=num_nodes)
        self.precision = str(options.get("precision", PRECISIONS[0]))
        one_of(PRECISIONS, precision=self.precision)
        for name in sorted(_RESERVED & options.keys()):
            raise InputError(name, options[name], "must not be given: nzc sets it itself, or trains without it")
        if not isinstance(compile, bool):
            raise InputError("compile", compile, "must be true or false")
        self.progress, self.threads, self.nodes, self.options = progress, threads, num_nodes, options
        self.compile = compile  # the step of stacked teachers

    @property
    def is_worker(self) -> bool:
        """Whether this process runs on another node than the first."""
        return self.nodes > 1 and self._environment().node_rank() > 0

    @property
    def device_kind(self) -> str:
        """The type of device that fits run on: cpu, cuda, …"""
        asked_for_cpu = self.options.get("accelerator") == "cpu"  # no need to import torch then
        return "cpu" if asked_for_cpu else str(self._trainer().strategy.root_device.type)

    @property
    def processes(self) -> int:
        """How many processes a fit with `ranks` has on this machine."""
        return int(self._trainer().num_devices)

    def fit(
        self, module: "LightningModule", name: str, total: int | None = None, ranks: bool = False, **options: Any
    ) -> None:
        """Fit `module` in this process, on one device; with `ranks` in one process for each device of each node.

        Each rank is sent the module, so it must hold nothing that its process may not know.

        name   heads the progress bar, which counts to `total`; None: to the number of batches
        """
        from nzc.training.callbacks import Progress

        options |= {"num_nodes": self.nodes} if ranks else self._one_device()
        trainer = self._trainer(callbacks=[Progress(name, self.progress, total)], **options)
        with warnings.catch_warnings(action="ignore"):
            try:
                trainer.fit(module)
            except SystemExit as end:
                if isinstance(end.__context__, KeyboardInterrupt):  # Lightning turns the one into the other
                    raise KeyboardInterrupt from end
                raise

    def check(self) -> None:
        """Raise InputError where Lightning does not accept these options."""
        self._trainer()

    def _one_device(self) -> dict[str, Any]:
        """Return the options of Lightning by which a fit stays in this process: the first of the devices, alone."""
        number = self._trainer().strategy.root_device.index  # None on a CPU
        return {"strategy": "auto", "devices": 1 if number is None else [number]}

    def _trainer(self, **options: Any) -> "Trainer":
        import torch
        from pytorch_lightning import Trainer
        from pytorch_lightning.strategies import DDPStrategy

        if not torch.cuda.is_available():
            # Lightning has torch look for a GPU by loading NVML, which AdamW would do in vain at every step.
            os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "0"
        logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
        torch.set_num_threads(self.threads)
        try:
            with warnings.catch_warnings(action="ignore"):
                make = partial(Trainer, **{"plugins": [self._environment()]} | self.options | options | _QUIET)
                trainer = make()
                if isinstance(trainer.strategy, DDPStrategy):  # by default it would start the whole command again
                    patience = timedelta(days=1)  # a rank waits so long for the others
                    trainer = make(strategy=DDPStrategy(start_method="spawn", timeout=patience))
                return trainer
        except Exception as error:  # Lightning raises many types
            allowed = f"must be options of pytorch_lightning.Trainer ({in_a_line(error)})"
            raise InputError("trainer", self.options, allowed) from error

    def _environment(self) -> "LightningEnvironment":
        """Return this node's number and the address of the first, as NODE_RANK and MASTER_ADDR or SLURM give them."""
        from lightning_fabric.plugins.environments.lightning import LightningEnvironment
        from lightning_fabric.plugins.environments.slurm import SLURMEnvironment

        if self.nodes > 1 and "SLURM_NODEID" in os.environ:
            slurm = SLURMEnvironment(auto_requeue=False)
            os.environ.setdefault("NODE_RANK", str(slurm.node_rank()))
            os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = slurm.main_address, str(slurm.main_port)
        return LightningEnvironment()
