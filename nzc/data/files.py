"""Write files whole and for their owner only; find or download the files of torchvision's datasets."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from nzc.validation import InputError, in_a_line

T = TypeVar("T")


def write_private(path: Path, data: bytes | str) -> Path:
    """Write `data` to `path`, replacing what was there; readable by the owner only, from the first byte on.

    OSError, which names `path`: it cannot be written; what was there is as before.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.unlink(missing_ok=True)
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
        return partial.rename(path)
    except BaseException as error:
        with suppress(OSError):
            partial.unlink()
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def require_writable(key: str, folder: Path) -> None:
    """Raise InputError unless `folder` can be created, or is there and can be written. Nothing is left behind."""
    try:
        TemporaryDirectory(dir=next(path for path in (folder, *folder.absolute().parents) if path.exists())).cleanup()
    except OSError as error:
        raise InputError(key, folder, f"must be a folder that can be written ({error.strerror})") from error


def remove_empty(folder: Path, levels: int, keep: Path) -> None:
    """Remove `folder` and its parents, `levels` folders in all, as far as they are empty; never `keep`."""
    for each in [keep / folder, *(keep / folder).parents][:levels]:
        if each != keep and each.is_dir() and not any(each.iterdir()):
            each.rmdir()


def obtain(root: str, files: str, read: Callable[[], T]) -> T:
    """Return `read()`, which downloads `files` into `root` where they are missing or their checksum is wrong.

    InputError: they can be neither read nor downloaded. Empty folders that the attempt made are removed.
    """

    def folders() -> set[Path]:
        return {path for path in (Path(root), *Path(root).rglob("*")) if path.is_dir()}

    there = folders()
    try:
        return read()
    except Exception as error:  # torchvision, SciPy and their decoders raise many types
        for folder in sorted(folders() - there, reverse=True):
            if not any(folder.iterdir()):
                folder.rmdir()
        line = in_a_line(error) or type(error).__name__
        allowed = f"must hold {files}, whole and unchanged; they could not be downloaded either ({line})"
        raise InputError("root", root, allowed) from error
