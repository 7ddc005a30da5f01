"""Hydra's sweeper `rows`: every row of a sweep file with every point of the grid. Hydra finds plugins only here."""

from collections.abc import Mapping, Sequence
from typing import Any

from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class RowSweeper(Sweeper):
    """Runs the jobs that `nzc.app.sweep.RunningSweep` has planned and checked, `max_batch_size` at a time."""

    def __init__(
        self, max_batch_size: int | None = None, params: Mapping[str, str] | None = None
    ) -> None:
        self.max_batch_size = max_batch_size  # `params` is read from the configuration

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        self.config, self.hydra_context = config, hydra_context
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> list[Sequence[Any]]:
        from nzc.app.sweep import RunningSweep  # Hydra imports every plugin for every command

        assert RunningSweep.current is not None and self.launcher is not None
        jobs = [job.launched for job in RunningSweep.current.jobs]
        returned = []
        for first in range(0, len(jobs), self.max_batch_size or len(jobs)):
            batch = jobs[first : first + (self.max_batch_size or len(jobs))]
            results = self.launcher.launch(batch, initial_job_idx=first)
            for result in results:
                _ = result.return_value  # raises where the job did
            returned.append(results)
        return returned
