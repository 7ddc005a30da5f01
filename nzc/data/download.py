"""Find or download the files of torchvision's datasets."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from nzc.validation import InputError, in_a_line

T = TypeVar("T")


def obtain(root: str, files: str, read: Callable[[], T]) -> T:
    """Return `read()`, which downloads `files` into `root` where they are missing or their checksum is wrong.

    InputError: they can be neither read nor downloaded. Empty folders that the attempt made are removed.
    """

    def paths() -> set[Path]:
        return {Path(root), *Path(root).rglob("*")} if Path(root).exists() else set()

    before = paths()
    try:
        return read()
    except Exception as error:  # torchvision, SciPy and their decoders raise many types
        for path in sorted(paths() - before, reverse=True):
            with suppress(OSError):  # no folder, or not empty
                path.rmdir()
        line = in_a_line(error) if isinstance(error, OSError | RuntimeError) else ""  # others may quote a file
        why = line or type(error).__name__
        allowed = f"must hold {files}, whole and unchanged; they could not be downloaded either ({why})"
        raise InputError("root", root, allowed) from None
