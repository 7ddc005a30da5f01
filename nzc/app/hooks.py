"""Hydra's callback for a sweep."""

from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig


class SweepHooks(Callback):
    """Lets the chosen sweeper run within `nzc.app.sweep.running_sweep`.

    Launchers send this to their workers.
    """

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        from hydra_plugins.nzc import set_sweeper

        chosen = dict(config.hydra.sweeper)
        if config.hydra.runtime.choices["hydra/sweeper"] == "basic":  # rows is more
            chosen["_target_"] = "hydra_plugins.nzc.RowSweeper"
        wrapper = {"_target_": "hydra_plugins.nzc.AnsweredSweeper", "_recursive_": False}
        set_sweeper(config, wrapper | {"sweeper": chosen})
