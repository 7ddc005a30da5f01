"""Hydra's launcher `slurm`: one SLURM job per run of a sweep."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher

from hydra_plugins.nzc import folder_of
from nzc.runs.layout import write_error


class SlurmLauncher(Launcher):
    """Submitit's for Hydra, but a lost job takes only its own result with it.

    Jobs are lost that are cancelled, out of memory or out of time. A sweep that is stopped takes
    its jobs back.
    """

    def __init__(self, submitit_folder: str, max_num_timeout: int, **options: Any) -> None:
        from hydra_plugins.hydra_submitit_launcher.submitit_launcher import BaseSubmititLauncher

        self.folder = submitit_folder
        self.retries = max_num_timeout
        self.options = options
        self.job = BaseSubmititLauncher()

    def setup(self, **known: Any) -> None:
        self.job.setup(**known)
        self.sweep = Path(known["config"].hydra.sweep.dir)

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        from hydra_plugins.hydra_submitit_launcher.config import BaseQueueConf
        from submitit import AutoExecutor

        executor = AutoExecutor(self.folder, cluster="slurm", slurm_max_num_timeout=self.retries)
        shared = BaseQueueConf.__dataclass_fields__
        executor.update_parameters(
            **{key if key in shared else f"slurm_{key}": v for key, v in self.options.items()}
        )
        numbers = range(initial_job_idx, initial_job_idx + len(job_overrides))
        state = Singleton.get_state()
        calls = [
            (list(job), "hydra.sweep.dir", n, str(n), state)
            for n, job in zip(numbers, job_overrides, strict=True)
        ]
        jobs = executor.map_array(self.job, *zip(*calls, strict=True))
        try:
            return [self._result(job, number) for job, number in zip(jobs, numbers, strict=True)]
        except BaseException:
            for job in jobs:
                job.cancel(check=False)
            raise

    def _result(self, job: Any, number: int) -> JobReturn:
        from submitit.core.utils import FailedJobError, UncompletedJobError

        try:
            result: JobReturn = job.results()[0]
            return result
        except FailedJobError:
            raise
        except UncompletedJobError:
            folder = folder_of(self.sweep, number)
            write_error(
                folder, f"SLURM job {job.job_id}: {job.state} (see {job.paths.stdout.name})"
            )
            return JobReturn(status=JobStatus.COMPLETED)
