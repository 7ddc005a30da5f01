"""`nzc` in a fork of a process that has imported everything, for trials/fuzz.py."""

import os
import resource
import signal
from pathlib import Path

os.environ |= {f"{name}_proxy": "http://127.0.0.1:9" for name in ("http", "https")}  # nothing is downloaded
os.environ.pop("HYDRA_FULL_ERROR", None)

import matplotlib.pyplot  # noqa: F401
import mlflow  # noqa: F401
import pytorch_lightning  # noqa: F401
import sklearn.ensemble  # noqa: F401
import torch  # noqa: F401
import torchvision  # noqa: F401
from _nzc import become, ended

import nzc.__main__  # noqa: F401

#: Address space of a run beyond what is imported.
MEMORY = 8 << 30


def run(arguments: list[str], folder: Path, limit: float) -> tuple[int | None, str]:
    """Exit code, None where it hung, and stderr of `nzc ARGUMENTS` in `folder`."""
    said = folder.parent / f"{folder.name}.err"

    def before() -> None:
        os.setsid()
        os.chdir(folder)
        out = os.open("/dev/null", os.O_RDWR)
        err = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for target, source in ((0, out), (1, out), (2, err)):
            os.dup2(source, target)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))

    if not (child := os.fork()):
        become(arguments, before)
    if (code := ended(child, limit)) is None:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
    text = said.read_bytes().decode(errors="replace")
    said.unlink()
    return code, text
