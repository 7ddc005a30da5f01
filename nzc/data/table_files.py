"""The user's files of tables: read in parts, digested, and their errors in one line."""

from collections.abc import Iterator

import pandas as pd

from nzc.data.files import no_file
from nzc.data.table_encoder import ColumnError, read_table
from nzc.validation import InputError

#: Rows that are in memory at a time.
CHUNK = 100_000


def read_chunks(key: str, path: str) -> Iterator[pd.DataFrame]:
    """Yield the rows of a file, at most CHUNK at a time; once at least. InputError: why, without a cell of it."""
    why = no_file(path)
    try:
        if why is None:
            yield from read_table(path, CHUNK)
    except Exception as error:  # pandas and pyarrow raise many types
        why = _why(error)
    if why is not None:
        raise InputError(key, path, f"must be a readable CSV, Parquet or Arrow file ({why})")


def _why(error: Exception) -> str:
    """Return what is wrong, in words that quote nothing of the file."""
    if isinstance(error, ColumnError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, pd.errors.ParserWarning | pd.errors.ParserError):
        return "a row has more cells than the header, or a quote does not end"
    if isinstance(error, pd.errors.EmptyDataError):
        return "it is empty"
    return "it is no UTF-8 text" if isinstance(error, UnicodeError) else type(error).__name__
