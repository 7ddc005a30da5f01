"""A run that comes to nothing leaves its folder as it was. Hydra writes there before the input is checked."""

import shutil
from pathlib import Path
from typing import Any, ClassVar

from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from nzc._files import take_back, written


class Before(Callback):
    """Keeps what an earlier run left of its configuration in the folder, from before Hydra writes there."""

    #: The files of .hydra by name, in the folder of the run that is under way in this process.
    files: ClassVar[dict[str, bytes]] = {}

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        Before.files = {path.name: path.read_bytes() for path in Path(config.hydra.run.dir, ".hydra").glob("*")}


def undo(folder: Path, here: Path) -> None:
    """Take back what Hydra wrote, and the folders that it made, unless there is something else in them; never `here`.

    `hydra.run.dir=.` is the person's own folder, and may hold the configuration of an earlier run, which comes back.
    """
    shutil.rmtree(folder / ".hydra", ignore_errors=True)
    for name, data in Before.files.items():
        (folder / ".hydra").mkdir(exist_ok=True)
        written(folder / ".hydra" / name, data)
    take_back(folder, 3, here)
