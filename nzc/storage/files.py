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
    """Make a client of NFS see files that other machines have just made in `folder`: it may remember for a minute that
    they were missing, and asks the server when the folder is opened."""
    with suppress(OSError):
        os.scandir(folder).close()


def write_private(path: Path, data: bytes | str) -> Path:
    """Write `data` to `path`, or leave what was there; readable by the owner only, from the first byte on."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        with open(partial, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(data.encode() if isinstance(data, str) else data)
        return partial.rename(path)
    finally:
        partial.unlink(missing_ok=True)
