"""Files that appear whole or not at all, for their owner alone; and folders taken back where nothing came of them."""

import os
from pathlib import Path
from typing import Any


def private(path: Path) -> Any:
    """A new file, open for writing bytes, that only its owner may read, from the first byte on."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def written(path: Path, data: bytes) -> Path:
    """The file `path` with this data, in the place of what was there: whole or not at all, and its owner's alone."""
    partial = path.with_name(f".{path.name}.partial")
    partial.unlink(missing_ok=True)
    with private(partial) as file:
        file.write(data)
    return partial.rename(path)


def take_back(folder: Path, levels: int, here: Path) -> None:
    """Remove a folder, and those above it, so many levels in all, as far as they are empty; never `here`."""
    for above in [here / folder, *(here / folder).parents][:levels]:
        if above != here and above.is_dir() and not any(above.iterdir()):
            above.rmdir()
