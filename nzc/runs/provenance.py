"""When a result was made, and with which versions."""

import platform
import subprocess
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from nzc.version import __version__

#: The packages whose versions can change a result.
_PACKAGES = {"torch": "torch", "lightning": "pytorch-lightning", "mlflow": "mlflow", "numpy": "numpy", "scipy": "scipy"}


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
