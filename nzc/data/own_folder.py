"""Folders that nzc makes for itself. A marker tells them from everyone else's, in which nothing is replaced or removed.

The folder of a run, of a sweep, and the store are such folders. That of a run or a sweep is used by one process at a
time, which holds a lock on the marker.
"""

import fcntl
import os
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from nzc.validation import InputError

MARKER = ".nzc-made"
_TEXT = b"nzc made this folder, and may replace or remove the files that it writes here.\n"


def require_own(key: str, folder: Path, older: tuple[str, ...] = ()) -> None:
    """Raise InputError unless nzc made `folder`, or it is empty, or it can be made. Nothing is written.

    key    of the configuration, by which the folder was given
    older  names of everything in such a folder of an earlier version, which left no marker
    """
    try:
        folder.lstat()
        names = {path.name for path in folder.iterdir()}
        if MARKER not in names and not names <= set(older):
            raise InputError(key, folder, "must be a new or empty folder, or one that nzc made; it has other files")
    except FileNotFoundError:
        if os.path.lexists(folder):
            raise InputError(key, folder, "must be a folder, not a link to nothing") from None
    except OSError as error:
        raise InputError(key, folder, f"must be a folder that can be written ({error.strerror})") from error
    require_writable(key, folder)


def require_writable(key: str, folder: Path) -> None:
    """Raise InputError unless `folder` can be made, or is there and can be written. Nothing is left behind."""
    try:
        TemporaryDirectory(dir=next(path for path in (folder, *folder.absolute().parents) if path.exists())).cleanup()
    except OSError as error:
        raise InputError(key, folder, f"must be a folder that can be written ({error.strerror})") from error


@cache
def warn_of_local_locks(key: str, folder: Path) -> None:
    """Say so once where `folder`, the value of `key`, is on an NFS mount whose locks other machines do not see."""
    from psutil import disk_partitions

    mounts = [each for each in disk_partitions(all=True) if folder.resolve().is_relative_to(each.mountpoint)]
    mount = max(mounts, key=lambda each: len(each.mountpoint), default=None)
    if mount is None or not mount.fstype.startswith("nfs"):
        return
    for option in mount.opts.split(","):
        if option in ("local_lock=all", "local_lock=flock", "local_lock=posix"):
            why = f"is on an NFS mount with {option} (as with nolock), so its locks hold on this machine only"
            print(f"nzc: {key}={folder}: {why}; let no other machine use it", file=sys.stderr)


def make_own(folder: Path) -> list[Path]:
    """Make a folder that only its owner may read, with its marker; return what was not there before, deepest first."""
    folder = folder.absolute()
    made = [path for path in (folder / MARKER, folder, *folder.parents) if not path.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    marker = os.open(folder / MARKER, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        if not os.fstat(marker).st_size:
            os.write(marker, _TEXT)
    finally:
        os.close(marker)
    return made


@dataclass
class OwnFolder:
    """The folder of one run or sweep, given by `key`; `require_own` has accepted it, or Hydra made it for a job."""

    key: str
    path: Path
    made: list[Path] = field(default_factory=list)
    _marker: int | None = None

    def take(self) -> None:
        """Make the folder, and keep other processes away from it until `close`. InputError: another process has it."""
        try:
            self.made = make_own(self.path)
            self._marker = os.open(self.path / MARKER, os.O_RDWR | os.O_NOFOLLOW)
            fcntl.flock(self._marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise InputError(self.key, self.path, "must be another folder than that of a run under way") from None
        except OSError as error:
            raise InputError(self.key, self.path, f"must be a folder that can be written ({error.strerror})") from error

    def close(self) -> None:
        """Let others use the folder."""
        if self._marker is not None:
            os.close(self._marker)
            self._marker = None

    def undo(self) -> None:
        """Remove what `take` made, as far as it is empty."""
        self.close()
        for path in self.made:
            if path.name == MARKER and [each.name for each in path.parent.iterdir()] == [MARKER]:
                path.unlink()
            elif path.is_dir() and not any(path.iterdir()):
                path.rmdir()
