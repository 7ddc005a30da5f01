"""Private rows that are read, or drawn, where a teacher needs them: they never lie in memory all at once."""

import mmap
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from math import prod
from multiprocessing import reduction
from typing import IO, Any

import numpy as np

from nzc.types import AnyArray, Ints

#: Rows are read in blocks of so many bytes where all of them are needed, one block after the other.
_BLOCK = 2**26
#: A block has a multiple of so many rows, where that many fit: a network rounds a batch of a few rows differently.
_EVEN = 1000
#: `gather` keeps so many bytes in memory.
_HELD = 2**30


class LazyRows(ABC):
    """Rows [rows, ...] that are given by number: rows[numbers] and rows[start:stop] are arrays.

    shape     as of an array; dtype likewise
    identity  what identifies all rows, where they need not be read for it; None: their bytes do
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    identity: bytes | None = None

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
    """Rows of an array that lies in a file.

    stored   the whole array, memory-mapped from `file`
    numbers  which of its rows these are; None: all
    prepare  turns stored rows [rows, ...] into rows, each by itself; None: they stay as they are
    """

    def __init__(
        self,
        file: IO[bytes],
        stored: "np.memmap[Any, Any]",
        numbers: Ints | None = None,
        prepare: Callable[[AnyArray], AnyArray] | None = None,
    ) -> None:
        self._file, self._stored, self._numbers, self._prepare = file, stored, numbers, prepare
        weakref.finalize(stored, file.close)
        none = self._prepared(np.empty((0, *stored.shape[1:]), stored.dtype))
        self.shape = (len(stored) if numbers is None else len(numbers), *none.shape[1:])
        self.dtype = none.dtype

    def read(self, numbers: Ints) -> AnyArray:
        rows: AnyArray = np.array(self._stored[numbers if self._numbers is None else self._numbers[numbers]])
        # What was read need not stay: the system caches what there is room for.
        self._stored.base.madvise(mmap.MADV_DONTNEED)  # type: ignore[union-attr]
        return self._prepared(rows)

    def of(self, numbers: Ints, prepare: Callable[[AnyArray], AnyArray]) -> "FileRows":
        """Return some of the rows as stored, prepared in their own way."""
        return FileRows(self._file, self._stored, numbers, prepare)

    def _prepared(self, rows: AnyArray) -> AnyArray:
        return rows if self._prepare is None else self._prepare(rows)

    def __reduce__(self) -> tuple[Any, ...]:
        """Let a process that Lightning starts read the same file, which may have no name any more."""
        stored = self._stored
        order = "C" if stored.flags.c_contiguous else "F"
        array = (stored.dtype, "r", stored.offset, stored.shape, order)
        return _received, (reduction.DupFd(self._file.fileno()), array, self._numbers, self._prepare)


def _received(handle: Any, array: tuple[Any, ...], *of: Any) -> FileRows:
    file = open(handle.detach(), "rb")  # noqa: SIM115 - the rows keep it
    return FileRows(file, np.memmap(file, *array), *of)


def gather(parts: Iterable[AnyArray], held: int = _HELD) -> AnyArray | FileRows:
    """Return all rows of the parts, each [rows, ...] of one type and shape of rows; there is one part at least.

    More than `held` bytes of rows lie in a temporary file without a name, which the system removes at the end.
    """
    kept, file, rows = bytearray(), None, 0  # a bytearray grows without a second copy of it
    for part in parts:
        rows, like, data = rows + len(part), part[:0], np.ascontiguousarray(part).reshape(-1).view(np.uint8).data
        if file is None and len(kept) + len(data) <= held:
            kept += data
            continue
        if file is None:
            file = tempfile.TemporaryFile()  # noqa: SIM115 - the rows keep it
            file.write(kept)
            kept = bytearray()
        file.write(data)
    shape = (rows, *like.shape[1:])
    if file is None:
        return np.frombuffer(kept, like.dtype).reshape(shape)
    file.flush()
    return FileRows(file, np.memmap(file, like.dtype, "r", 0, shape))
