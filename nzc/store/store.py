"""A content-addressed folder of arrays: the same request finds what it once made."""

import ast
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import file_digest, sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from nzc._files import private, written
from nzc._types import AnyArray
from nzc.errors import InputError

_REQUEST, _ARRAYS = "request.json", "arrays.json"


@dataclass(frozen=True)
class Entry:
    """What lies in one folder of the store. `state`: whole (not looked into), damaged (set aside), or partial."""

    folder: Path
    request: dict[str, Any]
    bytes: int
    made: float  # seconds since 1970

    @property
    def kind(self) -> str:
        return self.folder.parent.name

    @property
    def key(self) -> str:
        return self.folder.name

    @property
    def state(self) -> str:
        return self.folder.suffix.removeprefix(".").partition("-")[0] or "whole"


class Store:
    """Arrays of private origin below `root`, which only its owner may read.

    An entry is a folder KIND/HASH with one .npy an array, request.json, and arrays.json with each file's digest and the
    array's type; it appears whole or not at all. Integers lie in the smallest type that holds them, and come back in
    the type that was handed in.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)

    def open(self) -> None:
        """Make the folder, or say why it cannot be."""
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
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

        An entry that is no longer what was written is set aside as HASH.damaged-N and made again.
        """
        folder = self._folder(kind, request)
        with _lock(folder):
            if folder.is_dir():
                try:
                    found = _read(folder)
                    # A writer that was killed after the entry was made may have left it.
                    shutil.rmtree(_suffixed(folder, "work"), ignore_errors=True)
                    return found
                except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, RecursionError) as error:
                    aside = next(name for i in range(10**6) if not (name := _suffixed(folder, f"damaged-{i}")).exists())
                    folder.rename(aside)
                    print(
                        f"nzc: {folder} was damaged ({error}): set aside as {aside.name}, made again", file=sys.stderr
                    )
            work = _work(folder)
            _write(folder, request, make(work))
            shutil.rmtree(work)
            return _read(folder)

    def help(self, kind: str, request: dict[str, Any], make: Callable[[Path], None]) -> None:
        """On another node than the maker's: `make` a part in the folder of the maker, who holds the lock and waits."""
        folder = self._folder(kind, request)
        if not folder.is_dir():
            make(_work(folder))

    def _folder(self, kind: str, request: dict[str, Any]) -> Path:
        folder = self.root / kind / _key(request)
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        return folder

    def entries(self) -> list[Entry]:
        """What is stored, the oldest first."""
        found = []
        for folder in self.root.glob("*/*/"):
            try:
                sizes = [path.stat() for path in folder.iterdir()]
                made = folder.stat().st_mtime
            except FileNotFoundError:  # renamed or removed meanwhile
                continue
            try:
                request = json.loads((folder / _REQUEST).read_text())
            except (OSError, ValueError):
                request = {}
            found.append(
                Entry(folder, request if isinstance(request, dict) else {}, sum(s.st_size for s in sizes), made)
            )
        return sorted(found, key=lambda entry: (entry.made, entry.folder))

    def remove(self, entry: Entry) -> None:
        """Remove an entry, once nobody makes or reads it. Its lock file stays: somebody may be waiting for it."""
        with _lock(entry.folder):
            shutil.rmtree(entry.folder, ignore_errors=True)


def _key(request: Any) -> str:
    return sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()[:20]


def _suffixed(folder: Path, suffix: str) -> Path:
    return folder.with_name(f"{folder.name}.{suffix}")


def _work(folder: Path) -> Path:
    work = _suffixed(folder, "work")
    work.mkdir(mode=0o700, exist_ok=True)
    return work


def _lock(folder: Path) -> FileLock:
    """One an entry, whatever its state."""
    return FileLock(folder.with_name(f"{folder.name.partition('.')[0]}.lock"), mode=0o600)


def _write(folder: Path, request: dict[str, Any], arrays: dict[str, AnyArray]) -> None:
    """Under the entry's lock, so that what a killed writer left is nobody's."""
    partial = _suffixed(folder, "partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(mode=0o700)
    try:
        about = {}
        for name, array in arrays.items():
            with private(partial / f"{name}.npy") as file:
                np.save(file, _compact(array), allow_pickle=False)
            about[name] = {"dtype": array.dtype.str, "sha256": _digest(partial / f"{name}.npy")}
        for name, told in ((_REQUEST, request), (_ARRAYS, about)):
            with private(partial / name) as file:
                file.write(json.dumps(told, indent=1, sort_keys=True).encode())
        partial.rename(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _read(folder: Path) -> dict[str, AnyArray]:
    """The arrays; ValueError and its like where they are not what was written."""
    arrays, told = {}, json.loads((folder / _ARRAYS).read_text())
    if _key(json.loads((folder / _REQUEST).read_text())) != folder.name:
        raise ValueError(f"{_REQUEST} is not what was written")
    if told.keys() != {path.stem for path in folder.glob("*.npy")}:
        raise ValueError(f"{_ARRAYS} is not what was written")
    for name, about in told.items():
        path = folder / f"{name}.npy"
        if _digest(path) != about["sha256"]:
            raise ValueError(f"{path.name} is not what was written")
        array = np.load(path, allow_pickle=False)
        arrays[name] = array.astype(about["dtype"], copy=False)
        if _compact(arrays[name]).dtype != array.dtype:
            raise ValueError(f"{path.name} is of another type than was written")
    return arrays


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _compact(array: AnyArray) -> AnyArray:
    """Whole numbers in the smallest type that holds them: classes up to 256 take a byte each."""
    if array.dtype.kind not in "iu" or array.size == 0:
        return array
    low, high = int(array.min()), int(array.max())
    return array.astype(np.min_scalar_type(high if low >= 0 else min(low, -high - 1)), copy=False)


def age(entry: Entry) -> float:
    """Days since the entry was made."""
    return max(0.0, time.time() - entry.made) / 86400


def code_digest(files: Iterable[Path]) -> str:
    """A fingerprint of what Python files do: unmoved by comments and layout."""
    return sha256("".join(ast.dump(ast.parse(path.read_text())) for path in files).encode()).hexdigest()[:16]


def save(path: Path, array: AnyArray) -> None:
    """An .npy file that appears whole or not at all, and behind the array, where numpy does not look, its digest."""
    file = BytesIO()
    np.save(file, array, allow_pickle=False)
    written(path, file.getvalue() + sha256(file.getvalue()).digest())


def sift(work: Path) -> None:
    """Of what `save` left in a folder, remove what is no longer as it was."""
    for path in work.glob("*.npy"):
        data = path.read_bytes()
        if sha256(data[:-32]).digest() != data[-32:]:
            path.unlink()
            print(f"nzc: {path} was damaged: removed, made again", file=sys.stderr)
