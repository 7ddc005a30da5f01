"""A content-addressed folder of arrays: the same request finds what it once made."""

import ast
import json
import os
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
from filelock import FileLock

from nzc._types import AnyArray
from nzc.errors import InputError


class Store:
    """Arrays of private origin below `root`, which only its owner may read.

    An entry is a folder KIND/HASH with one .npy an array and request.json; it appears whole or not at all.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)

    def open(self) -> None:
        """Make the folder, or say why it cannot be."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            self.root.chmod(0o700)
            if not os.access(self.root, os.W_OK):
                raise PermissionError("not writable")
        except OSError as error:
            raise InputError("paths.store", self.root, f"must be a folder that can be written ({error})") from error

    def discard(self) -> None:
        """Take the folder back if nothing was put into it."""
        with suppress(OSError):
            self.root.rmdir()

    def fetch(
        self, kind: str, request: dict[str, Any], make: Callable[[Path], dict[str, AnyArray]]
    ) -> dict[str, AnyArray]:
        """The arrays of `request`, made by `make` if nobody did before; one maker at a time.

        `make` is given a folder for unfinished work, which outlives a kill and is there for the next try.
        """
        key = sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()[:20]
        folder = self.root / kind / key
        folder.parent.mkdir(exist_ok=True)
        with FileLock(folder.with_suffix(".lock")):
            if not folder.is_dir():
                work = folder.with_suffix(".work")
                work.mkdir(mode=0o700, exist_ok=True)
                self._write(folder, request, make(work))
                shutil.rmtree(work)
        return {path.stem: np.load(path, allow_pickle=False) for path in folder.glob("*.npy")}

    def _write(self, folder: Path, request: dict[str, Any], arrays: dict[str, AnyArray]) -> None:
        partial = Path(mkdtemp(dir=self.root, prefix=".partial-"))
        try:
            for name, array in arrays.items():
                np.save(partial / f"{name}.npy", array, allow_pickle=False)
            (partial / "request.json").write_text(json.dumps(request, indent=1, sort_keys=True))
            partial.rename(folder)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise


def code_digest(files: Iterable[Path]) -> str:
    """A fingerprint of what Python files do: unmoved by comments and layout."""
    return sha256("".join(ast.dump(ast.parse(path.read_text())) for path in files).encode()).hexdigest()[:16]


def save(path: Path, array: AnyArray) -> None:
    """An .npy file that appears whole or not at all."""
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        np.save(file, array, allow_pickle=False)
    partial.rename(path)
