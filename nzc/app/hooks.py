"""Hydra's callbacks. What a run or a sweep needs is imported when it begins: a run says before what
it is.
"""

import sys
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from nzc.app.config import shows_private
from nzc.app.errors import reported


class RunHooks(Callback):
    """Prepares a single run before Hydra makes its folder, so that wrong input leaves nothing
    behind.
    """

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        with reported(shows_private(config)):  # Hydra would make a warning of an error
            _say_start(config)
            from nzc.app.job import begin_run

            begin_run(config)


class SweepHooks(Callback):
    """Lets the chosen sweeper run within `nzc.app.sweep.running_sweep`.

    Launchers send this to their workers.
    """

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        from hydra_plugins.nzc import AnsweredSweeper, set_sweeper

        wrapper = f"{AnsweredSweeper.__module__}.{AnsweredSweeper.__qualname__}"
        chosen = config.hydra.sweeper
        set_sweeper(config, {"_target_": wrapper, "_recursive_": False, "sweeper": chosen})


def _say_start(config: DictConfig) -> None:
    """Print what the run combines: the imports that follow take seconds."""
    if OmegaConf.select(config, "trainer.progress", default=True):
        choices = config.hydra.runtime.choices
        groups = ("dataset", "teachers", "aggregator", "student")
        words = [f"{group}={choices[group]}" for group in groups]
        if config.baseline:
            words = [f"dataset={choices['dataset']}", "baseline=true"]
        print(f"nzc: {' '.join(words)}", file=sys.stderr, flush=True)
