"""What the datasets that torchvision reads have in common: finding, downloading and refusing files."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from nzc.errors import InputError, in_a_line

T = TypeVar("T")


def obtain(root: str, files: str, read: Callable[[], T]) -> T:
    """What `read` gives, which downloads `files` where they are missing or their checksum is wrong.

    Where it can neither, one line says so, and no empty folder is left behind.
    """
    kept = {path for path in (Path(root), *Path(root).rglob("*")) if path.is_dir()}
    try:
        return read()
    except Exception as error:  # torchvision, SciPy and what they unpack with have a dozen kinds
        for folder in sorted((path for path in Path(root).rglob("*") if path.is_dir()), reverse=True):
            _remove(folder, kept)
        _remove(Path(root), kept)
        line = in_a_line(error) or type(error).__name__
        raise InputError(
            "root", root, f"must hold {files}, whole and unchanged; they could not be downloaded either ({line})"
        ) from error


def _remove(folder: Path, kept: set[Path]) -> None:
    if folder.is_dir() and folder not in kept and not any(folder.iterdir()):
        folder.rmdir()
