"""Read tables, and turn their records into features.

Students are published with this file: it needs NumPy and pandas only, and pyarrow for Parquet and
Arrow files.
"""

import csv
import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from numbers import Real
from pathlib import Path
from typing import Any
from warnings import catch_warnings

import numpy as np
import pandas as pd
from pandas._libs.parsers import STR_NA_VALUES
from pandas.io.common import get_handle

NUMBER, CATEGORY, DATE = "number", "category", "date"
#: The format of numbers with a decimal comma, such as 1.234,56.
COMMA = "comma"
#: The format of numbers that are times of a day or durations, in hours: 18:30, 18.30.00, 6:30 pm, 2
#: days 07:30:00.
TIME = "time"
#: How a number is written with a decimal point, and with a decimal comma: formats, with a currency
#: or unit at an end.
POINTED, COMMAED = "1,234.5", "1.234,5"
#: Standardised numbers are cut here, so that one absurd value does not outweigh all other features.
LIMIT = 10.0
_TEXT, _PARQUET, _ARROW = (
    (".csv", ".tsv", ".txt"),
    (".parquet", ".pq"),
    (".arrow", ".feather", ".ipc"),
)
_PACKED = (".gz", ".bz2", ".xz", ".zip")
#: The header of a CSV file is within so many lines.
_HEAD = 100
#: The line in which Excel states the separator.
_STATED = re.compile(r'\s*"?sep=([^\w\s\\"]|\t|)', re.IGNORECASE)
_TIME = re.compile(
    r"(?:(-?[0-9]+) days?,?(?: \+?|$))?"
    r"(?:([0-9]{1,3})[:.h]([0-5][0-9])(?:[:.]([0-5][0-9](?:[.,][0-9]+)?))?(?:\s?(?:([ap])\.?m\.?|uhr|h))?)?",
    re.IGNORECASE,
)
#: A date, and the time of a day behind it, if there is one.
_DATE_AND_TIME = re.compile(r"(.*?)(?:(?:T|,?\s+)([0-9]{1,2}[:.][0-9]{2}\b.*))?")
#: What is before the digits of a number, these with their marks, and what follows. `Rs.500` has no
#: decimal point.
_NUMBER = re.compile(r"([^0-9]*?)((?:(?<![^\W\d_])[.,])?[0-9](?:.*[0-9])?)([^0-9]*)")
_MINUS = dict.fromkeys(
    map(ord, "\u2212\u2012\u2013\ufe63\uff0d"), "-"
)  # the other signs that are read as a minus
_NO_CENTS = re.compile(r"(?<=[0-9])(?:[.,]-{1,2}|/-)(?=[^0-9]*$)")  # 12.-, 12,-- and 12/-
_MONEY = r"\w{0,3}[$\u00a2-\u00a5\u20a0-\u20cf]|[A-Z]{3}"
_ZERO = re.compile(
    rf"({_MONEY})\s*-+|-+\s*({_MONEY})"
)  # $ - and - EUR: a dash alone may be a missing value
_SIGNS = {"0": 1, "+0": 1, "-0": -1, "0-": -1, "(0)": -1}


def _digits(decimal: str, group: str) -> re.Pattern[str]:
    """Return the pattern of digits with this decimal mark: in groups of three, between equal marks,
    or in none.
    """
    groups = rf"[1-9][0-9]{{0,2}}([{group}\s'\u2019])[0-9]{{3}}(?:\1[0-9]{{3}})*"
    if group == ",":
        groups += r"|[1-9][0-9]?(?:,[0-9]{2})+,[0-9]{3}"  # India's 12,34,567
    fraction = f"[{decimal}][0-9]+"
    return re.compile(
        f"(?:{groups})(?:{fraction})?|(?:[0-9]+(?:{fraction})?|{fraction})(?:[eE][-+]?[0-9]+)?"
    )


_DIGITS = {".": _digits(".", ","), ",": _digits(",", ".")}


class ColumnError(ValueError):
    """A table does not have the columns or values that are needed. The message quotes no value."""


def read_table(
    path: str | Path, rows: int, columns: Collection[str] | None = None, **csv_settings: Any
) -> Iterator[pd.DataFrame]:
    """Yield the rows of a CSV, Parquet or Arrow file, at most `rows` at a time; once at least, also
    if there are none.

    columns       read only these; None: all
    csv_settings  of a CSV file: those of `_csv_chunks`

    ColumnError: two columns have one name, the encoding is another, or the file's name does not say
    what it is. Other errors are those of pandas and pyarrow.
    """
    path = Path(path)
    ending = next(
        (suffix for suffix in reversed(path.suffixes) if suffix not in _PACKED), ""
    ).lower()
    if ending in _TEXT:
        chunks = _csv_chunks(path, rows, columns, **csv_settings)
    elif ending in (*_PARQUET, *_ARROW):
        chunks = _arrow_chunks(path, rows, columns, "parquet" if ending in _PARQUET else "arrow")
    else:
        raise ColumnError(f"its name must end in {', '.join((*_TEXT, _PARQUET[0], *_ARROW))}")
    with catch_warnings(
        action="error", category=pd.errors.ParserWarning
    ):  # rows longer than the header
        for chunk in chunks:
            chunk.columns = [_column_name(name) for name in chunk.columns]
            yield chunk


def _csv_chunks(
    path: Path,
    rows: int,
    columns: Collection[str] | None,
    expected: Collection[str] = (),
    names: Collection[str | None] = (),
    encoding: str | None = None,
    skip: int = 0,
) -> Iterator[pd.DataFrame]:
    """Yield the rows of a CSV file, whose cells are text.

    expected  columns, one at least: they tell the separator, and the header from a comment
    names     columns whose cells are names: None, NA or null is one there. In the others it is
              missing, as in pandas
    encoding  of a file without a byte-order mark; None: UTF-8
    skip      lines before the header, beside empty lines, comments and Excel's `sep=`

    A last column without name and values is left out.
    """
    encoding = _encoding(path, encoding)
    try:
        with get_handle(path, "r", encoding=encoding, compression="infer") as opened:
            file = opened.handle
            lines = [file.readline() for _ in range(skip + _HEAD)]
            before, separator, cells = _header(lines[skip:], expected)
            header = [
                cell or f"Unnamed: {at}" for at, cell in enumerate(cells)
            ]  # as pandas names them
            _check_different(header)  # pandas would rename them
            while cells and not cells[-1]:
                cells.pop()
            nameless = header[len(cells) :]

            absent: dict[str | int, Any] = {len(header): ""}  # a separator may end the rows alone
            for name in header:
                absent[name] = "" if _column_name(name) in names else STR_NA_VALUES
            settings: dict[str, Any] = {
                "sep": separator,
                "dtype": str,
                "skipinitialspace": True,
                "index_col": False,
            }
            settings |= {"keep_default_na": False, "na_values": absent}
            if columns is not None:
                settings["usecols"] = lambda name: _column_name(name) in columns

            file.seek(0)
            for _ in range(skip + before):  # a quote in these lines would confuse pandas
                file.readline()
            for chunk in pd.read_csv(file, chunksize=rows, **settings):
                ends = chunk.columns.intersection(nameless)
                if chunk[ends].notna().any(axis=None):
                    raise ColumnError("its last column has values, but no name")
                yield chunk.drop(columns=ends)
    except UnicodeDecodeError as error:
        raise ColumnError(f"it is not in {encoding.upper()}: save it as UTF-8") from error


def _encoding(path: Path, given: str | None) -> str:
    """Return the encoding that a CSV file's byte-order mark says, or else the given one."""
    with get_handle(path, "rb", compression="infer", is_text=False) as opened:
        start = opened.handle.read(3)
    if start.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return "utf-16"
    if start == BOM_UTF8:
        return "utf-8-sig"
    if start == b"PK\3":
        raise ColumnError("it is an Excel file or another zip file: save it as CSV in UTF-8")
    if given is None and b"\0" in start:
        raise ColumnError("it looks like UTF-16 without a byte-order mark: save it as UTF-8")
    return given or "utf-8"


def _header(lines: Sequence[str], expected: Collection[str]) -> tuple[int, str, list[str]]:
    """Return of a CSV file's header the number of lines before it, the separator and the cells.

    The header alone decides, and no record: how a private file is read must not depend on one
    record.
    """
    separators = ",;\t|"
    for before, line in enumerate(lines):
        if stated := _STATED.match(line):
            separators = stated[1] + separators
            continue
        if not line.strip(' \t\r\n,;|"'):
            continue
        cells = {separator: _cells(lines[before:], separator) for separator in separators}
        shared = {
            separator: len({*map(_column_name, header)}.intersection(expected))
            for separator, header in cells.items()
        }
        best = max(separators, key=lambda separator: (shared[separator], len(cells[separator])))
        if shared[best] or not line.startswith("#"):
            return before, best, cells[best]
    raise ColumnError(f"it has no header in its first {_HEAD} lines")


def _cells(lines: Sequence[str], separator: str) -> list[str]:
    """Return the cells of the record that begins in the first line; quotes may hold separators and
    line breaks.
    """
    try:
        return next(csv.reader(lines, delimiter=separator, skipinitialspace=True))
    except csv.Error:  # a cell of 131,072 characters: this is not the separator
        return []


def _arrow_chunks(
    path: Path, rows: int, columns: Collection[str] | None, format: str
) -> Iterator[pd.DataFrame]:
    from pyarrow.dataset import dataset

    file = dataset(path, format=format)
    _check_different(file.schema.names)
    names = [name for name in file.schema.names if columns is None or _column_name(name) in columns]
    scanned = file.scanner(columns=names, batch_size=rows, batch_readahead=1)
    batches = scanned.to_batches() if file.count_rows() else [scanned.head(0)]
    yield from (
        batch.to_pandas(integer_object_nulls=True) for batch in batches
    )  # large numbers stay whole


def _column_name(name: object) -> str:
    """Return the name of a column without spaces around it, and with a space for a line break."""
    return re.sub(r"\s*[\r\n]\s*", " ", str(name).strip())


def _check_different(names: Sequence[str]) -> None:
    first: dict[str, int] = {}
    for at, name in enumerate(map(_column_name, names), 1):
        if (
            first.setdefault(name, at) < at
        ):  # the name may be a private value, where there is no header
            raise ColumnError(f"its columns {first[name]} and {at} have one name")


def is_utf8(path: str | Path) -> bool:
    """Return whether a file has other characters than ASCII, all of them in UTF-8, and no
    byte-order mark.
    """
    try:
        with get_handle(path, "r", encoding="utf-8", compression="infer") as opened:
            beyond = [line[0] for line in opened.handle if not line.isascii()]
    except UnicodeDecodeError:
        return False
    return bool(beyond) and beyond[0] != "\ufeff"


@dataclass(frozen=True)
class Column:
    """How one column becomes features; everything was measured on the public rows.

    A category has a feature for each value. A number is a feature, and so is each part of a date:
    standardised, and 0 where missing.
    """

    name: str
    kind: str  # number, category or date
    format: str | None = (
        None  # dates: as for strptime, None: ISO 8601; numbers: how 1234.5 is written, None: 1234.5
    )
    parts: Sequence[str] = ()  # number: itself; date: those of its parts that vary
    mean: Sequence[float] = ()  # [parts]
    spread: Sequence[float] = ()  # [parts], standard deviations
    values: Sequence[
        str | None
    ] = ()  # categories with a feature of their own. None stands for a missing value
    other: bool = False  # whether all other categories have a feature together
    missing: bool = False  # number, date: whether a feature says that the value is missing
    given: bool = False  # whether the user named the kind: the few values that it does not fit count as missing

    @property
    def features(self) -> list[str]:
        """The names of its features, such as `age`, `age missing`, `admitted month`, `ward=ICU`,
        `ward=other`.
        """
        if self.kind == CATEGORY:
            values = ["missing" if value is None else value for value in self.values] + [
                "other"
            ] * self.other
            return [f"{self.name}={value}" for value in values]
        return [
            f"{self.name} {part}".rstrip() for part in (*self.parts, *["missing"] * self.missing)
        ]

    def encode(self, values: pd.Series) -> np.ndarray[Any, Any]:
        """Return float32 [rows, features]. ColumnError: a value is no number, or no date."""
        if self.kind == CATEGORY:
            codes, names = different(values)
            known = pd.Index(self.values, dtype=object).get_indexer(names)[codes]
            one_hot = known[:, None] == np.arange(len(self.values))
            return np.asarray(
                np.column_stack([one_hot, known < 0]) if self.other else one_hot, np.float32
            )
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
    encoding: str | None = None  # of CSV files that are not UTF-8
    skip: int = 0  # lines before the header of CSV files

    @property
    def features(self) -> list[str]:
        """The names of all features, in order."""
        return [feature for column in self.columns for feature in column.features]

    def encode(self, table: pd.DataFrame) -> np.ndarray[Any, Any]:
        """Return float32 [rows, features]. ColumnError: a column is missing, or a value is no
        number or no date.
        """
        if absent := self.absent(table):
            raise ColumnError(f"the columns {', '.join(absent)} are missing")
        table = blanked(table, self.missing)
        return np.concatenate(
            [column.encode(table[column.name]) for column in self.columns], axis=1
        )

    def absent(self, table: pd.DataFrame) -> list[str]:
        """Return the columns that a table lacks."""
        return [column.name for column in self.columns if column.name not in table]

    def as_dict(self) -> dict[str, Any]:
        """Return it in JSON types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "TableEncoder":
        """Return the encoder of `as_dict`."""
        return cls(**{**record, "columns": [Column(**column) for column in record["columns"]]})


def texts(values: pd.Series) -> pd.Index:
    """Return values as text without spaces around it; None where missing. 1 and 1.0 are one text,
    true and True too.

    The text of a value is its own: no other value of the column decides it.
    """
    text = _stripped(values)
    for pattern, plain in (
        (r"^(-?\d+)\.0+$", r"\1"), (r"^-0$", "0"), (r"(?i)^true$", "True"), (r"(?i)^false$", "False"),
    ):  # fmt: skip
        text = text.str.replace(pattern, plain, regex=True)
    return _index(text)


def written(values: pd.Series) -> pd.Index:
    """Return values as they are written, without spaces around; None where missing. 1.000 may be a
    thousand.
    """
    return _index(_stripped(values))


def _stripped(values: pd.Series) -> pd.Series:
    return _plain(values).astype("string").str.strip()


def _index(text: pd.Series) -> pd.Index:
    return pd.Index(text.astype(object).where(text.notna() & (text != ""), None), dtype=object)


def _plain(values: pd.Series) -> pd.Series:
    """Return dates, durations and objects as text; values of other types as they are.

    pandas would choose one form for all values of a column: a fraction of a second in one cell is
    then in the text of all. Here midnight is a date, and a fraction ends with its last digit.
    """
    if isinstance(values.dtype, pd.CategoricalDtype):
        values = values.astype(object)
    if values.dtype.kind == "M":
        zone = "" if values.dt.tz is None else "+00:00"
        moments = _without_zone(values)
        text = [_moment(moment, zone) for moment in np.datetime_as_string(moments.to_numpy())]
    elif values.dtype.kind == "m" or values.dtype == object:
        text = [_object(value) for value in values.astype(object)]
    else:
        return values
    return pd.Series(text, values.index, dtype="str").mask(values.isna())


def _moment(text: str, zone: str) -> str:
    """Return an ISO moment without a fraction of 0 and, where there is no zone, without a time of
    0.
    """
    day, _, time = text.partition("T")
    if "." in time:
        time = time.rstrip("0").rstrip(".")
    return day if time in ("", "00:00:00") and not zone else f"{day} {time}{zone}"


def _object(value: Any) -> str:
    return (
        str(value).removesuffix(" 00:00:00")
        if isinstance(value, datetime | timedelta)
        else str(value)
    )


def _without_zone(moments: pd.Series) -> pd.Series:
    return moments if moments.dt.tz is None else moments.dt.tz_convert("UTC").dt.tz_localize(None)


def distinct(values: pd.Series) -> tuple[np.ndarray[Any, Any], pd.Series]:
    """Return for each value its number among those that differ, and these; objects are text."""
    if values.dtype == object or isinstance(values.dtype, pd.CategoricalDtype):
        values = _plain(
            values
        )  # pandas takes True and 1 as one object, and Decimal("1.0") and Decimal("1.00") too
    codes, unique = values.factorize(use_na_sentinel=False)
    return codes, pd.Series(unique)


def different(values: pd.Series) -> tuple[np.ndarray[Any, Any], pd.Index]:
    """Return for each value its number among the texts of all values that differ, and these texts."""
    codes, unique = distinct(values)
    return codes, texts(unique)


def blanked(table: pd.DataFrame, missing: Sequence[str]) -> pd.DataFrame:
    """Return the table without the values whose text is one of `missing`."""

    def known(values: pd.Series) -> pd.Series:
        codes, names = different(values)
        gone = names.isin(missing)[codes]
        if values.dtype.kind in "biu" and gone.any():
            values = values.astype(object)  # as floats, large whole numbers beside it would change
        return values.mask(gone, None)

    return table.apply(known) if missing else table


def measured(
    values: pd.Series, kind: str, format: str | None, given: bool = False
) -> dict[str, np.ndarray[Any, Any]]:
    """Return the parts of numbers or dates by name, each float64 [rows], NaN where missing.

    given  whether values that are no numbers or no dates count as missing, if they are one, or up
           to half of all

    ColumnError: it says how many values are no numbers or no dates. What a value is read as depends
    on it alone.
    """
    if kind == NUMBER and values.dtype == object:
        values = values.map(partial(_as_written, format=format))
    codes, unique = distinct(values)
    parts = parsed(unique, kind, format)
    strange = np.isnan(next(iter(parts.values())))
    strange[strange] = pd.notna(texts(unique[strange]))
    if (wrong := int(strange[codes].sum())) > given * max(1, len(values) / 2):
        raise ColumnError(
            f"column {values.name}: {wrong:,} of {len(values):,} values are no {plural(kind, format)}"
        )
    return {name: part[codes] for name, part in parts.items()}


def _as_written(value: Any, format: str | None) -> Any:
    """Return a number as the format writes it, so that 1.234 is none of 1,234; other values stay as
    they are.
    """
    if isinstance(value, bool):
        value = int(value)
    if format in (None, TIME) or not isinstance(value, Real | Decimal) or pd.isna(value):
        return value
    prefix, decimal, suffix = _marks(format)
    number = str(value).replace(".", decimal)
    return f"{prefix}{number}{suffix}"


def _marks(format: str) -> tuple[str, str, str]:
    """Return what is before 1234.5 in a format, the decimal mark, and what is behind."""
    form = COMMAED if format == COMMA else format
    return re.fullmatch(r"(.*)1.234(.)5(.*)", form).groups()  # type: ignore[union-attr, return-value]


def plural(kind: str, format: str | None) -> str:
    """Return what values of a kind and format are called, with an example."""
    if kind == DATE:
        return f"dates such as {format or '2024-12-31'}"
    if format == TIME:
        return "times such as 18:30"
    return f"numbers such as {COMMAED if format == COMMA else format or '1234.5'}"


def parsed(values: pd.Series, kind: str, format: str | None) -> dict[str, np.ndarray[Any, Any]]:
    """Return the parts of numbers or dates by name, each float64 [rows], NaN where a value is none."""
    if kind == DATE:
        return _dates(values, format)
    if values.dtype.kind in "biuf":
        numbers = values.to_numpy(np.float64, copy=True, na_value=np.nan)
    elif format is None:
        text = _plain(values)
        fraction = pd.Series(
            ["0.5"], dtype=text.dtype
        )  # pandas reads whole numbers otherwise if no other is beside
        numbers = np.array(pd.to_numeric(pd.concat([text, fraction]), errors="coerce"), np.float64)[
            :-1
        ]
    elif format == TIME:
        numbers = np.array([_hours(text) for text in written(values)], np.float64)
    else:
        numbers = _in_notation(written(values), format)
    numbers[~np.isfinite(numbers)] = np.nan
    return {"": numbers + 0.0}  # -0.0 becomes 0.0


def _hours(text: str | None) -> float:
    """Return the hours of a time of a day, or of a duration; NaN: it is none."""
    match = _TIME.fullmatch(text) if text else None
    if match is None:
        return np.nan
    days, hours, minutes, seconds, half = match.groups(default="")
    hour = float(hours or 0)
    if hour > 24 and ":" not in str(text):
        return np.nan  # 31.12.24
    if half:
        if not 1 <= hour <= 12:
            return np.nan
        hour = hour % 12 + 12 * (half in "pP")
    return (
        24 * float(days or 0)
        + hour
        + float(minutes or 0) / 60
        + float(seconds.replace(",", ".") or 0) / 3600
    )


def number_parts(text: str) -> tuple[int, str, str, str] | None:
    """Return sign, what is before it, digits with their marks, what is behind it: -$1,234.5 → (-1,
    $, 1,234.5, "").
    """
    text = text.translate(_MINUS)
    if zero := _ZERO.fullmatch(text):
        before, after = zero.groups(default="")
        text = f"{before}0{after}"
    match = _NUMBER.fullmatch(_NO_CENTS.sub("", text))
    if match is None:
        return None
    before, digits, after = match.groups()
    sign = _SIGNS.get(re.sub(r"[^-+()]", "", before) + "0" + re.sub(r"[^-+()]", "", after))
    if sign is None:
        return None
    return sign, re.sub(r"[-+()\s]", "", before), digits, re.sub(r"[-+()\s]", "", after)


def _in_notation(names: pd.Index, format: str) -> np.ndarray[Any, Any]:
    """Return numbers that are written as the format writes 1234.5, NaN where one is not."""
    prefix, decimal, suffix = _marks(format)
    numbers = np.full(len(names), np.nan)
    for place, text in enumerate(names):
        parts = None if text is None else number_parts(text)
        if (
            parts is None
            or (parts[1], parts[3]) != (prefix, suffix)
            or not _DIGITS[decimal].fullmatch(parts[2])
        ):
            continue
        plain = re.sub(rf"[^0-9eE+{decimal}-]", "", parts[2]).replace(decimal, ".")
        numbers[place] = parts[0] * float(plain)
    return numbers


def _dates(values: pd.Series, format: str | None) -> dict[str, np.ndarray[Any, Any]]:
    """Return days since 1970, month, weekday and hour, in UTC, each float64 [rows], NaN where a
    value is no date.
    """
    if values.dtype.kind == "M":
        when = _without_zone(values).dt.as_unit("s")
    else:
        when = _moments(pd.Series(written(values), dtype="str"), format)
    numbers = np.where(when.isna(), np.nan, when.astype("int64") / 86_400)
    named = {
        "day": numbers,
        "month": when.dt.month,
        "weekday": when.dt.day_of_week,
        "hour": when.dt.hour,
    }
    return {name: np.array(part, np.float64) for name, part in named.items()}


def _moments(text: pd.Series, format: str | None) -> pd.Series:
    """Return datetime64[s] [rows], NaT where a text is no date.

    pandas takes the finest resolution of all values, and at nanoseconds no date after 2262:
    fractions are cut before.
    """
    text = text.mask(text.str.lower().isin(["now", "today"]))  # for pandas the time of the clock
    seconds = np.zeros(len(text))
    if format is None:
        format = "ISO8601"
        text = text.str.replace(r"(:\d\d)[.,]\d+", r"\1", regex=True)
    elif re.search(r"%[HIMSfcXs]", format):
        text = text.str.replace(r"(\.\d{6})\d+", r"\1", regex=True)
    else:
        matches = [
            _DATE_AND_TIME.fullmatch(cell) if isinstance(cell, str) else None for cell in text
        ]
        text = pd.Series([match and match[1] for match in matches], dtype="str")
        seconds = 3600 * np.array(
            [_hours(match[2]) if match and match[2] else 0.0 for match in matches], np.float64
        )
        text = text.mask(~(seconds < 86_400))
        seconds = np.nan_to_num(seconds)
    when = (
        pd.to_datetime(text, format=format, errors="coerce", utc=True)
        .dt.tz_localize(None)
        .dt.as_unit("s")
    )
    return when + pd.Series(np.floor(seconds + 1e-6).astype("timedelta64[s]"))
