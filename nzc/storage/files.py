"""Files: written whole and for the owner only; digests; what other machines have written."""

import os
from contextlib import suppress
from hashlib import file_digest
from pathlib import Path


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
        with open(partial, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(data.encode() if isinstance(data, str) else data)
        return partial.rename(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with suppress(OSError):
            partial.unlink()
