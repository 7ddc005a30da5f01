"""Read tables, and turn their records into features.

Students are published with this file: it needs NumPy and pandas only, and pyarrow for Parquet and Arrow files.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from warnings import catch_warnings

import numpy as np
import pandas as pd
from pandas.io.common import get_handle

NUMBER, CATEGORY, DATE = "number", "category", "date"
#: The format of numbers with a decimal comma, such as 1.234,56.
COMMA = "comma"
#: Standardised numbers are cut here, so that one absurd value does not outweigh all other features.
LIMIT = 10.0
_TEXT, _PARQUET, _ARROW = (".csv", ".tsv", ".txt"), (".parquet", ".pq"), (".arrow", ".feather", ".ipc")
_PACKED = (".gz", ".bz2", ".xz", ".zip")


class ColumnError(ValueError):
    """A table does not have the columns or values that are needed. The message quotes no value."""


def read_table(path: str | Path, rows: int, columns: Collection[str] | None = None) -> Iterator[pd.DataFrame]:
    """Yield the rows of a CSV, Parquet or Arrow file, at most `rows` at a time; once at least, also if there are none.

    columns  read only these; None: all

    The cells of a CSV file are text; pandas takes an empty cell, NA, NaN, null and the like as missing. ColumnError:
    two columns have one name, or the file's name does not say what it is. Other errors are those of pandas and pyarrow.
    """
    with catch_warnings(action="error", category=pd.errors.ParserWarning):  # rows longer than the header
        for chunk in _chunks(Path(path), rows, columns):
            chunk.columns = chunk.columns.astype(str).str.strip()
            if not chunk.columns.is_unique:
                raise ColumnError("two columns have one name")  # which may be a value, where there is no header
            yield chunk


def _chunks(path: Path, rows: int, columns: Collection[str] | None) -> Iterator[pd.DataFrame]:
    def wanted(name: object) -> bool:
        return columns is None or str(name).strip() in columns

    ending = next((suffix for suffix in reversed(path.suffixes) if suffix not in _PACKED), "").lower()
    if ending in _TEXT:
        with get_handle(path, "r", encoding="utf-8-sig", compression="infer") as opened:
            separator = max(",;\t|", key=str(opened.handle.readline()).count)
        settings: dict[str, Any] = {"sep": separator, "dtype": str, "skipinitialspace": True, "index_col": False}
        settings |= {"encoding": "utf-8-sig", "usecols": None if columns is None else wanted}
        yield from pd.read_csv(path, chunksize=rows, **settings)
    elif ending in (*_PARQUET, *_ARROW):
        from pyarrow.dataset import dataset

        file = dataset(path, format="parquet" if ending in _PARQUET else "arrow")
        names = [name for name in file.schema.names if wanted(name)]
        scanned = file.scanner(columns=names, batch_size=rows, batch_readahead=1)
        batches = scanned.to_batches() if file.count_rows() else [scanned.head(0)]
        yield from (batch.to_pandas(integer_object_nulls=True) for batch in batches)  # large numbers stay whole
    else:
        raise ColumnError(f"its name must end in {', '.join((*_TEXT, _PARQUET[0], *_ARROW))}")


@dataclass(frozen=True)
class Column:
    """How one column becomes features; everything was measured on the public rows.

    A category has a feature for each value. A number is a feature, and so is each part of a date: standardised, and 0
    where missing.
    """

    name: str
    kind: str  # number, category or date
    format: str | None = None  # of dates, as for strptime, None: ISO 8601; of numbers, None: 1234.56, comma: 1.234,56
    parts: Sequence[str] = ()  # number: itself; date: those of its parts that vary
    mean: Sequence[float] = ()  # [parts]
    spread: Sequence[float] = ()  # [parts], standard deviations
    values: Sequence[str | None] = ()  # categories with a feature of their own. None stands for a missing value
    other: bool = False  # whether all other categories have a feature together
    missing: bool = False  # number, date: whether a feature says that the value is missing
    given: bool = False  # whether the user named the kind: the few values that it does not fit count as missing

    @property
    def features(self) -> list[str]:
        """The names of its features, such as `age`, `age missing`, `admitted month`, `ward=ICU`, `ward=other`."""
        if self.kind == CATEGORY:
            values = ["missing" if value is None else value for value in self.values] + ["other"] * self.other
            return [f"{self.name}={value}" for value in values]
        return [f"{self.name} {part}".rstrip() for part in (*self.parts, *["missing"] * self.missing)]

    def encode(self, values: pd.Series) -> np.ndarray[Any, Any]:
        """Return float32 [rows, features]. ColumnError: a value is no number, or no date."""
        if self.kind == CATEGORY:
            codes, names = different(values)
            known = pd.Index(self.values, dtype=object).get_indexer(names)[codes]
            one_hot = known[:, None] == np.arange(len(self.values))
            return np.asarray(np.column_stack([one_hot, known < 0]) if self.other else one_hot, np.float32)
        parts = measured(values, self.kind, self.format, self.given)
        numbers = np.column_stack([parts[part] for part in self.parts])
        with np.errstate(over="ignore"):
            scaled = np.clip((numbers - np.array(self.mean)) / np.array(self.spread), -LIMIT, LIMIT)
        unknown = [np.isnan(numbers[:, :1])] * self.missing
        return np.hstack([np.nan_to_num(scaled), *unknown]).astype(np.float32)


@dataclass(frozen=True)
class TableEncoder:
    """Encodes tables by what the public rows have (nzc.data.table_fit)."""

    columns: Sequence[Column]
    unused: Mapping[str, str]  # of every column without features, why
    missing: Sequence[str] = ()  # texts that stand for a missing value

    @property
    def features(self) -> list[str]:
        """The names of all features, in order."""
        return [feature for column in self.columns for feature in column.features]

    def encode(self, table: pd.DataFrame) -> np.ndarray[Any, Any]:
        """Return float32 [rows, features]. ColumnError: a column is missing, or a value is no number or no date."""
        if absent := self.absent(table):
            raise ColumnError(f"the columns {', '.join(absent)} are missing")
        table = blanked(table, self.missing)
        return np.concatenate([column.encode(table[column.name]) for column in self.columns], axis=1)

    def absent(self, table: pd.DataFrame) -> list[str]:
        """Return the columns that a table lacks."""
        return [column.name for column in self.columns if column.name not in table]

    def as_dict(self) -> dict[str, Any]:
        """Return it in JSON types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "TableEncoder":
        """Return the encoder of `as_dict`."""
        return cls([Column(**column) for column in record["columns"]], record["unused"], record["missing"])


def texts(values: pd.Series) -> pd.Index:
    """Return values as text without spaces around it; None where missing. 1 and 1.0 are one text, true and True too."""
    text = values.astype("string").str.strip()
    for pattern, plain in ((r"^(-?\d+)\.0+$", r"\1"), (r"(?i)^true$", "True"), (r"(?i)^false$", "False")):
        text = text.str.replace(pattern, plain, regex=True)
    return pd.Index(text.astype(object).where(text.notna() & (text != ""), None), dtype=object)


def different(values: pd.Series) -> tuple[np.ndarray[Any, Any], pd.Index]:
    """Return for each value its number among the texts of all values that differ, and these texts."""
    codes, unique = values.factorize(use_na_sentinel=False)
    return codes, texts(pd.Series(unique))


def blanked(table: pd.DataFrame, missing: Sequence[str]) -> pd.DataFrame:
    """Return the table without the values whose text is one of `missing`."""

    def known(values: pd.Series) -> pd.Series:
        codes, names = different(values)
        return values.mask(names.isin(missing)[codes])

    return table.apply(known) if missing else table


def measured(values: pd.Series, kind: str, format: str | None, given: bool = False) -> dict[str, np.ndarray[Any, Any]]:
    """Return the parts of numbers or dates by name, each float64 [rows], NaN where missing.

    given  whether values that are no numbers or no dates count as missing, if they are one, or up to half of all

    ColumnError: it says how many values are no numbers or no dates.
    """
    codes, unique = values.factorize(use_na_sentinel=False)
    plain = pd.Series(unique)
    if kind == NUMBER:
        plain = plain.astype("string") if values.dtype.kind in "mM" else plain  # dates are no numbers
        if format == COMMA:
            plain = plain.astype("string").str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
        numbers = np.array(pd.to_numeric(plain, errors="coerce").astype("Float64"), np.float64, copy=True)
        numbers[~np.isfinite(numbers)] = np.nan
        parts = {"": numbers}
    else:
        when = pd.to_datetime(plain, format=format or "ISO8601", errors="coerce", utc=True).dt.as_unit("s")
        numbers = np.where(when.isna(), np.nan, when.astype("int64") / 86_400)  # days since 1970
        named = {"day": numbers, "month": when.dt.month, "weekday": when.dt.day_of_week, "hour": when.dt.hour}
        parts = {name: np.array(part, np.float64) for name, part in named.items()}
    strange = np.isnan(numbers)
    strange[strange] = pd.notna(texts(pd.Series(unique)[strange]))
    if (wrong := int(strange[codes].sum())) > given * max(1, len(values) / 2):
        kinds = "numbers" if kind == NUMBER else f"dates such as {format or '2024-12-31'}"
        raise ColumnError(f"column {values.name}: {wrong:,} of {len(values):,} values are no {kinds}")
    return {name: part[codes] for name, part in parts.items()}
