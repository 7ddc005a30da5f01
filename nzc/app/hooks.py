"""Hydra's callback of nzc, the first of all callbacks."""

import warnings
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from nzc.app.errors import show_warning


class SweepHooks(Callback):
    """Lets the chosen sweeper run within `nzc.app.sweep.running_sweep`.

    The error of another callback, which Hydra warns of, is one line. Launchers send this to their
    workers.
    """

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        warnings.showwarning = show_warning  # type: ignore[assignment]

    on_job_start = on_run_start

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        self.on_run_start(config)
        from hydra_plugins.nzc import set_sweeper

        chosen = dict(config.hydra.sweeper)
        if config.hydra.runtime.choices["hydra/sweeper"] == "basic":  # rows is more
            chosen["_target_"] = "hydra_plugins.nzc.RowSweeper"
        wrapper = {"_target_": "hydra_plugins.nzc.AnsweredSweeper", "_recursive_": False}
        set_sweeper(config, wrapper | {"sweeper": chosen})
