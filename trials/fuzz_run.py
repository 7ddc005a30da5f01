"""Run `nzc` in a fork of a process that has imported everything, with limits of time and memory."""

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
from _nzc import exit_code_within, run_and_exit

import nzc.app.main  # noqa: F401

#: Bytes of address space that a run may use beyond what is imported.
MEMORY = 8 << 30


def run(arguments: list[str], folder: Path, limit: float) -> tuple[int | None, str]:
    """Run `nzc ARGUMENTS` in `folder`, and return its exit code and standard error.

    The exit code is None where the run does not end within `limit` seconds.
    """
    errors = folder.parent / f"{folder.name}.err"

    def before() -> None:
        os.setsid()
        os.chdir(folder)
        null = os.open("/dev/null", os.O_RDWR)
        error = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for target, source in ((0, null), (1, null), (2, error)):
            os.dup2(source, target)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))

    if not (child := os.fork()):
        run_and_exit(arguments, before)
    if (code := exit_code_within(child, limit)) is None:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
    text = errors.read_bytes().decode(errors="replace")
    errors.unlink()
    return code, text
