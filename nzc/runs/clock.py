"""When a result was made, with which versions, and how long each stage took."""

import platform
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from nzc.types import StageLog
from nzc.version import __version__

#: The stages of a run: the keys of `seconds` in result.json.
Stage = Literal["total", "representation", "teachers", "votes", "labels", "accounting", "student"]
#: The packages whose versions can change a result.
_PACKAGES = {"torch": "torch", "lightning": "pytorch-lightning", "mlflow": "mlflow", "numpy": "numpy", "scipy": "scipy"}


class Clock:
    """Measures the seconds of each stage. `say` receives those that `done` reports; None: nobody does."""

    def __init__(self, say: StageLog | None = None) -> None:
        self.say, self.seconds, self._last = say, dict[Stage, float](), dict[Stage, float]()

    @contextmanager
    def __call__(self, stage: Stage) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self._last[stage] = time.perf_counter() - start
        self.seconds[stage] = round(self.seconds.get(stage, 0.0) + self._last[stage], 3)

    def done(self, stage: Stage, what: str) -> None:
        """Report `what` a stage did, and how long it took the last time."""
        if self.say is not None:
            self.say(stage, what, self._last[stage])


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@cache
def versions() -> dict[str, str]:
    """Return name → version, as of the first call. In a checkout, `commit` is marked where files differ from it."""
    home, commit = Path(__file__).parents[2], {}
    describe = ["git", "-C", str(home), "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=, with changes"]
    if (home / ".git").exists():  # above an installed package may be another project
        with suppress(OSError, subprocess.CalledProcessError):  # git is not installed
            commit = {"commit": subprocess.check_output(describe, text=True, stderr=subprocess.DEVNULL).strip()}
    packages = {}
    for name, package in _PACKAGES.items():
        with suppress(PackageNotFoundError):  # a run without a tracker needs no MLflow
            packages[name] = version(package)
    return {"nzc": __version__} | commit | {"python": platform.python_version()} | packages
