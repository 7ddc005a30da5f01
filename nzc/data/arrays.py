"""Read .npy and .npz files. A message says what a file is instead, and never quotes its content."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from nzc.data.rows import FileRows
from nzc.types import AnyArray
from nzc.validation import InputError, reason

_NPY, _NPZ = "an .npy file (one array: np.save)", "an .npz archive (named arrays: np.savez)"
#: What a file is, by its first bytes.
_KINDS = {b"\x93NUMPY": _NPY, b"PK": _NPZ, b"\x80": "a pickle, which could run code", b"PAR1": "a Parquet file"}


def load_array(path: str, key: str, name: str = "it", lazily: bool = False) -> AnyArray:
    """Return the array of an .npy file, `lazily` as a memory map; InputError names `key` and `name`."""
    _require(_NPY, path, key)
    with _reading(path, key, name):
        array: AnyArray = np.load(path, mmap_mode="r" if lazily else None, allow_pickle=False)
    return array


def load_arrays(path: str, key: str, required: tuple[str, ...], optional: tuple[str, ...]) -> dict[str, AnyArray]:
    """Return the arrays of an .npz file that have these names; InputError names `key`."""
    _require(_NPZ, path, key)
    arrays: dict[str, AnyArray] = {}
    with open(path, "rb") as file:  # NumPy leaves a damaged file open
        with _reading(path, key, "it"):
            archive = np.load(file, allow_pickle=False)
        if absent := " and ".join(name for name in required if name not in archive):
            allowed = f"must hold the arrays {' and '.join(required)}; of its {len(archive)} arrays, none is {absent}"
            raise InputError(key, path, allowed)
        for name in (name for name in (*required, *optional) if name in archive):
            with _reading(path, key, name):
                arrays[name] = archive[name]
    return arrays


def read_folder(path: str, key: str, required: tuple[str, ...], optional: tuple[str, ...]) -> dict[str, Any]:
    """Return the arrays of the .npy files of these names in a folder; the first, x, stays in its file: FileRows."""
    files = {name: str(Path(path, f"{name}.npy")) for name in (*required, *optional)}
    if absent := [f"{name}.npy" for name in required if not os.path.lexists(files[name])]:
        raise InputError(key, path, f"must be an .npz file, or a folder with {' and '.join(absent)}")
    present = [name for name in files if os.path.lexists(files[name])]
    arrays: dict[str, Any] = {name: load_array(files[name], key, name, name == required[0]) for name in present}
    if (first := arrays[required[0]]).ndim:
        file = open(files[required[0]], "rb")  # noqa: SIM115 - the rows keep it
        arrays[required[0]] = FileRows(file, first)
    return arrays


def _require(kind: str, path: str, key: str) -> None:
    """Raise InputError unless a file begins as one of this kind."""
    try:
        with open(path, "rb") as file:
            start = file.read(512)
    except (OSError, ValueError) as error:
        raise InputError(key, path, f"must be a file that can be read ({reason(error)})") from None
    usual = "an empty file" if not start else "a file of another kind" if b"\0" in start else "a text file"
    is_kind = next((kind for begin, kind in _KINDS.items() if start.startswith(begin)), usual)
    if is_kind != kind:
        table = kind == _NPZ and is_kind in ("a text file", "a Parquet file")
        remedy = "; dataset=table reads CSV, Parquet and Arrow files" if table else ""
        raise InputError(key, path, f"must be {kind}, not {is_kind}{remedy}")


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
