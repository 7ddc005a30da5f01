"""Read tables, and turn their records into features.

Students are published with this file: it needs NumPy and pandas only, and pyarrow for Parquet and
Arrow files.
"""

import csv
import re
from abc import ABC, abstractmethod
from base64 import b64decode
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import cache
from io import TextIOBase
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Self
from warnings import catch_warnings

import numpy as np
import pandas as pd

Array = np.ndarray[Any, Any]

#: Free text is taken as pieces of words, of so many characters: a word has a space at both ends.
PIECES = (2, 4)
#: How a number is written with a decimal point, and with a decimal comma: a currency or unit may
#: stand at an end of these formats.
POINTED = "1,234.5"
COMMAED = "1.234,5"
#: Standardised numbers are cut here, so that one absurd value does not outweigh all other features.
LIMIT = 10.0
_TEXT = (".csv", ".tsv", ".txt")
_ARROW = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
#: Texts that are missing values, as for pandas.
_MISSING = [
    *("", "<NA>", "N/A", "NA", "n/a", "NULL", "null", "None", "NaN", "nan", "-NaN", "-nan"),
    *("#N/A", "#N/A N/A", "#NA", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
]
csv.field_size_limit(2**31 - 1)  # a text may be longer than 131,072 characters
#: What separates the cells of a single column.
_NONE = "\x1f"
#: The header of a CSV file has at most so many lines.
_HEAD = 100
_TIME = re.compile(
    r"(?:(-?[0-9]+) days?,?(?: \+?|$))?"
    r"(?:([0-9]{1,3})[:.h]([0-5][0-9])(?:[:.]([0-5][0-9](?:[.,][0-9]+)?))?"
    r"(?:\s?(?:([ap])\.?m\.?|uhr|h))?)?",
    re.IGNORECASE,
)
#: A date, and the time of a day behind it, if there is one.
_DATE_AND_TIME = r"^(.*?)(?:(?:T|,?\s+)([0-9]{1,2}[:.][0-9]{2}\b.*))?$"
#: What is before the digits of a number, these with their marks, and what follows. `Rs.500` has no
#: decimal point.
_NUMBER = re.compile(r"([^0-9]*?)((?:(?<![^\W\d_])[.,])?[0-9](?:.*[0-9])?)([^0-9]*)")
#: The other signs that are read as a minus.
_MINUS = dict.fromkeys(map(ord, "\u2212\u2012\u2013\ufe63\uff0d"), "-")
#: Orders of the three parts of a date; a year of two digits comes last, or first between hyphens.
_ORDERS = (
    "%d{}%m{}%Y %m{}%d{}%Y %Y{}%m{}%d %d{}%m{}%y %m{}%d{}%y %d{}%b{}%Y %b{}%d{}%Y %Y{}%b{}%d "
    "%d{}%B{}%Y %B{}%d{}%Y %d{}%b{}%y %b{}%d{}%y"
)
_DATE = re.compile(r"(\w+)([-/.]\s?|,?\s)(\w+)([-/.]\s?|,?\s)(\d+)(?:(?:T|,?\s+)\d.*)?", re.ASCII)
_SAME_TEXT = (
    (r"^(-?\d+)\.0+$", r"\1"),
    (r"^-0$", "0"),
    (r"(?i)^true$", "True"),
    (r"(?i)^false$", "False"),
)
_SIGNS = {"0": 1, "+0": 1, "-0": -1, "0-": -1, "(0)": -1}


def _digits(decimal: str, group: str) -> re.Pattern[str]:
    """Return the pattern of digits with this decimal mark, in groups of three or in none."""
    groups = rf"[1-9][0-9]{{0,2}}([{group}\s'\u2019])[0-9]{{3}}(?:\1[0-9]{{3}})*"
    if group == ",":
        groups += r"|[1-9][0-9]?(?:,[0-9]{2})+,[0-9]{3}"  # India's 12,34,567
    fraction = f"[{decimal}][0-9]+"
    plain = f"(?:[0-9]+(?:{fraction})?|{fraction})(?:[eE][-+]?[0-9]+)?"
    return re.compile(f"(?:{groups})(?:{fraction})?|{plain}")


_DIGITS = {".": _digits(".", ","), ",": _digits(",", ".")}


class ColumnError(ValueError):
    """A table does not have the columns or values that are needed. The message quotes no value."""


def read_table(
    path: str | Path, rows: int, columns: Collection[str] | None = None, **csv_settings: Any
) -> Iterator[pd.DataFrame]:
    """Yield the rows of a CSV, Parquet or Arrow file, at most `rows` at a time, and once at least.

    columns       read only these; None: all
    csv_settings  of a CSV file: those of `_csv_chunks`

    ColumnError: two columns have one name, the encoding is another, or the file's name does not say
    what it is. Other errors are those of pandas and pyarrow.
    """
    path = Path(path)
    ending = path.suffix.lower()
    if ending in _ARROW:
        chunks = _arrow_chunks(path, rows, columns, _ARROW[ending])
    elif ending in _TEXT:
        chunks = _csv_chunks(path, rows, columns, **csv_settings)
    else:
        raise ColumnError(f"its name must end in {', '.join((*_TEXT, *_ARROW))}")
    with catch_warnings(action="error", category=pd.errors.ParserWarning):  # too many cells
        for chunk in chunks:
            chunk.columns = chunk.columns.map(_column_name)
            if chunk.columns.has_duplicates:  # their name may be a record's, without a header
                raise ColumnError("two columns have one name")
            yield chunk


def _csv_chunks(
    path: Path,
    rows: int,
    columns: Collection[str] | None,
    expected: Collection[str] = (),
    names: Collection[str | None] = (),
    encoding: str | None = None,
    skip: int = 0,
    quoting: str = "minimal",
) -> Iterator[pd.DataFrame]:
    """Yield the rows of a CSV file, whose cells are text.

    expected  columns, one at least: they tell the separator
    names     columns whose cells are names: None, NA or null is one there. In the others it is
              missing, as in pandas
    encoding  of a file without a byte-order mark; None: UTF-8
    skip      lines before the header
    quoting   minimal: cells may be in quotation marks; none: a quotation mark is part of its cell

    Columns without a name are left out.
    """
    encoding = _encoding(path, encoding)
    rule = csv.QUOTE_NONE if quoting == "none" else csv.QUOTE_MINIMAL
    try:
        with open(path, encoding=encoding, newline="") as opened:
            file: Any = opened
            start = list(islice(file, skip + _HEAD))
            separator, header = _header(start[skip:], expected, rule)
            file.seek(0)
            for _ in range(skip):  # a quote in these lines would confuse pandas
                file.readline()
            if rule == csv.QUOTE_MINIMAL:
                file = _Text(_checked(file, separator, len(header), skip))
            chosen = None  # with a choice of columns, pandas takes rows with too many cells
            if columns is not None:
                chosen = [name for name in header if _column_name(name) in columns]
            named = [name for name in header if _column_name(name) in names]
            chunks = pd.read_csv(
                file,
                chunksize=rows,
                sep=separator,
                quoting=rule,
                dtype=str,
                skipinitialspace=True,
                index_col=False,
                usecols=chosen,
                keep_default_na=False,
                na_values=dict.fromkeys(header, _MISSING) | dict.fromkeys(named, ""),
            )
            for chunk in chunks:  # separators may end the header
                yield chunk.loc[:, ~chunk.columns.str.startswith("Unnamed: ")]
    except UnicodeDecodeError as error:
        raise ColumnError(f"it is not in {encoding.upper()}: save it as UTF-8") from error


def _encoding(path: Path, given: str | None) -> str:
    """Return the encoding that a CSV file's byte-order mark says, or else the given one."""
    with open(path, "rb") as file:
        start = file.read(3)
    if start.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return "utf-16"
    if start == BOM_UTF8:
        return "utf-8-sig"
    if start == b"PK\3":
        raise ColumnError("it is an Excel file or another zip file: save it as CSV in UTF-8")
    return given or "utf-8"


class _Text(TextIOBase):
    """Lines as a file that pandas reads."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines

    def read(self, _: int | None = None) -> str:
        return "".join(islice(self._lines, 1000))


def _checked(file: Iterable[str], separator: str, cells: int, number: int) -> Iterator[str]:
    """Yield the lines of a file, from its header on. ColumnError: a quoted cell holds whole rows.

    A quotation mark that nothing ends takes all lines before the next one into its cell. This then
    has text behind its end, or its lines have as many separators as rows.

    cells   of a row
    number  of the last line before
    """
    lines: list[str] = []  # of a record

    def kept() -> Iterator[str]:
        for line in file:
            lines.append(line)
            yield line

    mark = re.escape(separator)
    in_sentences = separator in ",;"
    between = re.compile(rf"{mark}(?=\S)" if in_sentences else mark)
    least = 3 if in_sentences else 1

    def holds_rows(cell: str) -> bool:
        first, *others = re.split(r"\r\n?|\n", cell)
        if not others:
            return False
        first += "\n" + others.pop()  # of the row where it begins, and of that where it ends
        counts = [len(between.findall(line)) for line in (first, *others)]
        return {*counts} == {cells - 1} and sum(counts) >= least

    for _ in _records(kept(), separator):
        if len(lines) > 1:
            wrong = True
            with suppress(csv.Error):  # there is text behind the quoted cell, or it has no end
                wrong = any(map(holds_rows, next(_records(lines, separator, strict=True))))
            if wrong:
                raise ColumnError(
                    f"the quoted cell that begins in line {number + 1:,} holds whole rows; "
                    "if no cell is quoted, type dataset.quoting=none"
                )
        number += len(lines)
        yield from lines
        lines.clear()


def _records(lines: Iterable[str], separator: str, **settings: Any) -> Iterator[list[str]]:
    """Return the cells of each record in the lines of a file, as pandas divides them."""
    return csv.reader(lines, delimiter=separator, skipinitialspace=True, **settings)


def _header(lines: Sequence[str], expected: Collection[str], rule: Any) -> tuple[str, list[str]]:
    """Return separator and cells of a CSV file's header, the first of these lines.

    The header alone decides, and no record: how a private file is read must not depend on one
    record.
    """

    readings = {}
    for separator in ",;\t|":
        records = _records(lines, separator, quoting=rule)
        readings[separator] = next(filter(None, records), [])

    def likely(separator: str) -> tuple[int, int]:
        cells = readings[separator]
        return len({*map(_column_name, cells)}.intersection(expected)), len(cells)

    separator = max(readings, key=likely)
    cells = readings[separator]
    if len(cells) < 2:  # what else is in its rows is no separator
        separator = _NONE
    return separator, cells


def _arrow_chunks(
    path: Path, rows: int, columns: Collection[str] | None, format: str
) -> Iterator[pd.DataFrame]:
    from pyarrow.dataset import dataset

    file = dataset(path, format=format)
    names = file.schema.names
    if columns is not None:
        names = [name for name in names if _column_name(name) in columns]
    scanned = file.scanner(columns=names, batch_size=rows, batch_readahead=1)
    batches = scanned.to_batches()
    if not file.count_rows():
        batches = [scanned.head(0)]
    for batch in batches:
        yield batch.to_pandas(integer_object_nulls=True)  # large numbers stay whole


def _column_name(name: object) -> str:
    """Return the name of a column without spaces around it, and with a space for a line break."""
    return re.sub(r"\s*[\r\n]\s*", " ", str(name).strip())


def is_utf8(path: str | Path) -> bool:
    """Return whether a file is UTF-8, all of it, with other characters than ASCII."""
    try:
        with open(path, encoding="utf-8") as file:
            return any([not line.isascii() for line in file])
    except UnicodeDecodeError:
        return False


@dataclass(frozen=True)
class Column(ABC):
    """How one column becomes features; everything was measured on the public rows.

    The file of an encoder has these fields of all kinds of columns:

    format   of numbers and dates: how they are written
    parts    of a number: itself; of a date: those of its parts that vary; of text: axes
    mean     [parts]
    spread   [parts], standard deviations
    values   categories with a feature of their own; None stands for a missing value. Of text: the
             pieces of words that count
    weights  of text, base64 of little-endian float32 [values, 1 + parts]: of each piece its inverse
             document frequency, and its place on the axes
    other    whether all other categories have a feature together
    missing  whether a feature says that a number, date or text is missing
    given    whether the user named the kind: values that it does not fit count as missing
    """

    kind: ClassVar[str]
    name: str
    format: str | None = None
    parts: Sequence[str] = ()
    mean: Sequence[float] = ()
    spread: Sequence[float] = ()
    values: Sequence[str | None] = ()
    weights: str = ""
    other: bool = False
    missing: bool = False
    given: bool = False

    @property
    @abstractmethod
    def features(self) -> list[str]:
        """The names of its features: `age`, `age missing`, `admitted month`, `ward=ICU`."""

    @abstractmethod
    def encode(self, values: pd.Series) -> Array:
        """Return float32 [rows, features]. ColumnError: a value is no number, or no date."""

    def as_dict(self) -> dict[str, Any]:
        """Return it in JSON types."""
        return {"name": self.name, "kind": self.kind} | asdict(self)


class Category(Column):
    """A column with a feature for each of its values."""

    kind = "category"

    @property
    def features(self) -> list[str]:
        names = [f"{self.name}={value or 'missing'}" for value in self.values]
        if self.other:
            names.append(f"{self.name}=other")
        return names

    def encode(self, values: pd.Series) -> Array:
        places = pd.Index(self.values, dtype=object).get_indexer(texts(values))
        places[places < 0] = len(self.values)
        numbers = np.arange(len(self.values) + self.other)
        return (places[:, None] == numbers).astype(np.float32)


class Scaled(Column):
    """A column whose parts are standardised features, 0 where missing."""

    @property
    def features(self) -> list[str]:
        names = [f"{self.name} {part}".rstrip() for part in self.parts]
        if self.missing:
            names.append(f"{self.name} missing")
        return names

    def encode(self, values: pd.Series) -> Array:
        numbers = self.numbers(values)
        with np.errstate(over="ignore"):
            scaled = (numbers - np.array(self.mean)) / np.array(self.spread)
        features = [np.nan_to_num(scaled.clip(-LIMIT, LIMIT))]
        if self.missing:
            features.append(np.isnan(numbers[:, :1]))
        return np.hstack(features).astype(np.float32)

    @abstractmethod
    def numbers(self, values: pd.Series) -> Array:
        """Return its parts, float64 [rows, parts], NaN where missing. ColumnError: as `encode`."""


class Measured(Scaled):
    """A column of numbers or dates, written in one way; it has no parts yet while it is a guess."""

    PARTS: ClassVar[Sequence[str]] = ("",)
    FORMATS: ClassVar[Sequence[str | None]]
    EXAMPLE: ClassVar[str]

    @classmethod
    def guesses(cls, name: str, texts: pd.Series) -> list[Self]:
        """Return the ways in which texts of a column may be written."""
        return [cls(name, format) for format in cls.FORMATS]

    @property
    def typed(self) -> str:
        """The kind as a user types it."""
        return self.format or self.kind

    @property
    def plural(self) -> str:
        """What its values are called, with an example."""
        return f"{self.kind}s such as {self.format or self.EXAMPLE}"

    @abstractmethod
    def read(self, values: pd.Series) -> Array:
        """Return all PARTS of values, float64 [rows, PARTS], NaN where a value is none."""

    def measured(self, values: pd.Series, allowed: float = 0) -> Array:
        """Return all PARTS of values, float64 [rows, PARTS], NaN where missing.

        allowed  so many values that are no numbers or no dates count as missing

        ColumnError: it says how many there are, if they are more. What a value is read as depends
        on it alone.
        """
        parts = self.read(values)
        wrong = written(values[np.isnan(parts[:, 0])]).notna().sum()
        if wrong > allowed:
            raise ColumnError(self.complaint(wrong, len(values)))
        return parts

    def complaint(self, wrong: int, rows: int) -> str:
        """Return the words that so many values are none."""
        return f"column {self.name}: {wrong:,} of {rows:,} values are no {self.plural}"

    def numbers(self, values: pd.Series) -> Array:
        allowed = len(values) if self.given else 0
        parts = self.measured(values, allowed)
        return parts[:, [self.PARTS.index(part) for part in self.parts]]


class Number(Measured):
    """A column of numbers. The format is how 1234.5 is written, with a currency or unit, if any."""

    kind = "number"
    FORMATS: ClassVar[Sequence[str | None]] = (None, POINTED, COMMAED)
    EXAMPLE = "1234.5"

    @property
    def typed(self) -> str:
        marked = {None: self.kind, POINTED: self.kind, COMMAED: "comma"}
        return marked.get(self.format, super().typed)

    def read(self, values: pd.Series) -> Array:
        if values.dtype.kind in "biuf":
            numbers = values.to_numpy(np.float64, na_value=np.nan)
        else:
            numbers = self._parsed(values)
        numbers = np.where(np.isfinite(numbers), numbers, np.nan)
        return numbers[:, None] + 0.0  # -0.0 becomes 0.0

    def _parsed(self, values: pd.Series) -> Array:
        """Return texts as numbers [rows]."""
        if self.format is not None:
            marks = re.split(r"1.234(.)5", self.format.replace(" ", ""))
            return np.array([_number(text, *marks) for text in written(values)], np.float64)
        text = _plain(values)
        fraction = pd.Series(["0.5"], dtype=text.dtype)  # else pandas reads whole numbers otherwise
        numbers = pd.to_numeric(pd.concat([text, fraction]), errors="coerce")
        return numbers.to_numpy(np.float64, na_value=np.nan)[:-1]


class Time(Number):
    """A column of times of a day, or of durations, in hours: 18:30, 6:30 pm, 2 days 07:30:00."""

    FORMATS = ("time",)

    @property
    def plural(self) -> str:
        return "times such as 18:30"

    def _parsed(self, values: pd.Series) -> Array:
        return np.array([_hours(text) for text in written(values)], np.float64)


class Date(Measured):
    """A column of dates. The format is as for strptime; None: ISO 8601."""

    kind = "date"
    PARTS = ("day", "month", "weekday", "hour")
    EXAMPLE = "2024-12-31"

    @classmethod
    def guesses(cls, name: str, texts: pd.Series) -> list[Self]:
        formats = [None, "%d%b%Y"]
        match = next(filter(None, map(_DATE.fullmatch, texts)), None)  # the first with marks
        if match is not None:
            orders = _ORDERS.split()
            if match[2] == "-":
                orders.append("%y{}%m{}%d")
            formats += [order.format(match[2], match[4]) for order in orders]
        return [cls(name, format) for format in formats]

    def read(self, values: pd.Series) -> Array:
        """Return days since 1970, month, weekday and hour, in UTC."""
        format = None if values.dtype.kind == "M" else self.format
        when = _moments(pd.Series(written(values), dtype="str"), format)
        days = np.where(when.isna(), np.nan, when.astype("int64") / 86_400)
        return np.column_stack([days, when.dt.month, when.dt.day_of_week, when.dt.hour])


class Text(Scaled):
    """A column of free text, such as notes: its parts are axes."""

    kind = "text"

    def numbers(self, values: pd.Series) -> Array:
        """Return texts on axes, float64 [rows, parts]. Each depends on itself alone.

        It is TF-IDF with 1 + log(count), of length 1, and a product with the axes.
        """
        weights = np.frombuffer(b64decode(self.weights), "<f4").astype(np.float64)
        weights = weights.reshape(len(self.values), -1)
        places = {piece: place for place, piece in enumerate(self.values)}

        @cache
        def known(word: str) -> list[int]:
            found = []
            padded = f" {word} "
            for size in range(PIECES[0], PIECES[1] + 1):
                for start in range(len(padded) - size + 1):
                    piece = padded[start : start + size]
                    if piece in places:
                        found.append(places[piece])
            return found

        rows = np.full((len(values), weights.shape[1] - 1), np.nan)
        for row, text in zip(rows, written(values), strict=True):
            if text is None:
                continue
            found: list[int] = []
            for word in text.lower().split():
                found += known(word)
            columns, counts = np.unique(np.array(found, np.int64), return_counts=True)
            chosen = weights[columns]
            frequencies = (1 + np.log(counts)) * chosen[:, 0]
            length = np.sqrt(frequencies @ frequencies)
            row[:] = frequencies @ chosen[:, 1:] / np.maximum(length, 1e-300)
        return rows


#: By kind, or by format.
_KINDS: dict[str, Any] = {
    "number": Number,
    "time": Time,
    "date": Date,
    "text": Text,
    "category": Category,
}


@dataclass(frozen=True)
class TableEncoder:
    """Encodes tables by what the public rows have (nzc.data.table_fit).

    unused    of every column without features, why
    missing   texts that stand for a missing value
    encoding  of CSV files that are not UTF-8
    skip      lines before the header of CSV files
    quoting   of CSV files: minimal or none
    """

    columns: Sequence[Column]
    unused: Mapping[str, str]
    missing: Sequence[str] = ()
    encoding: str | None = None
    skip: int = 0
    quoting: str = "minimal"

    @property
    def features(self) -> list[str]:
        """The names of all features, in order."""
        return [feature for column in self.columns for feature in column.features]

    def encode(self, table: pd.DataFrame) -> Array:
        """Return float32 [rows, features]. ColumnError: a value is no number or no date."""
        table = blanked(table, self.missing)
        return np.concatenate([column.encode(table[column.name]) for column in self.columns], 1)

    def absent(self, table: pd.DataFrame) -> str:
        """Return the columns that a table lacks, and then those that the public rows had not.

        ColumnError: it lacks half of the columns.
        """
        names = [column.name for column in self.columns]
        absent = [name for name in names if name not in table]
        further = [name for name in table if name not in {*names, *self.unused}]
        found = ", ".join(absent)
        if absent and further:
            found += f"; ignored are {', '.join(further)}"
        if 2 * len(absent) >= len(names):
            raise ColumnError(f"half of the columns or more are absent: {found}")
        return found

    def as_dict(self) -> dict[str, Any]:
        """Return it in JSON types."""
        return vars(self) | {"columns": [column.as_dict() for column in self.columns]}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "TableEncoder":
        """Return the encoder of `as_dict`."""
        columns = []
        for column in record["columns"]:
            settings = {**column}
            kind = _KINDS[settings.pop("kind")]
            columns.append(_KINDS.get(column["format"], kind)(**settings))
        return cls(**{**record, "columns": columns})


def texts(values: pd.Series) -> pd.Index:
    """Return values as text without spaces around it; None where missing. 1 and 1.0 are one text.

    So are true and True. The text of a value is its own: no other value of the column decides it.
    """
    text = pd.Series(written(values), dtype="string")
    for pattern, plain in _SAME_TEXT:
        text = text.str.replace(pattern, plain, regex=True)
    return pd.Index(text.to_numpy(object, na_value=None), dtype=object)


def written(values: pd.Series) -> pd.Index:
    """Return values as they are written, without spaces around; None where missing."""
    text = _plain(values).astype("string").str.strip()
    return pd.Index(text.replace("", pd.NA).to_numpy(object, na_value=None), dtype=object)


def _plain(values: pd.Series) -> pd.Series:
    """Return dates, durations and objects as text; values of other types as they are.

    pandas would choose one form for all values of a column: a fraction of a second in one cell is
    then in the text of all. Here midnight is a date.
    """
    if values.dtype.kind == "M" and values.dt.tz is not None:
        values = values.dt.tz_convert("UTC")
    if isinstance(values.dtype, pd.CategoricalDtype) or values.dtype.kind in "mM":
        values = values.astype(object)
    if values.dtype != object:
        return values
    text = [_as_text(value) for value in values]
    return pd.Series(text, values.index, dtype="str").mask(values.isna())


def _as_text(value: Any) -> str:
    if isinstance(value, datetime | timedelta):
        return str(value).removesuffix(" 00:00:00")
    return str(value)


def blanked(table: pd.DataFrame, missing: Sequence[str]) -> pd.DataFrame:
    """Return the table without the values whose text is one of `missing`."""

    if not missing:
        return table
    return table.apply(lambda values: values.mask(texts(values).isin(missing), None))


def _hours(text: str | None) -> float:
    """Return the hours of a time of a day, or of a duration; NaN: it is none."""
    match = _TIME.fullmatch(text or " ")
    if match is None:
        return np.nan
    days, hours, minutes, seconds, half = match.groups(default="0")
    hour = float(hours)
    if hour > 24 and ":" not in match[0]:
        return np.nan  # 31.12.24
    if half in "aApP":
        if not 1 <= hour <= 12:
            return np.nan
        hour = hour % 12 + 12 * (half in "pP")
    hour = 24 * float(days) + hour + float(minutes) / 60
    return hour + float(seconds.replace(",", ".")) / 3600


def _number(text: str | None, prefix: str, decimal: str, suffix: str) -> float:
    """Return the number that is written with these marks; NaN: it is none."""
    match = _NUMBER.fullmatch((text or "").translate(_MINUS))
    if match is None:
        return np.nan
    before, digits, after = match.groups()
    sign = _SIGNS.get(re.sub(r"[^-+()0]", "", f"{before}0{after}"))
    ends = [re.sub(r"[-+()\s]", "", end) for end in (before, after)]
    if sign is None or ends != [prefix, suffix] or not _DIGITS[decimal].fullmatch(digits):
        return np.nan
    return sign * float(re.sub(rf"[^0-9eE+{decimal}-]", "", digits).replace(decimal, "."))


def _moments(text: pd.Series, format: str | None) -> pd.Series:
    """Return datetime64[s] [rows], NaT where a text is no date.

    Fractions are cut: at nanoseconds pandas has no date after 2262.
    """
    seconds = pd.Series(0.0, text.index)
    text = text.mask(text.str.lower().isin(["now", "today"]))  # for pandas the clock's time
    if format is None:
        format = "ISO8601"
        text = text.str.replace(r"(:\d\d|[T ]\d{6})[.,]\d+", r"\1", regex=True)
    elif "%f" in format:
        text = text.str.replace(r"([.,]\d{6})\d+$", r"\1", regex=True)
    elif not re.search(r"%[HIMScXs]", format):
        parts = text.str.extract(_DATE_AND_TIME)
        seconds = 3600 * parts[1].fillna("0:00").map(_hours).astype(float)  # also of no rows
        text = parts[0].mask(~(seconds < 86_400))
    time = np.floor(seconds.fillna(0) + 1e-6).astype("timedelta64[s]")
    return _read_alone(text, format) + time


def _read_alone(text: pd.Series, format: str) -> pd.Series:
    """Return datetime64[s] [rows], NaT where a text is no date. Each is read as if it were alone.

    pandas takes the finest unit of all values, and loses the dates that are beyond its range. So
    the halves are read anew, until that unit is one's own.
    """
    when = pd.to_datetime(text, format=format, errors="coerce", utc=True)
    if when.dt.unit == "ns" and when.isna().any() and len(text) > 1:
        half = len(text) // 2
        return pd.concat([_read_alone(part, format) for part in (text[:half], text[half:])])
    return when.dt.tz_localize(None).dt.as_unit("s")
