"""Hydra's callback for a sweep."""

from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig


class SweepHooks(Callback):
    """Lets the chosen sweeper run within `nzc.app.sweep.running_sweep`.

    Launchers send this to their workers.
    """

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        from hydra_plugins.nzc import AnsweredSweeper, set_sweeper

        wrapper = f"{AnsweredSweeper.__module__}.{AnsweredSweeper.__qualname__}"
        chosen = config.hydra.sweeper
        set_sweeper(config, {"_target_": wrapper, "_recursive_": False, "sweeper": chosen})
