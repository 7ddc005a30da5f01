"""Hydra's launcher `ray_cluster`: one Ray task per run of a sweep."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from omegaconf import open_dict

from hydra_plugins.nzc import folder_of
from nzc.runs.layout import write_error


class RayLauncher(Launcher):
    """Ray's for Hydra, but a job whose worker is lost takes only its own result with it."""

    def __init__(self, ray: Any) -> None:
        self.options = ray

    def setup(self, **known: Any) -> None:
        self.context, self.task, self.config = (
            known[k] for k in ("hydra_context", "task_function", "config")
        )
        self.sweep = Path(self.config.hydra.sweep.dir)

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        from hydra_plugins.hydra_ray_launcher._launcher_util import launch_job_on_ray, start_ray

        self.options.init.setdefault(
            "object_store_memory", 78643200
        )  # in bytes, as Ray's launcher for Hydra
        start_ray(self.options.init)
        jobs = []
        for number, overrides in enumerate(job_overrides, initial_job_idx):
            config = self.context.config_loader.load_sweep_config(self.config, list(overrides))
            with open_dict(config):
                config.hydra.job.id = str(number)
                config.hydra.job.num = number
            state = Singleton.get_state()
            jobs.append(
                launch_job_on_ray(self.context, self.options.remote, config, self.task, state)
            )
        return [self._result(job, number) for number, job in enumerate(jobs, initial_job_idx)]

    def _result(self, job: Any, number: int) -> JobReturn:
        import ray
        from ray.exceptions import RayError, RayTaskError

        try:
            result: JobReturn = ray.get(job)
            return result
        except RayTaskError:
            raise
        except RayError as error:
            lost = f"Ray: {type(error).__name__}, the process of this job was lost"
            write_error(folder_of(self.sweep, number), lost)
            return JobReturn(status=JobStatus.COMPLETED)
