"""Files, written whole and for the owner only; folders of nzc: of a run, a sweep, the store."""

import fcntl
import os
from contextlib import suppress
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from nzc.validation import InputError

#: The umask of a run: its owner only may read what it writes, because most of it depends on votes.
PRIVATE = 0o077
MARKER = ".nzc-made"  # marks a folder that nzc made. In others it changes nothing.


def digest_of(path: str | Path) -> str:
    """Return the SHA-256 of a file."""
    with open(path, "rb") as file:
        return file_digest(file, "sha256").hexdigest()


def refresh(folder: Path) -> None:
    """Make a client of NFS see new files of other machines in `folder` at once."""
    with suppress(OSError):
        os.scandir(folder).close()


def write_private(path: Path, data: bytes | str) -> Path:
    """Write `data` to `path`, or leave what was there. Only the owner may ever read it."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        with open(partial, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(data.encode() if isinstance(data, str) else data)
        return partial.rename(path)
    finally:
        partial.unlink(missing_ok=True)


def require_own(key: str, folder: Path, older: tuple[str, ...] = ()) -> None:
    """Raise InputError unless nzc made `folder`, or can, or it has only the `older` files."""
    require_writable(key, folder)
    if (folder / MARKER).exists():
        return
    for path in folder.glob("*"):
        if path.name not in older:
            raise InputError(
                key,
                folder,
                "must be a new or empty folder, or one that nzc made; it has other files",
            )


def require_writable(key: str, folder: Path) -> None:
    """Raise InputError unless `folder` can be made or written. Nothing is left behind."""
    folder = folder.absolute()
    try:
        above = next(filter(Path.exists, (folder, *folder.parents)))
        with TemporaryDirectory(dir=above) as trial:  # the file system takes its name, too
            Path(trial, folder.relative_to(above)).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            key, folder, f"must be a folder that can be written ({error.strerror})"
        ) from error


def require_there(folder: Path) -> None:
    """Raise RuntimeError unless `folder` is still there, and can be written."""
    try:
        TemporaryDirectory(dir=folder).cleanup()
    except OSError as error:
        raise RuntimeError(f"{folder} can no longer be written ({error.strerror})") from error


def make_own(folder: Path) -> None:
    """Make a private folder with its marker, unless it is there."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    marker = folder / MARKER
    if not marker.exists():
        marker.touch(mode=0o600)


@dataclass
class OwnFolder:
    """The folder of one run or sweep, given by `key`, which locks the marker while it lasts."""

    key: str
    path: Path
    _marker: IO[Any] | None = None

    def take(self) -> None:
        """Make the folder, and lock it until `close`. InputError: another process has it."""
        make_own(self.path)
        self._marker = (self.path / MARKER).open("r+b")
        try:
            fcntl.flock(self._marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise InputError(
                self.key, self.path, "must be another folder than that of a run under way"
            ) from None

    def close(self) -> None:
        """Let others use the folder."""
        if self._marker is not None:
            self._marker.close()
