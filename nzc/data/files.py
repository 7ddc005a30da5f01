"""Files: tell what is none, write whole and for the owner only, find or download those of torchvision's datasets."""

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import TypeVar

from nzc.validation import InputError, in_a_line, reason

T = TypeVar("T")


#: What is at a path, by the type in its mode.
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def no_file(path: str | Path) -> str | None:
    """Return why `path` is no file with content, such as `it is a named pipe`; None: it is one. Links are followed.

    Nothing is opened: opening a named pipe may wait forever. Files of the kernel, such as those in /proc, are empty.
    """
    try:
        found = os.stat(path)
    except (OSError, ValueError) as error:
        return reason(error)
    kind = _KINDS.get(stat.S_IFMT(found.st_mode), "an empty file" if found.st_size == 0 else None)
    return kind and f"it is {kind}"


def require_file(key: str, path: str | Path) -> None:
    """Raise InputError unless `path` is a file with content."""
    if why := no_file(path):
        raise InputError(key, path, f"must be a file that can be read ({why})")


@dataclass(frozen=True)
class Unchanged:
    """A file of the user's that must stay as it is until nzc has read it for the last time.

    key, path  of the configuration, as in messages
    state      size and time of the last write, as `of` found them; None: there was no such file
    """

    key: str
    path: str
    state: tuple[int, int] | None

    @classmethod
    def of(cls, key: str, path: str) -> "Unchanged":
        """Return the file in its present state."""
        return cls(key, path, _state(path))

    def check(self, opened: int | None = None) -> None:
        """Raise InputError unless the file at the path, or the open file with this descriptor, is still the same."""
        if _state(self.path if opened is None else opened) != self.state:
            raise InputError(self.key, self.path, "must not change while nzc reads it; run nzc again")

    def digest(self) -> str:
        """Return the SHA-256 of the file, which was read before. InputError: it is not the same file any more."""
        self.check()
        found = digest_of(self.path)
        self.check()
        return found


def _state(file: str | int) -> tuple[int, int] | None:
    with suppress(OSError, ValueError):
        found = os.stat(file)
        return found.st_size, found.st_mtime_ns  # some network file systems number a file anew
    return None


def same_file(one: str, other: str) -> bool:
    """Return whether two paths lead to one file. Links are followed."""
    with suppress(OSError, ValueError):
        return os.path.samefile(one, other)
    return one == other


def digest_of(path: str | Path) -> str:
    """Return the SHA-256 of a file."""
    with open(path, "rb") as file:
        return file_digest(file, "sha256").hexdigest()


def refresh(folder: Path) -> None:
    """See the files that other machines have made in `folder`, where it lies on a network file system.

    A client of NFS may remember for a minute that a file was missing. Opening the folder makes it ask the server.
    """
    with suppress(OSError):
        os.scandir(folder).close()


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


def obtain(root: str, files: str, read: Callable[[], T]) -> T:
    """Return `read()`, which downloads `files` into `root` where they are missing or their checksum is wrong.

    InputError: they can be neither read nor downloaded. Empty folders that the attempt made are removed.
    """

    def folders() -> set[Path]:
        return {path for path in (Path(root), *Path(root).rglob("*")) if path.is_dir()}

    there = folders()
    for path in Path(root).glob(f"{files}*"):
        if path.exists() and not path.is_file():
            raise InputError("root", root, f"must hold {files} as files ({path.name}: {no_file(path)})")
    try:
        return read()
    except Exception as error:  # torchvision, SciPy and their decoders raise many types
        for folder in sorted(folders() - there, reverse=True):
            if not any(folder.iterdir()):
                folder.rmdir()
        line = in_a_line(error) if isinstance(error, OSError | RuntimeError) else ""  # others may quote a file
        line = line or type(error).__name__
        allowed = f"must hold {files}, whole and unchanged; they could not be downloaded either ({line})"
        raise InputError("root", root, allowed) from None
