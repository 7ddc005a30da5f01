"""Write files that appear whole or not at all, and that only their owner may read."""

import os
from pathlib import Path


def write_private(path: Path, data: bytes | str) -> Path:
    """Write `data` to `path`, replacing what was there; readable by the owner only, from the first byte on."""
    partial = path.with_name(f".{path.name}.partial")
    partial.unlink(missing_ok=True)
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data.encode() if isinstance(data, str) else data)
    return partial.rename(path)


def remove_empty(folder: Path, levels: int, keep: Path) -> None:
    """Remove `folder` and its parents, `levels` folders in all, as far as they are empty; never `keep`."""
    for each in [keep / folder, *(keep / folder).parents][:levels]:
        if each != keep and each.is_dir() and not any(each.iterdir()):
            each.rmdir()
