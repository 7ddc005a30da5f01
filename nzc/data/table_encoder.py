"""Read tables, and turn their records into features.

Students are published with this file: it needs NumPy and pandas only, and pyarrow for Parquet and
Arrow files. For texts as vectors it needs sentences.py too.
"""

import csv
import re
from abc import ABC, abstractmethod
from base64 import b64decode
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar
from warnings import catch_warnings

import numpy as np
import pandas as pd
from pandas.io.common import get_handle

Array = np.ndarray[Any, Any]

#: Free text is taken as pieces of words, of so many characters: a word has a space at both ends.
PIECES = (2, 4)
#: The format of numbers that are times of a day or durations, in hours: 18:30, 18.30.00, 6:30 pm, 2
#: days 07:30:00.
TIME = "time"
#: How a number is written with a decimal point, and with a decimal comma: formats, with a currency
#: or unit at an end.
POINTED = "1,234.5"
COMMAED = "1.234,5"
#: Standardised numbers are cut here, so that one absurd value does not outweigh all other features.
LIMIT = 10.0
_TEXT = (".csv", ".tsv", ".txt")
_PARQUET = (".parquet", ".pq")
_ARROW = (".arrow", ".feather", ".ipc")
#: What separates the cells of a single column.
_NONE = "\x1f"
#: Texts that stand for a missing value, as in pandas.
_MISSING = [
    *("", "<NA>", "N/A", "NA", "n/a", "NULL", "null", "None", "NaN", "nan", "-NaN", "-nan"),
    *("#N/A", "#N/A N/A", "#NA", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
]
#: The header of a CSV file is within so many lines.
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
_NO_CENTS = re.compile(r"(?<=[0-9])(?:[.,]-{1,2}|/-)(?=[^0-9]*$)")  # 12.-, 12,-- and 12/-
_MONEY = r"\w{0,3}[$\u00a2-\u00a5\u20a0-\u20cf]|[A-Z]{3}"
#: $ - and - EUR: a dash alone may be a missing value.
_ZERO = re.compile(rf"({_MONEY})\s*-+|-+\s*({_MONEY})")
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
    endings = {*map(str.lower, path.suffixes[-2:])}  # .csv.gz too
    if endings & {*_PARQUET}:
        chunks = _arrow_chunks(path, rows, columns, "parquet")
    elif endings & {*_ARROW}:
        chunks = _arrow_chunks(path, rows, columns, "arrow")
    elif endings & {*_TEXT}:
        chunks = _csv_chunks(path, rows, columns, **csv_settings)
    else:
        raise ColumnError(f"its name must end in {', '.join((*_TEXT, _PARQUET[0], *_ARROW))}")
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

    expected  columns, one at least: they tell the separator, and the header from a comment
    names     columns whose cells are names: None, NA or null is one there. In the others it is
              missing, as in pandas
    encoding  of a file without a byte-order mark; None: UTF-8
    skip      lines before the header, beside empty lines, comments and Excel's `sep=`
    quoting   minimal: cells may be in quotation marks; none: a quotation mark is part of its cell

    Columns without a name are left out.
    """
    encoding = _encoding(path, encoding)
    rule = csv.QUOTE_NONE if quoting == "none" else csv.QUOTE_MINIMAL
    try:
        with get_handle(path, "r", encoding=encoding, compression="infer") as opened:
            start = list(islice(opened.handle, skip + _HEAD))
            before, separator, header = _header(start[skip:], expected, rule)
            # A quote in the lines before the header would confuse pandas.
            lines: Iterator[str] = chain(start[skip + before :], opened.handle)
            if rule == csv.QUOTE_MINIMAL:
                lines = _checked(lines, separator, len(header), skip + before)
            file: Any = _Text(_once(lines, separator))
            chosen = None  # with a choice of columns, pandas takes rows with too many cells
            if columns is not None:
                chosen = [name for name in header if _column_name(name) in columns]
            named = [name for name in header if _column_name(name) in names]
            missing: dict[str, Any] = dict.fromkeys(header, _MISSING) | dict.fromkeys(named, "")
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
                na_values=missing,
            )
            for chunk in chunks:  # separators may end the header
                yield chunk.loc[:, ~chunk.columns.str.startswith("Unnamed: ")]
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
    return given or "utf-8"


class _Text:
    """Lines as a file that pandas reads."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines

    def __iter__(self) -> Iterator[str]:
        return self._lines

    def read(self, _: int) -> str:
        return "".join(islice(self._lines, 1000))


def _once(lines: Iterator[str], separator: str) -> Iterator[str]:
    """Yield lines, the first of which is the header: files that were joined repeat it."""
    header = next(lines)
    yield header
    ends = "\ufeff\r\n"  # a byte-order mark begins each of the files
    for line in lines:
        if line.strip(ends) != header.strip(ends) or separator not in header:
            yield line


def _checked(file: Iterable[str], separator: str, cells: int, number: int) -> Iterator[str]:
    """Yield the lines of a file, from its header on. ColumnError: a quoted cell holds whole rows.

    A quotation mark that nothing ends takes all lines before the next one into its cell. This then
    has text behind its end, or its lines have as many separators as rows.

    cells   of a row
    number  of the last line before
    """
    mark = re.escape(separator)
    # Atomic groups: Python before 3.11.5 matches possessive quantifiers of groups wrongly.
    quoted = '"(?>[^"]*)(?>(?:""(?>[^"]*))*)'
    cell = f'(?:(?> *){quoted}"(?>[^{separator}]*)|(?! *")(?>[^{separator}]*))'
    opened = re.compile(rf"(?>(?:{cell}{mark})*)(?> *)({quoted})\Z")
    in_sentences = separator in ",;"
    between = re.compile(rf"{mark}(?=\S)" if in_sentences else mark)
    least = 3 if in_sentences else 1
    counts: list[int] = []  # of separators in each line of a quoted cell that goes on
    for line in file:
        yield line
        number += 1
        if counts:
            inside, end, behind = line.replace('""', "  ").partition('"')
            counts.append(len(between.findall(inside)))
            if not end:
                continue
            behind, _, rest = behind.partition(separator)
            begun = number - len(counts) + 1
            counts[0] += counts.pop()  # of the row where it begins, and of that where it ends
            if behind.strip() or ({*counts} == {cells - 1} and sum(counts) >= least):
                where = f"the quoted cell that begins in line {begun:,} holds whole rows"
                raise ColumnError(f"{where}; if no cell is quoted, type dataset.quoting=none")
            counts = []
            line = line[len(line) - len(rest) :]
        match = '"' in line and opened.match(line)
        if match:
            counts = [len(between.findall(match[1]))]


def _header(
    lines: Sequence[str], expected: Collection[str], rule: Any
) -> tuple[int, str, list[str]]:
    """Return of a CSV file's header the number of lines before it, the separator and the cells.

    The header alone decides, and no record: how a private file is read must not depend on one
    record.
    """
    for before, line in enumerate(lines):
        if not line.strip(' \t\r\n,;|"') or line.lower().startswith(("sep=", '"sep=')):
            continue
        readings = []
        for separator in ",;\t|":
            cells = _cells(lines[before:], separator, rule)
            shared = len({*map(_column_name, cells)}.intersection(expected))
            readings.append((shared, len(cells), separator, cells))
        shared, number, separator, cells = max(readings, key=itemgetter(0, 1))
        if number == 1:  # what else is in its rows is no separator
            separator = _NONE
        if shared or not line.startswith("#"):
            return before, separator, cells
    raise ColumnError(f"it has no header in its first {_HEAD} lines")


def _cells(lines: Sequence[str], separator: str, rule: Any) -> list[str]:
    """Return the cells of the record that begins in the first line; it may have line breaks."""
    try:
        return next(csv.reader(lines, delimiter=separator, quoting=rule, skipinitialspace=True))
    except csv.Error:  # a cell of 131,072 characters: this is not the separator
        return []


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
    """Return whether a file is UTF-8 with other characters than ASCII, and no byte-order mark."""
    try:
        with get_handle(path, "r", encoding="utf-8", compression="infer") as opened:
            first = [line[0] for line in opened.handle if not line.isascii()][:1]
    except UnicodeDecodeError:
        return False
    return first not in ([], ["\ufeff"])


@dataclass(frozen=True, kw_only=True)
class Column(ABC):
    """How one column becomes features; everything was measured on the public rows.

    There is a class for each kind of column.

    given  whether the user named the kind: values that it does not fit count as missing
    """

    kind: ClassVar[str]
    name: str = ""
    given: bool = False

    @property
    @abstractmethod
    def features(self) -> list[str]:
        """The names of its features: `age`, `age missing`, `admitted month`, `ward=ICU`."""

    @abstractmethod
    def encode(self, values: pd.Series) -> Array:
        """Return float32 [rows, features]. ColumnError: a value is no number, or no date."""


@dataclass(frozen=True)
class Category(Column):
    """A column with a feature for each of its frequent values.

    values  those with a feature of their own; None stands for a missing value
    other   whether all other values have a feature together
    """

    kind = "category"
    values: Sequence[str | None]
    other: bool

    @property
    def features(self) -> list[str]:
        names = [f"{self.name}={value or 'missing'}" for value in self.values]
        if self.other:
            names.append(f"{self.name}=other")
        return names

    def encode(self, values: pd.Series) -> Array:
        places = pd.Index(self.values, dtype=object).get_indexer(plain_texts(values))
        places[places < 0] = len(self.values)
        return (places[:, None] == np.arange(len(self.features))).astype(np.float32)


@dataclass(frozen=True, kw_only=True)
class Scaled(Column):
    """A column whose parts are features: standardised, and 0 where missing.

    parts    of a number: itself; of a date: those of its parts that vary; of text: axes
    mean     [parts]
    spread   [parts], standard deviations
    missing  whether a feature says that a value is missing
    """

    parts: Sequence[str] = ()
    mean: Sequence[float] = ()
    spread: Sequence[float] = ()
    missing: bool = False

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
        """Return the parts of values, float64 [rows, parts], NaN where missing.

        ColumnError: as `encode`.
        """


@dataclass(frozen=True)
class Measured(Scaled):
    """A column of numbers or dates that are written in one way.

    Without a name and parts, it is a way in which a column may be read.

    format  how values are written; None: 1234.5, and dates of ISO 8601
    """

    PARTS: ClassVar[Sequence[str]]
    format: str | None = None

    @property
    def typed(self) -> str:
        """The kind as a user types it."""
        return self.format or self.kind

    @property
    @abstractmethod
    def plural(self) -> str:
        """What its values are called, with an example."""

    @abstractmethod
    def parsed(self, values: pd.Series) -> Array:
        """Return all PARTS of values, float64 [rows, PARTS], NaN where a value is none."""

    def measured(self, values: pd.Series, allowed: float = 0) -> Array:
        """Return all PARTS of values, float64 [rows, PARTS], NaN where missing.

        allowed  so many values that are no numbers or no dates count as missing

        ColumnError: it says how many there are, if they are more. What a value is read as depends
        on it alone.
        """
        codes, unique = distinct(values)
        parts = self.parsed(unique)
        strange = np.isnan(parts[:, 0])
        strange[strange] = written(unique[strange]).notna()
        wrong = int(strange[codes].sum())
        if wrong > allowed:
            found = f"{wrong:,} of {len(values):,} values are no {self.plural}"
            raise ColumnError(f"column {values.name}: {found}")
        return parts[codes]

    def numbers(self, values: pd.Series) -> Array:
        allowed = len(values) if self.given else 0
        parts = self.measured(values, allowed)
        return parts[:, [self.PARTS.index(part) for part in self.parts]]


class Number(Measured):
    """A column of numbers. The format is 1234.5 as it is written, or TIME."""

    kind = "number"
    PARTS = ("",)

    @property
    def typed(self) -> str:
        if self.format == TIME:
            return TIME
        if COMMAED in (self.format or ""):
            return "comma"
        return self.kind

    @property
    def plural(self) -> str:
        if self.format == TIME:
            return "times such as 18:30"
        return f"numbers such as {self.format or '1234.5'}"

    def parsed(self, values: pd.Series) -> Array:
        if values.dtype.kind in "biuf":
            numbers = values.to_numpy(np.float64, na_value=np.nan)
        elif self.format is None:
            text = _plain(values)
            # Without a fraction, pandas reads whole numbers otherwise.
            fraction = pd.Series(["0.5"], dtype=text.dtype)
            numbers = pd.to_numeric(pd.concat([text, fraction]), errors="coerce").to_numpy(
                np.float64, na_value=np.nan
            )[:-1]
        elif self.format == TIME:
            numbers = np.array([_hours(text) for text in written(values)], np.float64)
        else:
            marks = re.split(r"1.234(.)5", self.format)  # what is before, decimal mark, and behind
            numbers = np.array([_number(text, *marks) for text in written(values)], np.float64)
        numbers = np.where(np.isfinite(numbers), numbers, np.nan)
        return numbers[:, None] + 0.0  # -0.0 becomes 0.0


class Date(Measured):
    """A column of dates. The format is as for strptime."""

    kind = "date"
    PARTS = ("day", "month", "weekday", "hour")

    @property
    def plural(self) -> str:
        return f"dates such as {self.format or '2024-12-31'}"

    def parsed(self, values: pd.Series) -> Array:
        """Return days since 1970, month, weekday and hour, in UTC."""
        if values.dtype.kind != "M":
            values = _moments(pd.Series(written(values), dtype="str"), self.format)
        when = pd.to_datetime(values, utc=True).dt.as_unit("s")
        days = np.where(when.isna(), np.nan, when.astype("int64") / 86_400)
        return np.column_stack([days, when.dt.month, when.dt.day_of_week, when.dt.hour])


@dataclass(frozen=True)
class Text(Scaled):
    """A column of free text, such as notes. Pieces of its words are projected on axes, the parts.

    values   the pieces of words that count
    weights  base64 of little-endian float32 [values, 1 + parts]: of each piece its inverse document
             frequency, and its place on the axes
    """

    kind = "text"
    values: Sequence[str]
    weights: str

    def numbers(self, values: pd.Series) -> Array:
        """Return texts on axes, float64 [rows, parts], NaN where missing.

        Each depends on itself alone. It is TF-IDF with 1 + log(count), of length 1, and a product
        with the axes.
        """
        weights: Array = np.frombuffer(b64decode(self.weights), "<f4").astype(np.float64)
        weights = weights.reshape(len(self.values), -1)
        places = {piece: place for place, piece in enumerate(self.values)}
        of_words: dict[str, list[int]] = {}
        codes, unique = distinct(values)
        rows = np.full((len(unique), weights.shape[1] - 1), np.nan)
        for row, text in zip(rows, written(unique), strict=True):
            if text is None:
                continue
            found: list[int] = []
            for word in text.lower().split():
                if word not in of_words:
                    of_words[word] = [places[piece] for piece in _pieces(word) if piece in places]
                found += of_words[word]
            columns, counts = np.unique(np.array(found, np.int64), return_counts=True)
            chosen = weights[columns]
            frequencies = (1 + np.log(counts)) * chosen[:, 0]
            length = np.sqrt(frequencies @ frequencies)
            row[:] = frequencies @ chosen[:, 1:] / max(length, 1e-300)
        return rows[codes]


@dataclass(frozen=True, kw_only=True)
class Vectors(Text):
    """A column of free text as vectors of a sentence encoder, and as pieces of words beside them.

    Sentence encoders know what words mean, and pieces how they are written.

    model   name of the encoder (`sentences.Sentences`), and `digest` of its weights
    """

    kind = "vectors"
    model: str
    digest: str

    def numbers(self, values: pd.Series) -> Array:
        """Return vectors and pieces, float64 [rows, parts]. ColumnError: there is no encoder."""
        from nzc.data.sentences import ModelError, loaded

        pieces = super().numbers(values)
        codes, unique = distinct(values)
        texts = written(unique)
        present = texts.notna()
        rows = np.full((len(unique), len(self.parts) - pieces.shape[1]), np.nan)
        if present.any():
            try:
                rows[present] = loaded(self.model, self.digest)(list(texts[present]))
            except ModelError as error:
                raise ColumnError(f"column {self.name}: {error}") from error
        return np.hstack([rows[codes], pieces])


#: The class of each kind of column.
_KINDS: dict[str, type[Column]] = {
    "number": Number,
    "category": Category,
    "date": Date,
    "text": Text,
    "vectors": Vectors,
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
        return np.hstack([column.encode(table[column.name]) for column in self.columns])

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
        columns = [{"kind": column.kind} | asdict(column) for column in self.columns]
        return vars(self) | {"columns": columns}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "TableEncoder":
        """Return the encoder of `as_dict`."""
        columns = []
        for column in record["columns"]:
            kind = _KINDS[column["kind"]]
            # Version 0.2.0 wrote the fields of all kinds.
            columns.append(kind(**{field.name: column[field.name] for field in fields(kind)}))
        return cls(**{**record, "columns": columns})


def plain_texts(values: pd.Series) -> pd.Series:
    """Return values as text without spaces around it; None where missing. 1 and 1.0 are one text.

    So are true and True. The text of a value is its own: no other value of the column decides it.
    """
    codes, unique = distinct(values)
    text = pd.Series(written(unique), dtype="string")
    for pattern, plain in _SAME_TEXT:
        text = text.str.replace(pattern, plain, regex=True)
    plain_text = text.to_numpy(object, na_value=None)
    return pd.Series(plain_text[codes], values.index, dtype=object)


def written(values: pd.Series) -> pd.Index:
    """Return values as they are written, without spaces around; None where missing."""
    text = _plain(values).astype("string").str.strip()
    return pd.Index(text.replace("", pd.NA).to_numpy(object, na_value=None), dtype=object)


def _plain(values: pd.Series) -> pd.Series:
    """Return dates, durations and objects as text; values of other types as they are.

    pandas would choose one form for all values of a column: a fraction of a second in one cell is
    then in the text of all. Here midnight is a date.
    """
    if isinstance(values.dtype, pd.DatetimeTZDtype):
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


def distinct(values: pd.Series) -> tuple[Array, pd.Series]:
    """Return for each value its number among those that differ, and these; objects are text."""
    if values.dtype.kind == "O":
        values = _plain(values)  # for pandas True and 1 are one object
    codes, unique = values.factorize(use_na_sentinel=False)
    return codes, pd.Series(unique)


def _pieces(word: str) -> Iterator[str]:
    padded = f" {word} "
    for size in range(PIECES[0], PIECES[1] + 1):
        for start in range(len(padded) - size + 1):
            yield padded[start : start + size]


def blanked(table: pd.DataFrame, missing: Sequence[str]) -> pd.DataFrame:
    """Return the table without the values whose text is one of `missing`."""
    if not missing:
        return table
    return table.apply(lambda values: values.mask(plain_texts(values).isin(missing), None))


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


def number_parts(text: str) -> tuple[int, str, str, str] | None:
    """Return sign, what is before it, digits with their marks, and what is behind it.

    -$1,234.5 has the parts -1, $, 1,234.5 and "". None: it is no number.
    """
    text = text.translate(_MINUS)
    zero = _ZERO.fullmatch(text)
    if zero is not None:
        text = f"{zero[1] or ''}0{zero[2] or ''}"
    match = _NUMBER.fullmatch(_NO_CENTS.sub("", text))
    if match is None:
        return None
    before, digits, after = match.groups()
    sign = _SIGNS.get(re.sub(r"[^-+()0]", "", f"{before}0{after}"))
    if sign is None:
        return None
    before, after = (re.sub(r"[-+()\s]", "", end) for end in (before, after))
    return sign, before, digits, after


def _number(text: str | None, prefix: str, decimal: str, suffix: str) -> float:
    """Return the number that is written with these marks; NaN: it is none."""
    parts = number_parts(text or "")
    if parts is None:
        return np.nan
    sign, before, digits, after = parts
    if (before, after) != (prefix, suffix) or not _DIGITS[decimal].fullmatch(digits):
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
        seconds = 3600 * parts[1].fillna("0:00").map(_hours)
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
