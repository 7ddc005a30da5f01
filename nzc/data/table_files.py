"""Read CSV, Parquet and Arrow files in chunks of rows."""

from collections.abc import Iterator
from hashlib import file_digest
from pathlib import Path
from typing import Any
from warnings import catch_warnings

import pandas as pd

from nzc.validation import InputError, in_a_line

#: Rows that are in memory at a time.
CHUNK = 100_000
_CSV = {".csv": ",", ".tsv": "\t", ".txt": ","}
_ARROW = (".arrow", ".feather", ".ipc")


def read_chunks(key: str, path: str) -> Iterator[pd.DataFrame]:
    """Yield the rows of a file, at most CHUNK at a time; at least one chunk, which may be empty.

    The cells of a CSV file are text; pandas takes an empty cell, NA, NaN, null and the like as missing. InputError: the
    file cannot be read; it names no cell.
    """
    try:
        chunks = _chunks(Path(path))
        while True:
            with catch_warnings(action="error", category=pd.errors.ParserWarning):  # rows longer than the header
                if (chunk := next(chunks, None)) is None:
                    return
            chunk.columns = chunk.columns.astype(str).str.strip()
            yield chunk
    except Exception as error:  # pandas and pyarrow raise many types
        why = error.strerror if isinstance(error, OSError) and error.strerror else _without_cells(error)
        raise InputError(key, path, f"must be a readable CSV, Parquet or Arrow file ({why})") from error


def digest_of(path: str) -> str:
    """Return the SHA-256 of a file."""
    with open(path, "rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _chunks(path: Path) -> Iterator[pd.DataFrame]:
    ending = next((each for each in reversed(path.suffixes) if each not in (".gz", ".bz2", ".xz", ".zst")), "").lower()
    if ending in _CSV:
        settings: dict[str, Any] = {"sep": _CSV[ending], "dtype": str, "skipinitialspace": True}
        yield from pd.read_csv(path, **settings, chunksize=CHUNK, encoding="utf-8-sig", index_col=False)
    elif ending in (".parquet", ".pq"):
        from pyarrow.parquet import ParquetFile

        file = ParquetFile(path)
        yield from (
            (batch.to_pandas() for batch in file.iter_batches(CHUNK))
            if file.metadata.num_rows
            else [file.schema_arrow.empty_table().to_pandas()]
        )
    elif ending in _ARROW:
        from pyarrow import Table, memory_map
        from pyarrow.ipc import open_file

        with memory_map(str(path)) as mapped, open_file(mapped) as file:
            table = Table.from_batches([file.get_batch(at) for at in range(file.num_record_batches)], file.schema)
            yield from (table.slice(at, CHUNK).to_pandas() for at in range(0, max(1, len(table)), CHUNK))
    else:
        raise ValueError(f"its name must end in {', '.join((*_CSV, '.parquet', *_ARROW))}")


def _without_cells(error: Exception) -> str:
    """Return the message without what it may quote of the file."""
    if isinstance(error, pd.errors.ParserWarning):
        return "a row has more cells than the header"
    if isinstance(error, UnicodeError):
        return "it is no UTF-8 text"
    return in_a_line(str(error).split(": ", 1)[0] if "'" in str(error) else error, 120) or type(error).__name__
