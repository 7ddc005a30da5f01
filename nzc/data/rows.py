"""Arrays from files, and private rows that are read where a teacher needs them, never all at once.

A message says what is wrong with a file, and never quotes its content.
"""

import mmap
import os
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from multiprocessing import reduction
from typing import IO, Any

import numpy as np

from nzc.types import AnyArray, Ints, Shape
from nzc.validation import InputError, Tree

#: The most bytes of a block of rows. It has a multiple of _EVEN rows, if so many fit: a network
#: rounds a batch of a few rows differently.
_BLOCK = 2**26
_EVEN = 1000
_HELD = 2**30  # bytes that `gather` keeps in memory


class FileRows:
    """Rows [rows, ...] of an array `stored`, memory-mapped from `file`, each prepared by itself.

    They are given by number: rows[numbers] and rows[start:stop] are arrays.

    numbers  rows of the array; None: all of them
    """

    def __init__(
        self,
        file: IO[bytes],
        stored: "np.memmap[Any, Any]",
        numbers: Ints | None = None,
        prepare: Callable[[AnyArray], AnyArray] = np.asarray,
    ) -> None:
        self.file = file
        self.stored = stored
        if numbers is None:
            numbers = np.arange(len(stored))
        self._numbers = numbers
        self._prepare = prepare
        weakref.finalize(stored, file.close)
        no_rows = prepare(np.empty((0, *stored.shape[1:]), stored.dtype))
        self.shape: Shape = (len(self._numbers), *no_rows.shape[1:])
        self.dtype = no_rows.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, numbers: Ints | slice) -> AnyArray:
        rows: AnyArray = np.array(self.stored[self._numbers[numbers]])
        # The system caches what fits.
        self.stored.base.madvise(mmap.MADV_DONTNEED)  # type: ignore[union-attr]
        return self._prepare(rows)

    def __reduce__(self) -> tuple[Any, ...]:
        """Let a process that Lightning starts read the same file, which may have no name."""
        order = "C" if self.stored.flags.c_contiguous else "F"
        array = (self.stored.dtype, "r", self.stored.offset, self.stored.shape, order)
        return _received, (reduction.DupFd(self.file.fileno()), array, self._numbers, self._prepare)


def blocks(x: AnyArray | FileRows) -> Iterator[AnyArray]:
    """Yield all rows in order; an array is one block."""
    if isinstance(x, np.ndarray):
        yield x
        return
    size = max(1, _BLOCK // (x.dtype.itemsize * prod(x.shape[1:])))
    size -= size % min(_EVEN, size)
    for first in range(0, len(x), size):
        yield x[first : first + size]


def _received(handle: Any, array: tuple[Any, ...], *rest: Any) -> FileRows:
    file = open(handle.detach(), "rb")  # noqa: SIM115 - the rows keep it
    return FileRows(file, np.memmap(file, *array), *rest)


def gather(parts: Iterable[AnyArray], held: int = _HELD) -> AnyArray | FileRows:
    """Return all rows of the parts, one at least, each [rows, ...] of one type and shape of rows.

    More than `held` bytes of rows lie in a temporary file without a name, which the system removes
    at the end.
    """
    in_memory: list[AnyArray] = []
    file: IO[bytes] | None = None
    rows = 0
    size = 0
    for part in map(np.ascontiguousarray, parts):
        in_memory.append(part)
        rows += len(part)
        size += part.nbytes
        if size > held:
            file = file or tempfile.TemporaryFile()  # noqa: SIM115 - the rows keep it
            file.writelines(part.data for part in in_memory)
            in_memory = [part[:0]]
    if file is None:
        return np.concatenate(in_memory)
    file.flush()
    last = in_memory[0]
    return FileRows(file, np.memmap(file, last.dtype, "r", 0, (rows, *last.shape[1:])))


def load_array(path: str, key: str, name: str = "it", lazily: bool = False) -> AnyArray:
    """Return the array of an .npy file, `lazily` as a memory map.

    InputError: `key` and `name` cannot be read.
    """
    with _reading(path, key, name):
        array: AnyArray = np.load(path, mmap_mode="r" if lazily else None, allow_pickle=False)
        if not isinstance(array, np.ndarray):
            array.close()
            raise TypeError("an .npz archive")
    return array


def load_arrays(path: str, names: Sequence[str]) -> Tree:
    """Return those arrays of an .npz file, or of a folder of .npy files, that have these names.

    x of a folder stays in its file: FileRows.
    """
    arrays: Tree = {}
    if os.path.isdir(path):
        for name in names:
            file = os.path.join(path, f"{name}.npy")
            if os.path.lexists(file):  # a link to nowhere is an error, and no absent array
                arrays[name] = load_array(file, "path", name, lazily=name == "x")
                if name == "x" and arrays["x"].ndim:
                    opened = open(file, "rb")  # noqa: SIM115 - the rows keep it
                    arrays["x"] = FileRows(opened, arrays["x"])
        return arrays
    with (
        _reading(path, "path", "it"),
        open(path, "rb") as packed,
        np.load(packed, allow_pickle=False) as archive,
    ):
        for name in filter(archive.files.__contains__, names):
            with _reading(path, "path", name):
                arrays[name] = archive[name]
    return arrays


@contextmanager
def _reading(path: str, key: str, name: str) -> Iterator[None]:
    """Turn what NumPy raises, and may quote the file `path`, into an InputError."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # NumPy, zipfile and their decoders raise many types
        why = getattr(error, "strerror", None) or type(error).__name__
        raise InputError(
            key,
            path,
            "must be an .npy or an .npz file, whole, of numbers or text "
            f"(dataset=table reads CSV, Parquet and Arrow files): {name} cannot be read ({why})",
        ) from None
