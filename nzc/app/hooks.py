"""Hydra's callback for a sweep, whose needs are imported when it begins."""

from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig


class SweepHooks(Callback):
    """Opens a sweep before its jobs, and answers it after them. Launchers send this to workers."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        from nzc.app.sweep import RunningSweep

        RunningSweep(config).begin()

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        from nzc.app.sweep import RunningSweep

        assert RunningSweep.current is not None
        RunningSweep.current.end()
