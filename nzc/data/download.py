"""Find or download the files of torchvision's datasets."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from nzc.validation import InputError, in_a_line

T = TypeVar("T")


def obtain(root: str, files: str, read: Callable[[], T]) -> T:
    """Return `read()`, which downloads `files` into `root` where they are missing or their checksum is wrong.

    InputError: they can be neither read nor downloaded. Empty folders that the attempt made are removed.
    """
    there = {path for path in (Path(root), *Path(root).rglob("*")) if path.is_dir()}
    try:
        return read()
    except Exception as error:  # torchvision, SciPy and their decoders raise many types
        made = [path for path in (Path(root), *Path(root).rglob("*")) if path.is_dir() and path not in there]
        for folder in sorted(made, reverse=True):
            if not any(folder.iterdir()):
                folder.rmdir()
        line = in_a_line(error) or type(error).__name__
        allowed = f"must hold {files}, whole and unchanged; they could not be downloaded either ({line})"
        raise InputError("root", root, allowed) from error
