"""Fit a TableEncoder to the public rows: which columns are numbers, categories or dates, their
means and deviations.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from nzc.data.standardizer import moments
from nzc.data.table_encoder import (
    CATEGORY,
    COMMA,
    COMMAED,
    DATE,
    NUMBER,
    POINTED,
    TIME,
    Column,
    TableEncoder,
    different,
    distinct,
    measured,
    number_parts,
    parsed,
    plural,
    written,
)
from nzc.types import Floats, Ints

KINDS = (NUMBER, COMMA, TIME, CATEGORY, DATE)
#: Names that Hydra reads without quotes.
_PLAIN = re.compile(r"[A-Za-z_][\w .-]*", re.ASCII)
_IDENTIFIER = "it looks like an identifier"
_UNCLEAR = "its values can be read in two ways"
#: Signs and names of currencies that may stand before a number.
_CURRENCY = re.compile(
    r"[A-Za-z]{0,3}[$\u00a2-\u00a5\u20a0-\u20cf]|Fr\.|kr\.?|Rs\.?|zł|Kč|Ft|AUD|BRL|CAD|CHF|CNY|CZK|DKK|EUR|GBP|HKD|HUF|"
    r"IDR|ILS|INR|JPY|KRW|MXN|MYR|NOK|NZD|PHP|PLN|RON|RUB|SEK|SGD|THB|TRY|UAH|USD|ZAR"
)
#: Units that may stand behind a number: letters and signs such as %, °C, mg/dl. Days are durations,
#: and pm is a time.
_UNIT = re.compile(
    r"(?!(?i:days?|[ap]\.?m\.?|uhr)$)(?:[^\W\d_\u00b2\u00b3\u00b9\u00bc-\u00be\u2150-\u215f]|[%‰°$\u00a2-\u00a5\u20a0-\u20cf]).{0,11}"
)
#: Orders of the three parts of a date; a year of two digits comes last, or first between hyphens.
_ORDERS = ("%d %m %Y", "%m %d %Y", "%Y %m %d", "%d %m %y", "%m %d %y", "%d %b %Y", "%b %d %Y", "%Y %b %d",
           "%d %B %Y", "%B %d %Y", "%d %b %y", "%b %d %y")  # fmt: skip
_DATE = re.compile(r"(\w+)([-/.]\s?|,?\s)(\w+)([-/.]\s?|,?\s)(\d+)(?:(?:T|,?\s+)\d.*)?", re.ASCII)
_COMPACT = re.compile(r"(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])")  # 20241231
_PADDED = "0[0-9]+"  # 01067
_SAMPLE = 200  # different values of a column that show whether all are worth a try
#: From 3 to so many different whole numbers may be codes.
_FEW = 12
_SHOWN = 20  # columns that one line names
#: Whole numbers between these are years, and no names.
_YEARS = (1800, 2100)
#: Days since 1970 of the first year that Excel would read in the last century if it has two digits.
_2030 = 21_915


class Reading(NamedTuple):
    """A way to read the values of a column: its kind and format (nzc.data.table_encoder.Column)."""

    kind: str
    format: str | None = None

    @property
    def typed(self) -> str:
        """The kind as a user types it."""
        if self.kind == DATE:
            return self.format or DATE
        if self.format == TIME:
            return TIME
        return COMMA if self.format is not None and COMMAED in self.format else NUMBER


@dataclass(frozen=True)
class Guess:
    """What the texts of a column can be read as.

    readings  those that fit the most rows, and differ
    fitting   rows that they fit
    rows      rows that have a value
    unclear   rows whose value the readings take differently
    others    the different texts that they do not fit
    """

    readings: Sequence[Reading]
    fitting: int
    rows: int
    unclear: int
    others: Sequence[str]

    @property
    def nearly(self) -> bool:
        """Whether at least half of the rows fit, but not all."""
        return self.rows > self.fitting >= self.rows / 2


def fit_encoder(
    public: pd.DataFrame, kinds: Mapping[str, str], categories: int, missing: Sequence[str] = ()
) -> TableEncoder:
    """Return the encoder of public rows; ColumnError: a column has values that its given kind does
    not allow.

    kinds       of columns: number, comma, time, category, date, or a date format such as %d.%m.%Y;
                others are guessed
    categories  at most so many features for a column; the most frequent values have one of their
                own
    missing     texts that stood for a missing value, and are none in these rows
    """
    fitted = {name: _fit(public[name], kinds.get(name), categories) for name in public.columns}
    columns = [column for column in fitted.values() if isinstance(column, Column)]
    return TableEncoder(
        columns, {name: why for name, why in fitted.items() if isinstance(why, str)}, missing
    )


def typed(kinds: Mapping[str, str]) -> str:
    """Return what to type, in a shell, for columns of these kinds."""
    if all(_PLAIN.fullmatch(name) for name in kinds):
        items = [f"{name}: {_quoted(kind)}" for name, kind in kinds.items()]
        return _in_shell(f"dataset.columns={{{', '.join(items)}}}")
    items = [
        _quoted(f"{name}: {kind}") for name, kind in kinds.items()
    ]  # Hydra reads no such name as a key
    return _in_shell(f"dataset.columns=[{', '.join(items)}]")


def _in_shell(override: str) -> str:
    escaped = override.replace("'", "'\\''")
    return f"'{escaped}'"


def _quoted(text: str) -> str:
    """Return a name or kind as Hydra reads it."""
    if _PLAIN.fullmatch(text):
        return text
    escaped = text.replace('"', '\\"')
    return f'"{escaped}"'


def remedy(column: Column) -> str:
    """Return what to type where a column is as it is read, up to a few values."""
    kind = Reading(column.kind, column.format).typed
    missing = f"with {typed({column.name: kind})} such values are missing, if they are half of all at most"
    return f"write them as the public file does; {missing}"


def doubts(public: pd.DataFrame, encoder: TableEncoder, grouped: bool) -> Iterator[str]:
    """Yield where a guess may be wrong, and what to type then. Only public rows decide."""
    found = {name: why for name, why in encoder.unused.items() if why.startswith(_IDENTIFIER)}
    columns = {column.name: column for column in encoder.columns}
    for name in [name for name in public if name not in found]:
        yield from _doubts(public[name], columns.get(name))
    if codes := [column.name for column in encoder.columns if _may_be_codes(column, public)]:
        shown = codes[:_SHOWN]
        further = f" and {len(codes) - _SHOWN:,} others" if len(codes) > _SHOWN else ""
        why = "whole numbers of few different values, or with equally many digits"
        yield f"{', '.join(shown)}{further}: {why}; if they are codes, type {typed(dict.fromkeys(shown, CATEGORY))}"
    if found and not grouped:
        most = min(found, key=lambda name: public[name].nunique())
        every = f"; so do {', '.join(sorted(found.keys() - {most}))}" if len(found) > 1 else ""
        group = _in_shell(f"dataset.group={_quoted(most)}")
        drop = _in_shell(f"dataset.drop=[{','.join(map(_quoted, found))}]")
        unless = (
            f"If it says whom a row is about, type {group}: without it, ε protects one row only"
        )
        number = f"If it is a number, type {typed({most: NUMBER})}; if a date, its format such as %d.%m.%Y"
        yield f"{most} is not used, because {found[most]}{every}. {unless}. {number}. If not, type {drop}"


def _doubts(values: pd.Series, column: Column | None) -> Iterator[str]:
    """Yield what to type for a column that may be read wrong; None: it is not used."""
    name = str(values.name)
    if column is not None and column.given:
        return
    if column is not None and column.kind != CATEGORY:
        yield from _doubts_of_years(values, column)
        return
    guess = _guess(values)
    if guess.unclear:
        ways = [
            f"{typed({name: reading.typed})} for {_meaning(reading)}" for reading in guess.readings
        ]
        seen = f"{guess.unclear:,} of {len(values):,} public values can be read in two ways"
        yield f"{name} is not used, because {seen}: type {' or '.join(ways)}"
    elif guess.nearly:
        reading, wrong = guess.readings[0], guess.rows - guess.fitting
        why = f"{wrong:,} of {len(values):,} public values are no {plural(*reading)}"
        if any(
            char.isdigit() and text[0] != "#" for text in guess.others for char in text
        ):  # Excel's #DIV/0!
            advice = f"write them alike in all files, or type {typed({name: CATEGORY})}"
        else:
            advice = f"type {typed({name: reading.typed})} to take such values as missing"
        yield f"{name} is not used as a {reading.kind}, because {why}; {advice}"
    elif column is not None:
        yield from _doubts_of_text(values, column)


def _doubts_of_text(values: pd.Series, column: Column) -> Iterator[str]:
    """Yield what to type for a category whose values may be numbers or dates."""
    text = pd.Series(written(values)).dropna()
    if _are_codes(text):
        padded = f"{text.str.fullmatch(_PADDED).sum():,} of {len(values):,} public values begin with 0, as codes do"
        yield f"{column.name} is a category, because {padded}; if they are numbers, type {typed({column.name: NUMBER})}"
    elif column.other and text.str.match(r"\W*[0-9]").mean() >= 0.5:
        own = (
            f"{len(column.values)} of {text.nunique()} different values have features of their own"
        )
        write = "if they are numbers or dates, write one in a cell, such as 1234.5 or 2024-12-31"
        yield f"{column.name} is a category, and {own}: {write}; if not, type {typed({column.name: CATEGORY})}"


def _doubts_of_years(values: pd.Series, column: Column) -> Iterator[str]:
    """Yield a line if years of two digits may be of the last century, where they are read as 2030
    and later.
    """
    if column.kind != DATE or "%y" not in (column.format or ""):
        return
    late = int((measured(values, column.kind, column.format)["day"] >= _2030).sum())
    if late:
        seen = f"{late:,} of {len(values):,} public dates are read as 2030 to 2068"
        yield f"{column.name} has years of two digits, and {seen}: if they are of the last century, write four digits"


def _meaning(reading: Reading) -> str:
    if reading.kind == NUMBER and reading.format != TIME:
        return f"a decimal {'comma' if reading.typed == COMMA else 'point'}"
    return plural(reading.kind, reading.format)


def _may_be_codes(column: Column, public: pd.DataFrame) -> bool:
    """Return whether a column that was taken as numbers has few whole ones."""
    values = public[column.name]
    plain = column.format is None or _may_be_names(values, column.format)
    if column.kind != NUMBER or column.format == TIME or column.given or not plain:
        return False
    numbers = pd.Series(measured(values, NUMBER, column.format)[""]).dropna()
    unique = np.sort(numbers.unique())
    if len(unique) < 3 or (unique != np.floor(unique)).any():
        return False
    digits = np.floor(np.log10(unique.clip(1))) + 1
    alike = (
        digits[0] == digits[-1] >= 4 and len(unique) <= len(numbers) / 2 and not _are_years(unique)
    )
    return bool(alike or len(unique) <= min(_FEW, len(numbers) / 5))


def _are_years(values: Floats) -> bool:
    first, last = _YEARS
    return bool(first <= values.min() and values.max() <= last)


def _are_codes(texts: pd.Series) -> bool:
    """Return whether texts are digits alone, and some begin with 0, as postcodes do and numbers do
    not.
    """
    return bool(texts.str.fullmatch(_PADDED).any() and texts.str.fullmatch("[0-9]+").all())


def _may_be_names(values: pd.Series, format: str) -> bool:
    """Return whether numbers in groups, or with letters, may be phone numbers or the like: all have
    as many digits.
    """
    _, unique = distinct(values)
    digits = {len(re.sub("[^0-9]", "", text)) for text in written(unique).dropna()}
    return len(digits) == 1 and min(digits) >= 6 and _CURRENCY.search(format) is None


def _fit(values: pd.Series, kind: str | None, categories: int) -> Column | str:
    """Return the column of public values, or why it is not used."""
    if pd.api.types.infer_dtype(values, skipna=True) == "mixed":
        return "its values are lists or other objects"
    given = kind is not None
    guess = _guess(values, kind)
    if guess.unclear and not given:
        return _UNCLEAR
    if kind == CATEGORY or not (given or (guess.readings and guess.fitting == guess.rows)):
        return _category(values, categories, given, guess)
    reading = guess.readings[0]
    every = measured(values, *reading, given)
    numbers = next(iter(every.values()))
    if (missing := np.isnan(numbers)).all():
        return "it is empty"
    plain = reading.format is None or _may_be_names(values, reading.format)
    if reading.kind == NUMBER and plain and not given and (why := _identifies(numbers)):
        return why
    parts = {
        part: numbers for part, numbers in every.items() if np.nanmin(numbers) < np.nanmax(numbers)
    }
    if not parts:
        return "one value only"
    mean, spread = zip(*(map(float, moments(numbers)) for numbers in parts.values()), strict=True)
    return Column(
        str(values.name),
        *reading,
        list(parts),
        mean,
        spread,
        missing=bool(missing.any()),
        given=given,
    )


def _category(values: pd.Series, categories: int, given: bool, guess: Guess) -> Column | str:
    """Return the column of values that are categories, or why it is not used."""
    codes, names = different(values)
    counts = Counter(names[codes])
    if len(counts) <= 1:
        return "one value only" if any(counts) else "it is empty"
    if not given:
        column: Floats | pd.Series | None = pd.Series(names[codes])
        if guess.nearly:
            reading = guess.readings[0]
            column = (
                measured(values, NUMBER, None, given=True)[""]
                if reading == Reading(NUMBER)
                else None
            )
        if column is not None and (why := _identifies(column)):
            return why
        if len(counts) > max(categories, len(values) / 2):
            return "nearly every value differs"
    own = [
        value for value, _ in sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))
    ]  # frequent first
    kept = own if len(own) <= categories else own[: categories - 1]
    return Column(str(values.name), CATEGORY, values=kept, other=len(kept) < len(own), given=given)


def _identifies(column: "Floats | pd.Series") -> str | None:
    """Return why numbers or texts look like those of an identifier; None: they do not.

    No value is frequent; and numbers are whole, and more than measured ones would be, or scattered
    instead of on a grid, or far from 0.
    """
    counts = pd.Series(column).value_counts()  # without missing values
    rows, values = counts.sum(), len(counts)
    if values <= max(32, rows / 5) or counts.max() > max(10, rows / 200):
        return None
    if isinstance(column, np.ndarray):
        numbers = np.sort(counts.index)
        if _are_years(numbers):
            return None
        gaps = np.diff(numbers)
        unlike = values == rows or values > max(1000, rows / 2) or np.median(gaps) > 5 * gaps.min()
        unlike |= numbers[0] > 5 * np.ptp(numbers)  # numbers that were given one after another
        if not unlike or (numbers != np.floor(numbers)).any():
            return None
    return f"{_IDENTIFIER} ({values:,} values in {rows:,} public rows)"


def _guess(values: pd.Series, kind: str | None = None) -> Guess:
    """Return what the values of a column can be read as, or those of a given kind: only values of
    the column decide.
    """
    codes, unique = distinct(values)
    names = written(unique)
    counts = np.bincount(codes, minlength=len(names))
    known = np.array([text is not None for text in names], bool)
    texts = pd.Series(names[known], dtype="str")
    rows = counts[known]
    if kind == CATEGORY or (kind is None and set(texts.str.lower()) <= {"true", "false"}):
        return Guess([], 0, int(rows.sum()), 0, [])
    if kind is None:
        readings = _readings(values, texts, rows)
    elif kind in (NUMBER, COMMA):
        readings = [Reading(NUMBER, _notation(texts, rows, COMMAED if kind == COMMA else POINTED))]
        if kind == NUMBER:
            readings.insert(0, Reading(NUMBER))
    elif kind == TIME:
        readings = [Reading(NUMBER, TIME)]
    else:
        readings = [Reading(DATE, None if kind == DATE else kind)]
    return _best(readings, texts, rows)


def _best(readings: Sequence[Reading], texts: pd.Series, rows: Ints) -> Guess:
    """Return those readings that fit the most rows, and take them differently."""
    best: list[Reading] = []
    values: list[Floats] = []
    fitting = -1
    for reading in readings:
        numbers = next(iter(parsed(texts, *reading).values()))
        fits = int(rows[~np.isnan(numbers)].sum())
        if fits > fitting:
            best, values, fitting = [], [], fits
        if fits == fitting and not any(
            np.array_equal(numbers, other, equal_nan=True) for other in values
        ):
            best.append(reading)
            values.append(numbers)
    if not best:
        return Guess([], 0, int(rows.sum()), 0, [])
    differ = np.zeros(len(rows), bool)
    for other in values[1:]:
        differ |= (other != values[0]) & ~(np.isnan(other) & np.isnan(values[0]))
    unclear = int(rows[differ].sum()) if len(rows) > 1 else 0
    return Guess(best, fitting, int(rows.sum()), unclear, list(texts[np.isnan(values[0])]))


def _readings(values: pd.Series, texts: pd.Series, rows: Ints) -> list[Reading]:
    """Return the ways to read these different texts of a column that are worth a try; each text has
    so many rows.
    """
    if values.dtype.kind == "M":
        return [Reading(DATE)]
    if values.dtype.kind == "m":
        return [Reading(NUMBER, TIME)]
    if len(texts) and texts.str.fullmatch(_COMPACT.pattern).all():
        return [Reading(DATE, "%Y%m%d")]
    if values.dtype.kind in "iuf":
        return [Reading(NUMBER)]
    if _are_codes(texts):
        return []
    sample = texts[:_SAMPLE]
    notations = [Reading(NUMBER, _notation(texts, rows, mark)) for mark in (POINTED, COMMAED)]
    numbers = _fitting([Reading(NUMBER), *notations], sample)
    return numbers or _fitting(
        [Reading(NUMBER, TIME), Reading(DATE), *_date_readings(sample)], sample
    )


def _fitting(readings: Sequence[Reading], sample: pd.Series) -> list[Reading]:
    """Return those readings that fit the most texts of a sample, if they are a quarter of it."""
    fits = [
        int((~np.isnan(next(iter(parsed(sample, *reading).values())))).sum())
        for reading in readings
    ]
    most = max(fits)
    if most == 0 or most < len(sample) / 4:
        return []
    return [reading for reading, count in zip(readings, fits, strict=True) if count == most]


def _notation(texts: pd.Series, rows: Ints, written: str) -> str:
    """Return how 1234.5 is written in most rows, by the currency before and the unit behind it."""
    ends: Counter[tuple[str, str]] = Counter()
    for text, count in zip(texts[:_SAMPLE], rows[:_SAMPLE].tolist(), strict=True):
        if (parts := number_parts(text)) is not None:
            ends[parts[1], parts[3]] += count
    for (prefix, suffix), _ in ends.most_common():
        if (not prefix or _CURRENCY.fullmatch(prefix)) and (not suffix or _UNIT.fullmatch(suffix)):
            return f"{prefix}{written}{suffix}"
    return written


def _date_readings(sample: pd.Series) -> list[Reading]:
    """Return the formats of dates with marks as the first date of the sample has them."""
    match = next(filter(None, map(_DATE.fullmatch, sample)), None)
    if match is None:
        return [Reading(DATE, "%d%b%Y")]
    formats = []
    for order in (*_ORDERS, "%y %m %d") if match[2] == "-" else _ORDERS:
        first, second, third = order.split()
        formats.append(f"{first}{match[2]}{second}{match[4]}{third}")
    return [Reading(DATE, format) for format in formats]
