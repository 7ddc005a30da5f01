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

#: The most bytes of a block of rows, which has a multiple of _EVEN rows, where that many fit: a network rounds a batch
#: of a few rows differently.
_BLOCK, _EVEN = 2**26, 1000
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
        self.file, self.stored, self._numbers, self._prepare = file, stored, numbers, prepare
        weakref.finalize(stored, file.close)
        none = self._prepared(np.empty((0, *stored.shape[1:]), stored.dtype))
        self.shape = (len(stored) if numbers is None else len(numbers), *none.shape[1:])
        self.dtype = none.dtype

    def read(self, numbers: Ints) -> AnyArray:
        rows: AnyArray = np.array(self.stored[numbers if self._numbers is None else self._numbers[numbers]])
        # What was read need not stay: the system caches what there is room for.
        self.stored.base.madvise(mmap.MADV_DONTNEED)  # type: ignore[union-attr]
        return self._prepared(rows)

    def _prepared(self, rows: AnyArray) -> AnyArray:
        return rows if self._prepare is None else self._prepare(rows)

    def __reduce__(self) -> tuple[Any, ...]:
        """Let a process that Lightning starts read the same file, which may have no name any more."""
        order = "C" if self.stored.flags.c_contiguous else "F"
        array = (self.stored.dtype, "r", self.stored.offset, self.stored.shape, order)
        return _received, (reduction.DupFd(self.file.fileno()), array, self._numbers, self._prepare)


def _received(handle: Any, array: tuple[Any, ...], *rest: Any) -> FileRows:
    file = open(handle.detach(), "rb")  # noqa: SIM115 - the rows keep it
    return FileRows(file, np.memmap(file, *array), *rest)


def gather(parts: Iterable[AnyArray], held: int = _HELD) -> AnyArray | FileRows:
    """Return all rows of the parts, each [rows, ...] of one type and shape of rows; there is one part at least.

    More than `held` bytes of rows lie in a temporary file without a name, which the system removes at the end.
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
