"""Standard output and standard error that cannot fail: what cannot be shown costs nothing but itself.

Reader gone, disk full, stream closed, characters that the terminal's encoding lacks: a run continues and is recorded.
"""

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO


class _Lost(Exception):
    """Standard output could not be written. Not an OSError, which may be of another file."""


class _Raw(io.FileIO):
    """A file that drops what it cannot write; `strict`: it raises _Lost."""

    strict = False

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if self.strict:
                raise _Lost from error
            return memoryview(data).nbytes


def make_harmless() -> None:
    """Replace both standard streams of this process by ones that cannot fail. A stream that is captured stays."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # closed: the next file that is opened, such as a database, would get what is printed
            os.open(os.devnull, os.O_RDWR)
    for number, name in ((1, "stdout"), (2, "stderr")):
        old: TextIO | None = getattr(sys, name)
        if old is not getattr(sys, f"__{name}__"):
            continue
        encoding = "utf-8" if old is None else old.encoding
        buffer = io.BufferedWriter(_Raw(number, "w", closefd=False))
        lines = name == "stderr" or os.isatty(number)
        new = io.TextIOWrapper(buffer, encoding, "backslashreplace", line_buffering=lines)
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)


@contextmanager
def required_output() -> Iterator[None]:
    """In this context standard output is what the command is for: RuntimeError where it cannot be written.

    A reader that has seen enough, as with `| head`, ends the context without an error.
    """
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if isinstance(raw, _Raw):
        raw.strict = True
    try:
        yield
        sys.stdout.flush()
    except _Lost as error:
        assert isinstance(error.__cause__, OSError)
        if error.__cause__.errno != errno.EPIPE:
            raise RuntimeError(f"standard output cannot be written ({error.__cause__.strerror})") from error
    finally:
        if isinstance(raw, _Raw):
            raw.strict = False
