"""Read .npy and .npz files. A message says what a file is instead, and never quotes its content."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from nzc.data.files import Unchanged, require_file
from nzc.data.rows import FileRows
from nzc.types import AnyArray
from nzc.validation import InputError, reason

_NPY, _NPZ = "an .npy file (one array: np.save)", "an .npz archive (named arrays: np.savez)"
#: What a file is, by its first bytes.
_KINDS = {
    b"\x93NUMPY": _NPY,
    b"PK": _NPZ,
    b"\x80": "a pickle, which could run code",
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow file",
    b"\x89HDF": "an HDF5 file",
    b"MATLAB": "a MATLAB file",
    b"\x1f\x8b": "a gzip file",
}
#: What dataset=table reads.
_TABLES = ("a text file", "a Parquet file", "an Arrow file")


def load_array(path: str, key: str) -> AnyArray:
    """Return the array of an .npy file; InputError names `key`."""
    with _opened(path, key, _NPY) as file, _reading(path, key, "it"):
        array: AnyArray = np.load(file, allow_pickle=False)
    return array


def load_arrays(path: str, key: str, required: tuple[str, ...], optional: tuple[str, ...]) -> dict[str, AnyArray]:
    """Return the arrays of an .npz file that have these names; InputError names `key`."""
    arrays: dict[str, AnyArray] = {}
    with _opened(path, key, _NPZ, "; dataset=table reads CSV, Parquet and Arrow files") as file:
        with _reading(path, key, "it"):
            archive = np.load(file, allow_pickle=False)
        if not set(required) <= set(archive):
            absent = " and ".join(name for name in required if name not in archive)
            allowed = f"must hold the arrays {' and '.join(required)}; of its {len(archive)} arrays, none is {absent}"
            raise InputError(key, path, allowed)
        for name in (each for each in (*required, *optional) if each in archive):
            with _reading(path, key, name):
                arrays[name] = np.asarray(archive[name])
    return arrays


def read_folder(path: str, key: str, required: tuple[str, ...], optional: tuple[str, ...]) -> dict[str, Any]:
    """Return the arrays of the .npy files of these names in a folder; the first, x, stays in its file: FileRows."""
    files = {name: str(Path(path, f"{name}.npy")) for name in (*required, *optional)}
    if absent := [f"{name}.npy" for name in required if not os.path.lexists(files[name])]:
        raise InputError(key, path, f"must be an .npz file, or a folder with {' and '.join(absent)}")
    first, *others = (name for name in files if os.path.lexists(files[name]))
    source = Unchanged.of(f"dataset.{key}", files[first])  # teachers read it too, and have keys of their own
    with _opened(files[first], key, _NPY) as file:
        with _reading(path, key, first):
            stored = np.load(files[first], mmap_mode="r", allow_pickle=False)
        source.check()
        rows = FileRows(os.fdopen(os.dup(file.fileno()), "rb"), stored, source=source) if stored.ndim else stored
    return {first: rows, **{name: load_array(files[name], key) for name in others}}


@contextmanager
def _opened(path: str, key: str, wanted: str, for_tables: str = "") -> Iterator[BinaryIO]:
    """Open a file; InputError, which ends in `for_tables` for a table, unless it begins as a file that is `wanted`."""
    require_file(key, path)
    try:
        file = open(path, "rb")  # noqa: SIM115
    except OSError as error:
        raise InputError(key, path, f"must be a file that can be read ({reason(error)})") from None
    with file:
        start = file.read(512)
        file.seek(0)
        usual = "a file of another kind" if b"\0" in start else "a text file"
        kind = next((kind for begin, kind in _KINDS.items() if start.startswith(begin)), usual)
        if kind != wanted:
            raise InputError(key, path, f"must be {wanted}, not {kind}{for_tables * (kind in _TABLES)}")
        yield file


@contextmanager
def _reading(path: str, key: str, name: str) -> Iterator[None]:
    """Turn what NumPy raises while it reads the array `name` into an InputError."""
    try:
        yield
    except Exception as error:  # NumPy, zipfile and their decoders raise many types
        allowed = f"must be whole; {name} is damaged or cut off ({reason(error)})"
        if any(said in str(error) for said in ("Object arrays", "objects in dtype")):  # NumPy has no type of its own
            types = "numbers or text, not Python objects: np.asarray(…, dtype=float), or dtype=int, or dtype=str"
            allowed = f"{name} is an object array; save {types}"
        raise InputError(key, path, allowed) from None  # NumPy quotes the file
