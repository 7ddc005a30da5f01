"""Settings of Lightning's Trainer for teachers and student. torch is imported when a fit begins."""

import logging
import os
import warnings
from copy import deepcopy
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from nzc.validation import InputError, Tree, in_a_line, not_negative, one_of, whole

if TYPE_CHECKING:
    from lightning_fabric.plugins.environments.lightning import LightningEnvironment
    from pytorch_lightning import LightningModule, Trainer

#: Weights stay float32, like the rows.
PRECISIONS = ("32-true", "16-mixed", "bf16-mixed", "32", "32bit")
#: Options of every fit. All others are of student and representation alone, so that only these, of
#: which each is in the key of stored predictions or changes the speed alone, reach a teacher, and
#: none of the user's objects sees one.
_OF_TEACHERS = ("accelerator", "devices", "strategy", "precision", "deterministic")
#: Options that nzc sets itself, and what to set instead.
_RESERVED = {
    "max_epochs": "student.steps and representation.encoder.steps say how long a fit is; "
    "max_steps ends it earlier",
    "accumulate_grad_batches": "batch_size of student or encoder sets a step's rows",
}
#: Options of student and representation that change nothing that these learn.
_ONLY_SHOW = (
    *("logger", "profiler", "default_root_dir", "log_every_n_steps"),
    *("enable_progress_bar", "enable_checkpointing", "enable_model_summary"),
)
#: Options of the fits of teachers, unless the settings say otherwise.
_QUIET = {
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}


class TrainerSettings:
    """Options of pytorch_lightning.Trainer; conf/trainer/auto.yaml explains the others.

    Teachers are trained by `_OF_TEACHERS`, student and representation by all options. Of
    `num_nodes` machines that start the same command, the first does the whole run; the others train
    their share of the teachers and end.
    """

    def __init__(
        self,
        *,
        progress: bool = True,
        threads: int = 1,
        num_nodes: int = 1,
        compile: bool = False,
        **options: Any,
    ) -> None:
        whole("threads", threads, 1, 4096)
        whole("num_nodes", num_nodes, 1)
        self.precision = str(options.get("precision", PRECISIONS[0]))
        one_of("precision", self.precision, PRECISIONS)
        # Lightning takes logger=None for true.
        options = {name: value for name, value in options.items() if value is not None}
        for name, instead in _RESERVED.items():
            if name in options:
                raise InputError(name, options[name], f"must not be given: {instead}")
        not_negative("gradient_clip_val", options.get("gradient_clip_val", 0))
        if not isinstance(compile, bool):
            raise InputError("compile", compile, "must be true or false")
        self.progress = progress
        self.threads = threads
        self.nodes = num_nodes
        self.compile = compile  # the steps of stacked teachers and of a student on a GPU
        self.options = options

    @property
    def deterministic(self) -> Any:
        """Whether only deterministic algorithms of torch are used: true, or warn."""
        return self.options.get("deterministic") or False

    @property
    def own(self) -> Tree:
        """The options of student and representation alone."""
        return {name: value for name, value in self.options.items() if name not in _OF_TEACHERS}

    @property
    def learning(self) -> Tree:
        """Those of them that can change what a representation learns."""
        return {name: value for name, value in self.own.items() if name not in _ONLY_SHOW}

    @property
    def is_worker(self) -> bool:
        """Whether this process runs on another node than the first."""
        return self.nodes > 1 and self._environment().node_rank() > 0

    @property
    def device_kind(self) -> str:
        """The type of device that fits run on: cpu, cuda, …"""
        if self.options.get("accelerator") == "cpu":  # no need to import torch then
            return "cpu"
        return str(self._trainer().strategy.root_device.type)

    @property
    def processes(self) -> int:
        """How many processes a fit with `ranks` has on this machine."""
        return int(self._trainer().num_devices)

    def fit(
        self,
        module: "LightningModule",
        name: str,
        total: int | None = None,
        ranks: bool = False,
        **options: Any,
    ) -> None:
        """Fit `module` in this process, on one device, as student and representation are.

        With `ranks` it trains teachers, by the options of teachers, in one process for each device
        of each node. Each rank is sent the module, so it must hold nothing that its process may not
        know.

        name   heads the progress bar, which counts to `total`; None: to the number of batches
        """
        from nzc.training.callbacks import Progress

        progress = Progress(name, self.progress, total)
        if ranks:
            trainer = self._trainer(callbacks=[progress], num_nodes=self.nodes, **options)
        else:
            own = self._own_options()
            own["callbacks"] = [progress, *own["callbacks"]]
            own = options | own | {"strategy": "auto"}
            trainer = self._trainer(**own)
            if trainer.num_devices > 1:
                number = trainer.strategy.root_device.index  # None on a CPU
                trainer = self._trainer(**own, devices=1 if number is None else [number])
        with warnings.catch_warnings(action="ignore"):
            try:
                trainer.fit(module)
            except SystemExit as end:  # Lightning turns an interrupt into it
                if isinstance(end.__context__, KeyboardInterrupt):
                    raise KeyboardInterrupt from end
                raise

    def check(self) -> None:
        """Raise InputError where Lightning refuses these options: of one, if it is wrong alone."""
        own = self._own_options()
        self._trainer()
        for name, value in own.items():
            if name not in ("callbacks", "enable_checkpointing"):  # these go together
                self._trainer(**{name: value})
        self._trainer(**own)

    def _own_options(self) -> Tree:
        """Return the options of student and representation alone, for one fit.

        The callbacks are copies: each fit begins with the state that the settings describe.

        InputError: a callback or logger is none of Lightning's, or sets what the student sets.
        """
        from pytorch_lightning import Callback
        from pytorch_lightning.callbacks import (
            Checkpoint,
            GradientAccumulationScheduler,
            LearningRateFinder,
        )
        from pytorch_lightning.loggers import Logger

        own = self.own
        callbacks = _objects("callbacks", own.get("callbacks", []), Callback)
        if not isinstance(own.get("logger", False), bool):
            own["logger"] = _objects("logger", own["logger"], Logger)
        for callback in callbacks:
            if isinstance(callback, LearningRateFinder | GradientAccumulationScheduler):
                raise InputError(
                    "trainer.callbacks",
                    type(callback).__name__,
                    "must be set by hand instead: student.lr, student.batch_size",
                )
        own["callbacks"] = deepcopy(callbacks)
        writes = any(isinstance(callback, Checkpoint) for callback in callbacks)
        own.setdefault("enable_checkpointing", writes)
        if "profiler" in own:
            # Its report is a line of log, and Lightning's other lines are not shown.
            logging.getLogger("pytorch_lightning.profilers").setLevel(logging.INFO)
        return own

    def _trainer(self, **options: Any) -> "Trainer":
        import torch
        from pytorch_lightning import Trainer
        from pytorch_lightning.strategies import DDPStrategy

        if not torch.cuda.is_available():
            # Lightning has torch look for a GPU by loading NVML, which AdamW would do in vain at
            # every step.
            os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "0"
        logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
        torch.set_num_threads(self.threads)
        usual = {name: self.options[name] for name in _OF_TEACHERS if name in self.options}
        usual["plugins"] = [self._environment()]
        try:
            with warnings.catch_warnings(action="ignore"):
                make = partial(Trainer, **_QUIET | usual | options)
                trainer = make()
                if isinstance(trainer.strategy, DDPStrategy):
                    # By default it would start the whole command again.
                    patience = timedelta(days=1)  # a rank waits so long for the others
                    trainer = make(strategy=DDPStrategy(start_method="spawn", timeout=patience))
                return trainer
        except Exception as error:  # Lightning raises many types
            key = "trainer"
            value: object = self.options
            if len(options) == 1:
                [(name, value)] = options.items()
                key = f"trainer.{name}"
            raise InputError(
                key, value, f"must be an option of pytorch_lightning.Trainer ({in_a_line(error)})"
            ) from error

    def _environment(self) -> "LightningEnvironment":
        """Return this node's number and the first's address: of NODE_RANK, MASTER_ADDR or SLURM."""
        from lightning_fabric.plugins.environments.lightning import LightningEnvironment
        from lightning_fabric.plugins.environments.slurm import SLURMEnvironment

        if self.nodes > 1 and "SLURM_NODEID" in os.environ:
            slurm = SLURMEnvironment(auto_requeue=False)
            os.environ.setdefault("NODE_RANK", str(slurm.node_rank()))
            os.environ["MASTER_ADDR"] = slurm.main_address
            os.environ["MASTER_PORT"] = str(slurm.main_port)
        return LightningEnvironment()


def _objects(name: str, value: Any, kind: type) -> list[Any]:
    """Return an object or a list of objects as a list. InputError: one is not of this kind."""
    objects: list[Any] = value if isinstance(value, list) else [value]
    for item in objects:
        if not isinstance(item, kind):
            raise InputError(
                f"trainer.{name}", item, f"must be objects of {kind.__module__}.{kind.__name__}"
            )
    return objects
