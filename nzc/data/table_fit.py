"""Fit a TableEncoder to the public rows: kinds of columns, means, deviations, categories."""

import json
import re
import shlex
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
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
    PARTS,
    PIECES,
    POINTED,
    TEXT,
    TIME,
    Column,
    ColumnError,
    TableEncoder,
    different,
    distinct,
    measured,
    number_parts,
    parsed,
    plural,
    projected,
    written,
)
from nzc.types import Floats, Ints

KINDS = (NUMBER, COMMA, TIME, CATEGORY, DATE, TEXT)
_IDENTIFIER = "it looks like an identifier"
_UNCLEAR = "its values can be read in two ways"
#: Signs and names of currencies that may stand before a number.
_CURRENCY = re.compile(
    r"[A-Za-z]{0,3}[$\u00a2-\u00a5\u20a0-\u20cf]|Fr\.|kr\.?|Rs\.?|zł|Kč|Ft|"
    r"AUD|BRL|CAD|CHF|CNY|CZK|DKK|EUR|GBP|HKD|HUF|IDR|ILS|INR|JPY|KRW|MXN|MYR|NOK|NZD|PHP|PLN|RON|"
    r"RUB|SEK|SGD|THB|TRY|UAH|USD|ZAR"
)
#: Units that may stand behind a number: letters and signs such as %, °C, mg/dl. Days are durations,
#: and pm is a time.
_UNIT = re.compile(
    r"(?!(?i:days?|[ap]\.?m\.?|uhr)$)"
    r"(?:[^\W\d_\u00b2\u00b3\u00b9\u00bc-\u00be\u2150-\u215f]|[%‰°$\u00a2-\u00a5\u20a0-\u20cf])"
    r".{0,11}"
)
#: Orders of the three parts of a date; a year of two digits comes last, or first between hyphens.
_ORDERS = [
    "%d %m %Y",
    "%m %d %Y",
    "%Y %m %d",
    "%d %m %y",
    "%m %d %y",
    "%d %b %Y",
    "%b %d %Y",
    "%Y %b %d",
    "%d %B %Y",
    "%B %d %Y",
    "%d %b %y",
    "%b %d %y",
    "%y %m %d",
]
_DATE = re.compile(r"(\w+)([-/.]\s?|,?\s)(\w+)([-/.]\s?|,?\s)(\d+)(?:(?:T|,?\s+)\d.*)?", re.ASCII)
_COMPACT = r"(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])"  # 20241231
_PADDED = "0[0-9]+"  # 01067
_SAMPLE = 200  # different values of a column that show whether all are worth a try
#: Free text has at most so many axes, one for so many texts, and at most so many pieces of words.
_AXES = 64
_TEXTS = 5
_VOCABULARY = 10_000
#: The variance of free text, all axes together, where that of a number is 1: a text may tell as
#: much as several numbers, and noisy sums hear only what is a good part of a row's length.
_TEXT_VARIANCE = 8.0
#: Free text has so many words of letters.
_WORDS = 5
_WORD = r"\b[^\W\d_]{2,}\b"
#: So many rows below a header may be no records: questions, keys and units.
_BELOW_HEADER = 3
#: What the last row of an export may say in place of a record.
_TOTAL = re.compile(
    r"(?:(?:grand |sub)?totals?|sum|average|mean|summe|gesamt|totale|итого|合计|合計|总计):?",
    re.IGNORECASE,
)
#: Whole numbers between these are years, and no names.
_YEARS = (1800, 2100)


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
        if self.format is not None and COMMAED in self.format:
            return COMMA
        return NUMBER

    def numbers(self, texts: pd.Series) -> Floats:
        """Return different values of a column as numbers, NaN where it is none."""
        return parsed(texts, *self)[:, 0]


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
    others: pd.Series

    @property
    def nearly(self) -> bool:
        """Whether at least half of the rows fit, but not all."""
        return self.rows > self.fitting >= self.rows / 2


def fit_encoder(
    public: pd.DataFrame, kinds: Mapping[str, str], categories: int, missing: Sequence[str] = ()
) -> TableEncoder:
    """Return the encoder of public rows.

    kinds       of columns: number, comma, time, category, date, text, or a date format such as
                %d.%m.%Y; others are guessed
    categories  at most so many features for a column; the most frequent values have one of their
                own
    missing     texts that stood for a missing value, and are none in these rows

    ColumnError: most values of a column are not of its given kind.
    """
    columns = []
    unused = {}
    for name in public.columns:
        fitted = _fit(public[name], kinds.get(name), categories)
        if isinstance(fitted, Column):
            columns.append(fitted)
        else:
            unused[name] = fitted
    return TableEncoder(columns, unused, missing)


def typed(name: object, kind: str) -> str:
    """Return what to type, in a shell, for a column of this kind."""
    item = json.dumps(f"{name}: {kind}", ensure_ascii=False)
    return shlex.quote(f"dataset.columns=[{item}]")


def no_records(public: pd.DataFrame) -> list[str]:
    """Return a cell of each row that seems to be no record: of the first rows, and of the last.

    Such first rows have texts in two columns of numbers or dates, and no value in any: they are
    questions or units below the header. Such a last row says that it is a total.
    """
    below = public[:_BELOW_HEADER]
    others = public[_BELOW_HEADER:][:_SAMPLE]
    misfits = {}  # "" for a number or a date
    for name in public:
        guess = _guess(others[name])
        if guess.readings and guess.fitting == guess.rows:
            texts = pd.Series(written(below[name]), dtype="str")
            misfits[name] = texts.where(np.isnan(guess.readings[0].numbers(texts)), "")
    found = []
    for _, row in pd.DataFrame(misfits).iterrows():
        cells = row.dropna().tolist()
        if len(cells) < 2 or "" in cells:
            break
        found.append(min(cells, key=len))
    totals = filter(_TOTAL.fullmatch, map(str, public.tail(1).to_numpy().ravel()))
    found += [total for total in totals if public.eq(total).to_numpy().sum() == 1]
    return found


def doubts(public: pd.DataFrame, encoder: TableEncoder, grouped: bool) -> Iterator[str]:
    """Yield where a guess may be wrong, and what to type then. Only public rows decide."""
    settled = {column.name for column in encoder.columns if column.given or column.parts}
    identifiers = []
    for name in public:
        if encoder.unused.get(name, "").startswith(_IDENTIFIER):
            identifiers.append(name)
        elif name not in settled:
            yield from _doubts(public[name])
    yield from _strange(public, encoder)
    if identifiers and not grouped:
        yield (
            f"{', '.join(identifiers)}: not used as features, {_IDENTIFIER}; "
            "name one by dataset.group if it says whom a row is about: "
            "without it, ε protects one row only; "
            f"if it is a number, type {typed(identifiers[0], NUMBER)}"
        )


def _strange(public: pd.DataFrame, encoder: TableEncoder) -> Iterator[str]:
    """Yield how many values of a column are not of the kind that the user gave it."""
    for column in encoder.columns:
        if column.given and column.kind in (NUMBER, DATE):
            try:
                measured(public[column.name], column.kind, column.format)
            except ColumnError as error:
                yield f"{error}, in the public file; they count as missing"


def _doubts(values: pd.Series) -> Iterator[str]:
    """Yield what to type for a column of no number or date, if it may be one."""
    name = values.name
    guess = _guess(values)
    if guess.unclear:
        kinds = " or ".join(typed(name, reading.typed) for reading in guess.readings)
        found = f"{guess.unclear:,} of {len(values):,} public values can be read in two ways"
        yield f"{name} is not used, because {found}: type {kinds}"
    elif guess.nearly:
        reading = guess.readings[0]
        wrong = guess.rows - guess.fitting
        found = f"{wrong:,} of {len(values):,} public values are no {plural(*reading)}"
        advice = f"type {typed(name, reading.typed)} to take such values as missing"
        if guess.others.str.match("[^#]*[0-9]").any():  # Excel has #DIV/0!
            advice = f"write them alike in all files, or type {typed(name, CATEGORY)}"
        yield f"{name} is not used as a {reading.kind}, because {found}; {advice}"


def _fit(values: pd.Series, kind: str | None, categories: int) -> Column | str:
    """Return the column of public values, or why it is not used."""
    if pd.api.types.infer_dtype(values, skipna=True) == "mixed":
        return "its values are lists or other objects"
    if kind == TEXT:
        return _text(values, given=True)
    guess = _guess(values, kind)
    given = kind is not None
    if guess.unclear and not given:
        return _UNCLEAR
    if not guess.readings or (guess.fitting < guess.rows and not given):
        return _category(values, categories, given, guess)
    return _measures(values, guess.readings[0], given)


def _measures(values: pd.Series, reading: Reading, given: bool) -> Column | str:
    """Return the column of values that are numbers or dates, or why it is not used."""
    allowed = max(1, len(values) / 2) if given else 0
    measures = measured(values, *reading, allowed)
    numbers = measures[:, 0]
    missing = np.isnan(numbers)
    if missing.all():
        return "it is empty"
    if reading.kind == NUMBER and not given and _may_be_names(values, reading.format):
        why = _identifies(numbers)
        if why is not None:
            return why
    varying = {
        part: moments(array)
        for part, array in zip(PARTS[reading.kind], measures.T, strict=True)
        if np.nanmin(array) < np.nanmax(array)
    }
    if not varying:
        return "one value only"
    means, spreads = np.array(list(varying.values())).T.tolist()
    about = (str(values.name), *reading, list(varying), means, spreads)
    return Column(*about, missing=bool(missing.any()), given=given)


def _may_be_names(values: pd.Series, format: str | None) -> bool:
    """Return whether numbers have no format, or may be phone numbers: all have as many digits."""
    if format is None:
        return True
    digits = set(pd.Series(written(values)).dropna().str.count("[0-9]"))
    return len(digits) == 1 and min(digits) >= 6 and _CURRENCY.search(format) is None


def _category(values: pd.Series, categories: int, given: bool, guess: Guess) -> Column | str:
    """Return the column of values that are categories, or why it is not used."""
    codes, names = different(values)
    counts = Counter(names[codes])
    if len(counts) <= 1:
        if any(counts):
            return "one value only"
        return "it is empty"
    if not given:
        if _is_text(names, len(values)):
            return _text(values, given)
        why = None
        if not guess.nearly:
            why = _identifies(pd.Series(names[codes]))
        elif guess.readings[0] == Reading(NUMBER):
            why = _identifies(measured(values, NUMBER, None, len(values))[:, 0])
        if why is not None:
            return why
        if len(counts) > max(categories, len(values) / 2):
            return "nearly every value differs"
    by_frequency = sorted(counts, key=lambda value: (-counts[value], str(value)))
    other = len(by_frequency) > categories
    if other:
        by_frequency = by_frequency[: categories - 1]
    return Column(str(values.name), CATEGORY, values=by_frequency, other=other, given=given)


def _is_text(names: pd.Index, rows: int) -> bool:
    """Return whether these different values in so many rows are free text.

    Most have several words, and these differ, also without words that have digits: `note 638397` is
    no text.
    """
    words = names.dropna().to_series().str.findall(_WORD)
    several = words.str.len().median() >= _WORDS
    return several and words.map(tuple).nunique() > max(32, rows / 5)


def _text(values: pd.Series, given: bool) -> Column | str:
    """Return the column of free text, or why it is not used.

    Pieces of words are weighed by TF-IDF, and projected on the axes of a truncated singular value
    decomposition.
    """
    from sklearn.decomposition import TruncatedSVD  # takes a second to import
    from sklearn.feature_extraction.text import TfidfVectorizer

    names = written(values)
    texts = names.dropna()
    if texts.empty:
        return "it is empty"
    vectorizer = TfidfVectorizer(
        analyzer="char_wb",
        ngram_range=PIECES,
        max_features=_VOCABULARY,
        min_df=2,
        sublinear_tf=True,
    )
    try:
        vectors = vectorizer.fit_transform(texts)
    except ValueError:  # no piece is in two rows
        return "its texts have nothing in common"
    pieces = vectorizer.get_feature_names_out().tolist()
    axes = min(_AXES, len(pieces), -(-len(texts) // _TEXTS))
    with np.errstate(divide="ignore", invalid="ignore"):  # it divides by the variance
        reduced = TruncatedSVD(axes, random_state=0).fit(vectors)
    weights = np.column_stack([vectorizer.idf_, reduced.components_.T]).astype("<f4")
    numbers = projected(pd.Series(texts), pieces, weights)
    variances = numbers.var(axis=0)
    if not variances.max() > 1e-12:
        return "one value only"
    # An axis counts as much more as texts differ more along it: what few records tell is there.
    factors = np.sqrt(_TEXT_VARIANCE * variances / (variances**2).sum())
    return Column(
        str(values.name),
        TEXT,
        parts=[f"text {axis + 1}" for axis in range(axes)],
        mean=numbers.mean(axis=0).tolist(),
        spread=(1 / np.maximum(factors, 1e-9)).tolist(),
        values=pieces,
        weights=b64encode(weights.tobytes()).decode(),
        missing=len(texts) < len(names),
        given=given,
    )


def _identifies(column: Floats | pd.Series) -> str | None:
    """Return why numbers or texts look like those of an identifier; None: they do not.

    No value is frequent; and numbers are whole, and more than measured ones would be, or scattered
    instead of on a grid, or far from 0.
    """
    counts = pd.Series(column).value_counts()  # without missing values
    rows = counts.sum()
    values = len(counts)
    if values <= max(32, rows / 5) or counts.max() > max(10, rows / 200):
        return None
    if isinstance(column, np.ndarray):
        numbers = np.sort(counts.index)
        are_years = _YEARS[0] <= numbers[0] and numbers[-1] <= _YEARS[1]
        if are_years or (numbers != np.floor(numbers)).any():
            return None
        gaps = np.diff(numbers)
        many = values == rows or values > max(1000, rows / 2)
        scattered = np.median(gaps) > 5 * gaps.min()
        given_in_turn = numbers[0] > 5 * np.ptp(numbers)
        if not (many or scattered or given_in_turn):
            return None
    return f"{_IDENTIFIER} ({values:,} values in {rows:,} public rows)"


def _guess(values: pd.Series, kind: str | None = None) -> Guess:
    """Return what the values of a column can be read as, or those of a given kind.

    Only values of the column decide.
    """
    codes, unique = distinct(values)
    names = written(unique)
    present = names.notna()
    texts = pd.Series(names[present], dtype="str")
    rows = np.bincount(codes, minlength=len(names))[present]
    if kind is None:
        readings = _readings(values, texts, rows)
    elif kind == CATEGORY:
        readings = []
    elif kind == NUMBER:
        readings = [Reading(NUMBER), Reading(NUMBER, _notation(texts, rows, POINTED))]
    elif kind == COMMA:
        readings = [Reading(NUMBER, _notation(texts, rows, COMMAED))]
    elif kind == TIME:
        readings = [Reading(NUMBER, TIME)]
    else:
        readings = [Reading(DATE, None if kind == DATE else kind)]
    return _best(readings, texts, rows)


def _best(readings: Sequence[Reading], texts: pd.Series, rows: Ints) -> Guess:
    """Return those readings that fit the most rows, and take them differently."""
    if not readings:
        return Guess([], 0, int(rows.sum()), 0, texts)
    numbers = np.array([reading.numbers(texts) for reading in readings])
    fits = np.isfinite(numbers) @ rows
    best = numbers[fits == fits.max()]
    by_values: dict[bytes, Reading] = {}
    for reading, values in zip(compress(readings, fits == fits.max()), best, strict=True):
        by_values.setdefault(values.tobytes(), reading)
    unclear = 0
    if len(rows) > 1:
        comparable = np.nan_to_num(best, nan=np.inf)
        unclear = int(rows[(comparable != comparable[0]).any(0)].sum())
    others = texts[np.isnan(best[0])]
    return Guess(list(by_values.values()), int(fits.max()), int(rows.sum()), unclear, others)


def _readings(values: pd.Series, texts: pd.Series, rows: Ints) -> list[Reading]:
    """Return the ways to read these different texts of a column that are worth a try.

    rows  of each text
    """
    if values.dtype.kind == "M":
        return [Reading(DATE)]
    if values.dtype.kind == "m":
        return [Reading(NUMBER, TIME)]
    if len(texts) and texts.str.fullmatch(_COMPACT).all():
        return [Reading(DATE, "%Y%m%d")]
    if values.dtype.kind in "iuf":
        return [Reading(NUMBER)]
    digits_alone = texts.str.fullmatch("[0-9]+").all()
    if digits_alone and texts.str.fullmatch(_PADDED).any():  # postcodes, which are no numbers
        return []
    if set(texts.str.lower()) <= {"true", "false"}:
        return []
    sample = texts[:_SAMPLE]
    pointed = Reading(NUMBER, _notation(texts, rows, POINTED))
    commaed = Reading(NUMBER, _notation(texts, rows, COMMAED))
    numbers = _fitting([Reading(NUMBER), pointed, commaed], sample)
    times = [Reading(NUMBER, TIME), Reading(DATE)]
    return numbers or _fitting([*times, *_date_readings(sample)], sample)


def _fitting(readings: Sequence[Reading], sample: pd.Series) -> list[Reading]:
    """Return those readings that fit the most texts of a sample, if they are a quarter of it."""
    fits = np.isfinite([reading.numbers(sample) for reading in readings]).sum(axis=1)
    if fits.max() < max(1, len(sample) / 4):
        return []
    return list(compress(readings, fits == fits.max()))


def _notation(texts: pd.Series, rows: Ints, mark: str) -> str:
    """Return how 1234.5 is written in most rows, by the currency before and the unit behind it."""
    ends: Counter[tuple[str, str]] = Counter()
    for text, count in zip(texts[:_SAMPLE], rows[:_SAMPLE].tolist(), strict=True):
        parts = number_parts(text)
        if parts is not None:
            ends[parts[1], parts[3]] += count
    for (prefix, suffix), _ in ends.most_common():
        if (not prefix or _CURRENCY.fullmatch(prefix)) and (not suffix or _UNIT.fullmatch(suffix)):
            return f"{prefix}{mark}{suffix}"
    return mark


def _date_readings(sample: pd.Series) -> list[Reading]:
    """Return the formats of dates with marks as the first date of the sample has them."""
    match = next(filter(None, map(_DATE.fullmatch, sample)), None)
    if match is None:
        return [Reading(DATE, "%d%b%Y")]
    readings = []
    for order in _ORDERS:
        first, second, third = order.split()
        if first != "%y" or match[2] == "-":
            readings.append(Reading(DATE, f"{first}{match[2]}{second}{match[4]}{third}"))
    return readings
