"""When a result was made, and with which versions."""

import platform
import subprocess
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path

import nzc

#: The packages whose versions can change a result.
_PACKAGES = {"torch": "torch", "lightning": "pytorch-lightning", "mlflow": "mlflow", "numpy": "numpy", "scipy": "scipy"}


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@cache
def versions() -> dict[str, str]:
    """Return name → version, as of the first call. In a checkout, `commit` is marked where files differ from it."""
    commit = _commit()
    return {
        "nzc": nzc.__version__,
        **({"commit": commit} if commit else {}),
        "python": platform.python_version(),
        **{name: version(package) for name, package in _PACKAGES.items()},
    }


def _commit() -> str:
    """Return the commit of the checkout; empty for an installed package, whose parent folder may be another project."""
    home = Path(nzc.__file__).parents[1]
    if not (home / ".git").exists():
        return ""
    describe = ["git", "-C", str(home), "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=, with changes"]
    try:
        return subprocess.run(describe, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:  # git is not installed
        return ""
