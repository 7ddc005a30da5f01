"""Read .npy and .npz files. A message says what is wrong with a file, and never quotes its content."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from nzc.data.rows import FileRows
from nzc.types import AnyArray
from nzc.validation import InputError

_NPY = "an .npy file (np.save)"
_NPZ = "an .npz archive (np.savez; dataset=table reads CSV, Parquet and Arrow files)"


def load_array(path: str, key: str, name: str = "it", lazily: bool = False) -> AnyArray:
    """Return the array of an .npy file, `lazily` as a memory map; InputError names `key` and `name`."""
    with _reading(path, key, name, _NPY):
        array: AnyArray = np.load(path, mmap_mode="r" if lazily else None, allow_pickle=False)
        if not isinstance(array, np.ndarray):
            array.close()
            raise TypeError("an .npz archive")
    return array


def load_arrays(path: str, names: Sequence[str]) -> dict[str, Any]:
    """Return those arrays of an .npz file, or of the .npy files in a folder, that have these names.

    x of a folder stays in its file: FileRows.
    """
    arrays: dict[str, Any] = {}
    if not os.path.isdir(path):
        with _reading(path, "path", "it", _NPZ), open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            for name in (name for name in names if name in archive):
                with _reading(path, "path", name, _NPZ):
                    arrays[name] = archive[name]
        return arrays
    files = {name: str(own) for name in names if os.path.lexists(own := Path(path, f"{name}.npy"))}
    arrays = {name: load_array(file, "path", name, name == "x") for name, file in files.items()}
    if "x" in arrays and arrays["x"].ndim:
        arrays["x"] = FileRows(open(files["x"], "rb"), arrays["x"])  # noqa: SIM115 - the rows keep it
    return arrays


@contextmanager
def _reading(path: str, key: str, name: str, kind: str) -> Iterator[None]:
    """Turn what NumPy raises while it reads the array `name`, and may quote the file, into an InputError."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # NumPy, zipfile and their decoders raise many types
        why = (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
        allowed = f"must be {kind}, whole, of numbers or text: {name} cannot be read ({why})"
        raise InputError(key, path, allowed) from None
