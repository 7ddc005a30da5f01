"""When a result was made, and by which versions; recorded with it, because nobody can tell afterwards."""

import platform
import subprocess
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path

import nzc

#: Whose versions can move a result.
_PACKAGES = {"torch": "torch", "lightning": "pytorch-lightning", "mlflow": "mlflow", "numpy": "numpy", "scipy": "scipy"}


def now() -> str:
    """UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@cache
def versions() -> dict[str, str]:
    """name → version, as of the first call; `commit` in a checkout only, marked where files differ from it."""
    commit = _commit()
    return (
        {"nzc": nzc.__version__}
        | ({"commit": commit} if commit else {})
        | {"python": platform.python_version()}
        | {name: version(package) for name, package in _PACKAGES.items()}
    )


def _commit() -> str:
    """Empty where this is no checkout: a folder further above an installed package may be one of something else."""
    home = Path(nzc.__file__).parents[1]
    if not (home / ".git").exists():
        return ""
    describe = ["git", "-C", str(home), "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=, with changes"]
    try:
        return subprocess.run(describe, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:  # no git
        return ""
