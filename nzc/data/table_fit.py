"""Fit a TableEncoder to the public rows: kinds of columns, means, deviations, categories."""

import json
import re
import shlex
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import NamedTuple

import numpy as np
from pandas import DataFrame, Series
from pandas.api.types import infer_dtype

from nzc.data.sentences import Sentences
from nzc.data.standardizer import moments, near_values
from nzc.data.table_encoder import (
    COMMAED,
    LIMIT,
    PIECES,
    POINTED,
    TIME,
    Category,
    Column,
    ColumnError,
    Date,
    Measured,
    Number,
    TableEncoder,
    Text,
    Vectors,
    distinct,
    number_parts,
    plain_texts,
    written,
)
from nzc.types import Floats, Ints

_IDENTIFIER = "it looks like an identifier"
#: Signs and names of currencies that may stand before a number.
_CURRENCY = re.compile(
    r"[A-Za-z]{0,3}[$\u00a2-\u00a5\u20a0-\u20cf]|Fr\.|kr\.?|Rs\.?|zł|Kč|Ft|"
    r"AUD|BRL|CAD|CHF|CNY|CZK|DKK|EUR|GBP|HKD|HUF|IDR|ILS|INR|JPY|KRW|MXN|MYR|NOK|NZD|PHP|PLN|RON|"
    r"RUB|SEK|SGD|THB|TRY|UAH|USD|ZAR"
)
#: What may stand behind a number: nothing, or a unit such as %, °C, mg/dl. Days are durations, and
#: pm is a time.
_UNIT = re.compile(
    r"(?!(?i:days?|[ap]\.?m\.?|uhr)$)"
    r"(?:[^\W\d_\u00b2\u00b3\u00b9\u00bc-\u00be\u2150-\u215f]|[%‰°$\u00a2-\u00a5\u20a0-\u20cf])"
    r".{0,11}|"
)
#: Orders of the three parts of a date; a year of two digits comes last, or first between hyphens.
_ORDERS = (
    "%d{}%m{}%Y %m{}%d{}%Y %Y{}%m{}%d %d{}%m{}%y %m{}%d{}%y %d{}%b{}%Y %b{}%d{}%Y %Y{}%b{}%d "
    "%d{}%B{}%Y %B{}%d{}%Y %d{}%b{}%y %b{}%d{}%y"
)
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
#: Of that, the share of pieces of words where a sentence encoder's vectors have the rest. Own
#: trials with customer reviews and phrases of news (MPQA): a half costs points, none some too.
_PIECES_SHARE = 0.25
#: Most of free text has so many words of letters, and these differ, also without words that have
#: digits: `note 638397` is no text. In scripts without spaces between words, two letters of
#: Chinese or Japanese count as one, and up to six letters and signs of Thai, Lao, Burmese or Khmer.
_WORDS = 5
_WORD = r"\b[^\W\d_]{2,}\b"
#: So many rows at the start or the end of a file may be no records: questions, units, totals.
_LINES = 3
_ASIAN = r"[\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ecd\u1000-\u103f\u1050-\u108f\u1780-\u17d3]"
_UNSPACED = (
    r"[\u3005\u3041-\u30fa\u30fc-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]{1,2}"
    rf"|{_ASIAN}{{1,6}}"
)
_WORD = rf"{_ASIAN}{{2,6}}|\b[^\W\d_]{{2,}}\b"
#: So many values that are far from others are named.
_CODES = 5
#: What the last rows of an export may say in place of a record.
_TOTAL = re.compile(
    r"(?:(?:grand |sub)?totals?|sum|average|mean|summe|(?:ins)?gesamt(?:summe)?|mittelwert|totale?|"
    r"totaal|suma|итого|合计|合計|总计|小计|共计)[\s\d:]*(?:\(.*\))?",
    re.IGNORECASE,
)
#: Whole numbers between these are years, and no names.
_YEARS = (1800, 2100)


class _Unused(Exception):
    """A column is not used for features; the message says why."""


class Guess(NamedTuple):
    """What the texts of a column can be read as.

    readings  those that fit the most rows, and differ
    fitting   rows that they fit
    wrong     rows that have another value
    unclear   rows whose value the readings take differently
    others    the different texts that they do not fit
    """

    readings: Sequence[Measured]
    fitting: int
    wrong: int
    unclear: int
    others: Series

    @property
    def nearly(self) -> bool:
        """Whether at least half of the rows fit, but not all."""
        return 0 < self.wrong <= self.fitting


def fit_encoder(
    public: DataFrame,
    kinds: Mapping[str, str],
    categories: int,
    missing: Sequence[str] = (),
    sentences: Sentences | None = None,
) -> TableEncoder:
    """Return the encoder of public rows.

    kinds       of columns: number, comma, time, category, date, text, or a date format such as
                %d.%m.%Y; others are guessed
    categories  at most so many features for a column; the most frequent values have one of their
                own
    missing     texts that stood for a missing value, and are none in these rows
    sentences   what turns free text into vectors; None: its pieces of words alone count

    ColumnError: most values of a column are not of its given kind.
    """
    columns = []
    unused = {}
    for name in public.columns:
        try:
            column = _fit(public[name], kinds.get(name), categories)
            if isinstance(column, Text) and sentences is not None:
                column = _vectors(public[name], column, sentences)
            columns.append(replace(column, name=str(name), given=name in kinds))
        except _Unused as why:
            unused[name] = str(why)
    return TableEncoder(columns, unused, missing)


def to_type(name: object, kind: str) -> str:
    """Return what to type, in a shell, for a column of this kind."""
    item = json.dumps(f"{name}: {kind}", ensure_ascii=False)
    return shlex.quote(f"dataset.columns=[{item}]")


def no_records(public: DataFrame) -> list[str]:
    """Return a cell of each row that seems to be no record, among the first and the last rows."""
    rows = [*_below_header(public), *_totals(public)]
    return list(filter(None, [_own_cell(words, public) for words in rows]))


def _below_header(public: DataFrame) -> Iterator[list[str]]:
    """Yield the words of each first row that has two in columns of numbers or dates, and no value.

    These are questions or units.
    """
    columns = []
    for name in public:
        guess = _guess(public[name][_LINES:][:_SAMPLE])
        if guess.readings and not guess.wrong:
            texts = Series(written(public[name][:_LINES]), dtype="str")
            words = texts.where(texts.str.count(r"[^\W\d_]") > texts.str.count(r"\d"))
            columns.append(words.mask(np.isfinite(guess.readings[0].parsed(texts)[:, 0]), ""))
    for row in zip(*columns, strict=True):
        words = [cell for cell in row if isinstance(cell, str)]
        if len(words) < 2 or "" in words:
            break
        yield words


def _totals(public: DataFrame) -> Iterator[list[str]]:
    """Yield the words of each last row that says that it is a total."""
    for row in zip(*(written(public[name][-_LINES:]) for name in public), strict=True):
        words = [cell for cell in row if _TOTAL.fullmatch(cell or "")]
        if row[0] in words or None in row:
            yield words


def _own_cell(cells: list[str], public: DataFrame) -> str:
    """Return the shortest cell that can be typed and that the table has once; "": there is none.

    A code for a missing value is in several rows.
    """
    for cell in sorted(cells, key=len):
        times = sum((written(public[name]) == cell).sum() for name in public)
        if times == 1 and cell.isprintable() and not {*cell} & {*"\\$"}:
            return cell
    return ""


def doubts(public: DataFrame, encoder: TableEncoder, grouped: bool) -> Iterator[str]:
    """Yield where a guess may be wrong, and what to type then. Only public rows decide."""
    columns = {column.name: column for column in encoder.columns}
    identifiers = []
    for name in public:
        if encoder.unused.get(name, "").startswith(_IDENTIFIER):
            identifiers.append(name)
            continue
        match columns.get(name):
            case None | Category(given=False):
                yield from _doubts(public[name])
            case Measured() as column:
                yield from _strange(public[name], column, encoder.missing)
    if identifiers and not grouped:
        first = identifiers[0]
        yield (
            f"{', '.join(identifiers)}: not used as features, {_IDENTIFIER}; "
            f"if it is a number, type {to_type(first, 'number')}; "
            f"if it is free text, type {to_type(first, 'text')}; "
            "if it says whom a row is about, as a patient number does, name it by dataset.group: "
            "without it, ε protects one row only"
        )


def _strange(values: Series, column: Measured, missing: Sequence[str]) -> Iterator[str]:
    """Yield how many values of numbers or dates are not of the given kind, or far from others."""
    try:
        column.measured(values)
    except ColumnError as error:
        yield f"{error}, in the public file; they count as missing"
    numbers = column.measured(values, len(values))[:, 0]
    far = np.isnan(near_values(numbers)) > np.isnan(numbers)
    if far.any():
        codes = plain_texts(values[far]).unique()[:_CODES].tolist()
        listed = json.dumps([*missing, *codes], ensure_ascii=False)
        yield (
            f"{column.name} has values far from all others, {', '.join(codes)}, "
            f"in {far.sum():,} of {len(values):,} public rows: "
            f"they are cut at ±{LIMIT:g} deviations; if they stand for a missing value, in every "
            f"column, type {shlex.quote(f'dataset.missing={listed}')}"
        )


def _doubts(values: Series) -> Iterator[str]:
    """Yield what to type for a column of no number or date, if it may be one."""
    name = values.name
    guess = _guess(values)
    if guess.unclear:
        kinds = " or ".join(to_type(name, reading.typed) for reading in guess.readings)
        yield (
            f"{name} is not used, because {guess.unclear:,} of {len(values):,} public values "
            f"can be read in two ways: type {kinds}"
        )
    elif guess.nearly:
        reading = guess.readings[0]
        advice = f"type {to_type(name, reading.typed)} to take such values as missing"
        if guess.others.str.match("[^#]*[0-9]").any():  # Excel has #DIV/0!
            advice = f"write them alike in all files, or type {to_type(name, 'category')}"
        yield (
            f"{name} is not used as a {reading.kind}, because {guess.wrong:,} of {len(values):,} "
            f"public values are no {reading.plural}; {advice}"
        )


def _fit(values: Series, kind: str | None, categories: int) -> Column:
    """Return the column of public values. _Unused: it has no features."""
    if infer_dtype(values, skipna=True) == "mixed":
        raise _Unused("its values are lists or other objects")
    if written(values).isna().all():
        raise _Unused("it is empty")
    if kind in TEXTS:
        return TEXTS[kind](values)
    guess = _guess(values, kind)
    given = kind is not None
    if guess.unclear and not given:
        raise _Unused("its values can be read in two ways")
    if not guess.readings or (guess.wrong and not given):
        return _category(values, categories, given, guess)
    return _measures(values, guess.readings[0], given)


def _measures(values: Series, reading: Measured, given: bool) -> Column:
    """Return the column of values that are numbers or dates. _Unused: it has no features."""
    measures = reading.measured(values, max(1, len(values) / 2))
    numbers = measures[:, 0]
    if isinstance(reading, Number) and not given:
        digits = Series(written(values)).dropna().str.count("[0-9]")
        alike = digits.min() == digits.max() >= 6  # as those of phone numbers
        if reading.format is None or (alike and not _CURRENCY.search(reading.format)):
            _check_no_names(numbers)
    varying = np.fmin.reduce(measures) < np.fmax.reduce(measures)
    if not varying.any():
        raise _Unused("one value only")
    mean, spread = moments(near_values(measures[:, varying]))
    return replace(
        reading,
        parts=list(compress(reading.PARTS, varying)),
        mean=mean.tolist(),
        spread=spread.tolist(),
        missing=bool(np.isnan(numbers).any()),
    )


def _category(values: Series, categories: int, given: bool, guess: Guess) -> Column:
    """Return the column of values that are categories. _Unused: it has no features."""
    names = plain_texts(values)
    counts = Counter(names)
    if len(counts) == 1:
        raise _Unused("one value only")
    if not given:
        different = plain_texts(distinct(values)[1]).dropna()
        words = different.str.replace(_UNSPACED, r" \g<0> ", regex=True).str.findall(_WORD)
        several = words.str.len().median() >= _WORDS
        if several and words.map(tuple).nunique() > max(32, len(values) / 5):
            return _text(values)
        if not guess.nearly:
            _check_no_names(names)
        elif guess.readings[0] == Number():
            _check_no_names(guess.readings[0].parsed(values)[:, 0])
        if len(counts) > max(categories, len(values) / 2):
            raise _Unused("nearly every value differs")
    by_frequency = sorted(counts, key=lambda value: (-counts[value], str(value)))
    other = len(by_frequency) > categories
    return Category(by_frequency[: categories - other], other)


def _text(values: Series) -> Column:
    """Return the column of free text. _Unused: it has no features.

    Pieces of words are weighed by TF-IDF, and projected on the axes of a truncated singular value
    decomposition.
    """
    from sklearn.decomposition import TruncatedSVD  # takes a second to import
    from sklearn.feature_extraction.text import TfidfVectorizer

    names = written(values)
    texts = names.dropna()
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
        raise _Unused("its texts have nothing in common") from None
    pieces = vectorizer.get_feature_names_out().tolist()
    axes = min(_AXES, len(pieces), -(-len(texts) // _TEXTS))
    with np.errstate(divide="ignore", invalid="ignore"):  # it divides by the variance
        reduced = TruncatedSVD(axes, random_state=0).fit(vectors)
    weights = np.column_stack([vectorizer.idf_, reduced.components_.T]).astype("<f4")
    column = Text(
        pieces,
        b64encode(weights.tobytes()).decode(),
        parts=[f"text {axis + 1}" for axis in range(axes)],
        missing=len(texts) < len(names),
    )
    numbers = column.numbers(Series(texts))
    variances = numbers.var(axis=0)
    if variances.max() <= 1e-12:
        raise _Unused("one value only")
    # An axis counts as much more as texts differ more along it: what few records tell is there.
    factors = np.sqrt(_TEXT_VARIANCE * variances / (variances**2).sum())
    spread = 1 / np.maximum(factors, 1e-9)
    return replace(column, mean=numbers.mean(axis=0).tolist(), spread=spread.tolist())


def _vectors(values: Series, pieces: Text, sentences: Sentences) -> Column:
    """Return the column of free text as vectors of a sentence encoder, beside its pieces of words.

    Vectors keep their natural lengths: texts differ most along the axes on which they differ by
    what they mean.
    """
    vectors = sentences(list(written(distinct(values)[1]).dropna()))
    variance = vectors.var(axis=0).sum()
    spread = np.sqrt(variance / (_TEXT_VARIANCE * (1 - _PIECES_SHARE)))
    dimensions = vectors.shape[1]
    return Vectors(
        pieces.values,
        pieces.weights,
        model=sentences.name,
        digest=sentences.digest,
        parts=[*(f"vector {axis + 1}" for axis in range(dimensions)), *pieces.parts],
        mean=[*vectors.mean(axis=0).tolist(), *pieces.mean],
        spread=[float(spread)] * dimensions + [each / _PIECES_SHARE**0.5 for each in pieces.spread],
        missing=pieces.missing,
    )


def _check_no_names(column: Floats | Series) -> None:
    """Raise _Unused where numbers or texts look like those of an identifier.

    No value is frequent; and numbers are whole, and more than measured ones would be, or scattered
    instead of on a grid, or far from 0.
    """
    counts = Series(column).value_counts()  # without missing values
    rows = counts.sum()
    values = len(counts)
    if values <= max(32, rows / 5) or counts.max() > max(10, rows / 200):
        return
    if isinstance(column, np.ndarray):
        numbers = np.sort(counts.index)
        are_years = _YEARS[0] <= numbers[0] <= numbers[-1] <= _YEARS[1]
        if are_years or (numbers % 1).any():
            return
        gaps = np.diff(numbers)
        many = values == rows or values > max(1000, rows / 2)
        scattered = np.median(gaps) > 5 * gaps.min()
        if not (many or scattered or numbers[0] > 5 * np.ptp(numbers)):
            return
    raise _Unused(f"{_IDENTIFIER} ({values:,} values in {rows:,} public rows)")


def _guess(values: Series, kind: str | None = None) -> Guess:
    """Return the readings of a column, or those of a given kind, that fit the most rows and differ.

    Only values of the column decide.
    """
    codes, unique = distinct(values)
    names = written(unique)
    present = names.notna()
    texts = Series(names[present], dtype="str")
    rows = np.bincount(codes, minlength=len(names))[present]
    given: dict[str, list[Measured]] = {
        "number": [Number(), Number(_notation(texts, rows, POINTED))],
        "comma": [Number(_notation(texts, rows, COMMAED))],
        "time": [Number(TIME)],
        "date": [Date()],
        "category": [],
    }
    if kind is None:
        readings = _readings(values, texts, given["number"] + given["comma"])
    else:
        readings = given.get(kind, [Date(kind)])
    if not readings:
        return Guess([], 0, len(values), 0, texts)
    read = np.nan_to_num([reading.parsed(texts)[:, 0] for reading in readings], nan=np.inf)
    fits = np.isfinite(read) @ rows
    best = fits == fits.max()
    readings = list(compress(readings, best))
    read = read[best]
    _, unlike = np.unique(read, axis=0, return_index=True)
    unclear = (read != read[0]).any(axis=0) & (len(rows) > 1)
    return Guess(
        [readings[number] for number in sorted(unlike)],
        fits.max(),
        rows.sum() - fits.max(),
        unclear @ rows,
        texts[np.isinf(read[0])],
    )


def _readings(values: Series, texts: Series, numbers: list[Measured]) -> list[Measured]:
    """Return the ways to read these different texts of a column that are worth a try.

    numbers  those that are numbers
    """
    by_type = {"M": Date(), "m": Number(TIME)}
    if values.dtype.kind in by_type:
        return [by_type[values.dtype.kind]]
    if len(texts) and texts.str.fullmatch(_COMPACT).all():
        return [Date("%Y%m%d")]
    if values.dtype.kind in "iuf":
        return [Number()]
    digits_alone = texts.str.fullmatch("[0-9]+").all()
    postcodes = digits_alone and texts.str.fullmatch(_PADDED).any()
    if postcodes or texts.str.fullmatch("(?i)true|false").all():
        return []
    sample = texts[:_SAMPLE]
    readings = [Number(TIME), Date(), Date("%d%b%Y")]
    match = next(filter(None, map(_DATE.fullmatch, sample)), None)  # the first date with marks
    if match is not None:
        orders = _ORDERS.split()
        if match[2] == "-":
            orders.append("%y{}%m{}%d")
        readings += [Date(order.format(match[2], match[4])) for order in orders]
    return _fitting(numbers, sample) or _fitting(readings, sample)


def _fitting(readings: Sequence[Measured], sample: Series) -> list[Measured]:
    """Return those readings that fit the most texts of a sample, if they are a quarter of it."""
    fits = np.isfinite([reading.parsed(sample)[:, 0] for reading in readings]).sum(axis=1)
    return list(compress(readings, fits == max(1, len(sample) / 4, fits.max())))


def _notation(texts: Series, rows: Ints, mark: str) -> str:
    """Return how 1234.5 is written in most rows, by the currency before and the unit behind it."""
    ends = Counter[tuple[str, str]]()
    for text, count in zip(texts[:_SAMPLE], rows, strict=False):
        parts = number_parts(text)
        if parts is not None:
            ends[parts[1], parts[3]] += count
    for (prefix, suffix), _ in ends.most_common():
        if (not prefix or _CURRENCY.fullmatch(prefix)) and _UNIT.fullmatch(suffix):
            return f"{prefix}{mark}{suffix}"
    return mark


#: How free text is fitted, by the kind that a user types.
TEXTS = {"text": _text}
#: The kinds that a user may type.
KINDS = ("number", "comma", "time", "category", "date", *TEXTS)
