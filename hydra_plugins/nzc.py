"""Hydra's sweepers of nzc. Hydra finds plugins only here, and imports them for every command."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.plugins import Plugins
from hydra.experimental.callback import Callback
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, flag_override


class SweepHooks(Callback):
    """Hydra's callback for a sweep: it puts `AnsweredSweeper` around the chosen sweeper.

    Launchers send this to their workers.
    """

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        chosen = dict(config.hydra.sweeper)
        if config.hydra.runtime.choices["hydra/sweeper"] == "basic":  # rows is more
            chosen["_target_"] = "hydra_plugins.nzc.RowSweeper"
        wrapper = {"_target_": "hydra_plugins.nzc.AnsweredSweeper", "_recursive_": False}
        set_sweeper(config, wrapper | {"sweeper": chosen})


class RowSweeper(Sweeper):
    """The sweeper `rows`: every row of a sweep file with every point of the grid.

    It launches the jobs that `nzc.app.sweep` has planned and checked, `max_batch_size` at a time.
    """

    def __init__(self, max_batch_size: int | None = None, **options: Any) -> None:
        self.max_batch_size = max_batch_size  # `options` are read from the configuration

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        self.config = config
        self.hydra_context = hydra_context
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: Sequence[Any]) -> None:
        """Launch jobs, given as the overrides of each."""
        assert self.launcher is not None
        size = self.max_batch_size or len(arguments)
        for first in range(0, len(arguments), size):
            batch = arguments[first : first + size]
            for result in self.launcher.launch(batch, initial_job_idx=first):
                _ = result.return_value  # raises where the job did


class AnsweredSweeper(Sweeper):
    """Lets the chosen sweeper run within `nzc.app.sweep.running_sweep`, and returns the folder."""

    def __init__(self, sweeper: DictConfig) -> None:
        self.chosen = sweeper

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        set_sweeper(config, self.chosen)
        self.composed = config
        self.sweeper = Plugins.instance().instantiate_sweeper(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> Path:
        from nzc.app.sweep import running_sweep

        with running_sweep(self.composed) as given:
            self.sweeper.sweep(list(given))
        return Path(self.composed.hydra.sweep.dir).absolute()


def folder_of(sweep: Path, number: int) -> Path:
    """Return the folder of a job, also of one that is lost before it begins."""
    from nzc.sweeps.jobs import JOBS, job_folders

    if (sweep / JOBS).is_file():
        return job_folders(sweep)[number]
    return sweep / str(number)  # of a search


def set_sweeper(config: DictConfig, sweeper: Any) -> None:
    """Set the sweeper of a composed configuration."""
    with flag_override(config, ["readonly", "struct"], False):
        config.hydra.sweeper = sweeper
