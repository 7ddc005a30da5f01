"""Arrays from files, and private rows that are read, or drawn, where a teacher needs them: never
all at once.

A message says what is wrong with a file, and never quotes its content.
"""

import mmap
import os
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from multiprocessing import reduction
from pathlib import Path
from typing import IO, Any

import numpy as np

from nzc.types import AnyArray, Ints
from nzc.validation import InputError

#: The most bytes of a block of rows. It has a multiple of _EVEN rows, if so many fit: a network
#: rounds a batch of a few rows differently.
_BLOCK, _EVEN = 2**26, 1000
_HELD = 2**30  # bytes that `gather` keeps in memory


class LazyRows(ABC):
    """Rows [rows, ...] that are given by number: rows[numbers] and rows[start:stop] are arrays."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    identity: bytes | None = (
        None  # of all rows, where they need not be read for it; None: their bytes
    )

    @abstractmethod
    def read(self, numbers: Ints) -> AnyArray:
        """Return the rows of these numbers, [numbers, ...]: a number always gives the same row."""

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Ints | slice) -> AnyArray:
        return self.read(np.arange(*rows.indices(len(self))) if isinstance(rows, slice) else rows)


def blocks(x: AnyArray | LazyRows) -> Iterator[AnyArray]:
    """Yield all rows in order; an array is one block."""
    if isinstance(x, np.ndarray):
        yield x
        return
    at_once = max(1, _BLOCK // (x.dtype.itemsize * prod(x.shape[1:])))
    at_once -= at_once % min(_EVEN, at_once)
    for first in range(0, len(x), at_once):
        yield x[first : first + at_once]


class FileRows(LazyRows):
    """Rows of an array `stored`, memory-mapped from `file`: those of `numbers` (None: all), each
    prepared by itself.
    """

    def __init__(
        self,
        file: IO[bytes],
        stored: "np.memmap[Any, Any]",
        numbers: Ints | None = None,
        prepare: Callable[[AnyArray], AnyArray] = np.asarray,
    ) -> None:
        self.file, self.stored, self._numbers, self._prepare = file, stored, numbers, prepare
        weakref.finalize(stored, file.close)
        none = prepare(np.empty((0, *stored.shape[1:]), stored.dtype))
        self.shape = (len(stored) if numbers is None else len(numbers), *none.shape[1:])
        self.dtype = none.dtype

    def read(self, numbers: Ints) -> AnyArray:
        rows: AnyArray = np.array(
            self.stored[numbers if self._numbers is None else self._numbers[numbers]]
        )
        self.stored.base.madvise(mmap.MADV_DONTNEED)  # type: ignore[union-attr] # the system caches what fits
        return self._prepare(rows)

    def __reduce__(self) -> tuple[Any, ...]:
        """Let a process that Lightning starts read the same file, which may have no name any more."""
        order = "C" if self.stored.flags.c_contiguous else "F"
        array = (self.stored.dtype, "r", self.stored.offset, self.stored.shape, order)
        return _received, (reduction.DupFd(self.file.fileno()), array, self._numbers, self._prepare)


def _received(handle: Any, array: tuple[Any, ...], *rest: Any) -> FileRows:
    file = open(handle.detach(), "rb")  # noqa: SIM115 - the rows keep it
    return FileRows(file, np.memmap(file, *array), *rest)


def gather(parts: Iterable[AnyArray], held: int = _HELD) -> AnyArray | FileRows:
    """Return all rows of the parts, each [rows, ...] of one type and shape of rows; there is one
    part at least.

    More than `held` bytes of rows lie in a temporary file without a name, which the system removes
    at the end.
    """
    kept: list[AnyArray] = []
    file: IO[bytes] | None = None
    rows = size = 0
    for part in map(np.ascontiguousarray, parts):
        kept.append(part)
        rows, size = rows + len(part), size + part.nbytes
        if size > held:
            file = file or tempfile.TemporaryFile()  # noqa: SIM115 - the rows keep it
            file.writelines(part.data for part in kept)
            kept = [part[:0]]
    if file is None:
        return np.concatenate(kept)
    file.flush()
    return FileRows(file, np.memmap(file, kept[0].dtype, "r", 0, (rows, *kept[0].shape[1:])))


def load_array(path: str, key: str, name: str = "it", lazily: bool = False) -> AnyArray:
    """Return the array of an .npy file, `lazily` as a memory map; InputError: `key` and `name`
    cannot be read.
    """
    with _reading(path, key, name):
        array: AnyArray = np.load(path, mmap_mode="r" if lazily else None, allow_pickle=False)
        if not isinstance(array, np.ndarray):
            array.close()
            raise TypeError("an .npz archive")
    return array


def load_arrays(path: str, names: Sequence[str]) -> dict[str, Any]:
    """Return those arrays of an .npz file, or of the .npy files in a folder, that have these names.

    x of a folder stays in its file: FileRows.
    """
    if os.path.isdir(path):
        files = {
            name: str(own) for name in names if os.path.lexists(own := Path(path, f"{name}.npy"))
        }
        arrays: dict[str, Any] = {
            name: load_array(file, "path", name, name == "x") for name, file in files.items()
        }
        if "x" in arrays and arrays["x"].ndim:
            arrays["x"] = FileRows(open(files["x"], "rb"), arrays["x"])  # noqa: SIM115 - the rows keep it
        return arrays
    arrays = {}
    with (
        _reading(path, "path", "it"),
        open(path, "rb") as file,
        np.load(file, allow_pickle=False) as archive,
    ):
        for name in (name for name in names if name in archive):
            with _reading(path, "path", name):
                arrays[name] = archive[name]
    return arrays


@contextmanager
def _reading(path: str, key: str, name: str) -> Iterator[None]:
    """Turn what NumPy raises while it reads the array `name`, and may quote the file, into an
    InputError.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # NumPy, zipfile and their decoders raise many types
        why = (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
        kinds = "an .npy or an .npz file, whole, of numbers or text (dataset=table reads CSV, Parquet and Arrow files)"
        raise InputError(key, path, f"must be {kinds}: {name} cannot be read ({why})") from None
