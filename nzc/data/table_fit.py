"""Fit a TableEncoder to the public rows: kinds of columns, means, deviations, categories."""

import json
import re
import shlex
from base64 import b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress

import numpy as np
from pandas import DataFrame, Series

from nzc.data.standardizer import moments, near_values
from nzc.data.table_encoder import (
    LIMIT,
    PIECES,
    Category,
    Column,
    ColumnError,
    Date,
    Measured,
    Number,
    TableEncoder,
    Text,
    Time,
    texts,
    written,
)
from nzc.types import Floats

KINDS = ("number", "comma", "time", "category", "date", "text")
#: What the user may give in place of a kind: how a number or a date is written.
FORMAT = re.compile(r"1,234\.5|1\.234,5|%")
_IDENTIFIER = "it looks like an identifier"
_SAMPLE = 200  # different values of a column that show whether all are worth a try
#: Free text has at most so many axes, one for so many texts, and at most so many pieces of words.
_AXES = 64
_TEXTS = 5
_VOCABULARY = 10_000
#: The variance of free text, all axes together, where that of a number is 1: a text may tell as
#: much as several numbers, and noisy sums hear only what is a good part of a row's length.
_TEXT_VARIANCE = 8.0
#: Most of free text has so many words of letters, and these differ, also without words that have
#: digits: `note 638397` is no text. In scripts without spaces between words, two letters of
#: Chinese or Japanese count as one, and up to six letters and signs of Thai, Lao, Burmese or Khmer.
_WORDS = 5
_ASIAN = r"[\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ecd\u1000-\u103f\u1050-\u108f\u1780-\u17d3]"
_UNSPACED = (
    r"[\u3005\u3041-\u30fa\u30fc-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]{1,2}"
    rf"|{_ASIAN}{{1,6}}"
)
_WORD = rf"{_ASIAN}{{2,6}}|\b[^\W\d_]{{2,}}\b"
#: So many rows at the start of a file may be no records: questions or units.
_LINES = 3
#: So many values that are far from others are named.
_CODES = 5


class _Unused(Exception):
    """A column is not used for features; the message says why."""


def fit_encoder(
    public: DataFrame,
    kinds: Mapping[str, str],
    categories: int,
    missing: Sequence[str] = (),
    grouped: bool = False,
) -> tuple[TableEncoder, list[str]]:
    """Return the encoder of public rows; and where a guess may be wrong, and what to type then.

    kinds       of columns: number, comma, time, category, date, text, or a date format such as
                %d.%m.%Y; others are guessed
    categories  at most so many features for a column; the most frequent values have one of their
                own
    missing     texts that stood for a missing value, and are none in these rows
    grouped     whether a column says whom a row is about

    ColumnError: most values of a column are not of its given kind.
    """
    columns = []
    unused = {}
    doubts = []
    for name in public.columns:
        column = PublicColumn(public[name], kinds.get(name), categories, missing)
        try:
            columns.append(column.fit())
        except _Unused as why:
            unused[name] = str(why)
        doubts += column.doubts
    identifiers = [name for name, why in unused.items() if why.startswith(_IDENTIFIER)]
    if identifiers and not grouped:
        first = identifiers[0]
        doubts.append(
            f"{', '.join(identifiers)}: not used as features, {_IDENTIFIER}; "
            f"if it is a number, type {_typed(first, Number.kind)}; "
            f"if it is free text, type {_typed(first, Text.kind)}; "
            "if it says whom a row is about, as a patient number does, name it by dataset.group: "
            "without it, ε protects one row only"
        )
    return TableEncoder(columns, unused, missing), doubts


def _typed(name: str, kind: str) -> str:
    """Return what to type, in a shell, for a column of this kind."""
    item = json.dumps(f"{name}: {kind}", ensure_ascii=False)
    return shlex.quote(f"dataset.columns=[{item}]")


def no_records(public: DataFrame) -> list[str]:
    """Return a cell, the shortest, of each of the first rows that seems to be no record.

    These are questions or units: two columns of numbers or dates have something else, and none has
    a value.
    """
    columns = []
    for name in public:
        readings, wrong = PublicColumn(public[name][_LINES:][:_SAMPLE]).guess()
        if readings and not wrong:
            cells = Series(written(public[name][:_LINES]), dtype="str")
            columns.append(cells.mask(np.isfinite(readings[0].read(cells)[:, 0]), ""))
    found = []
    for row in zip(*columns, strict=True):
        cells = [cell for cell in row if isinstance(cell, str)]
        if len(cells) < 2 or "" in cells:
            break
        found += sorted(filter(str.isprintable, cells), key=len)[:1]
    return found


@dataclass
class PublicColumn:
    """The public values of one column, of a given kind or not (None), and what they become.

    texts   the different values that are not missing, as text
    rows    how many rows have each
    doubts  where the guess may be wrong, and what to type then
    """

    values: Series
    kind: str | None = None
    categories: int = 0
    missing: Sequence[str] = ()
    doubts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.name = str(self.values.name)
        self.given = self.kind is not None
        counts = Series(written(self.values), dtype="str").value_counts(sort=False)
        self.texts = Series(counts.index)
        self.rows = counts.to_numpy()

    def fit(self) -> Column:
        """Return the column with its features. _Unused: it has none."""
        if self.texts.empty:
            raise _Unused("it is empty")
        if self.rows[0] == len(self.values):
            raise _Unused("one value only")
        if self.kind == Text.kind:
            return self._text()
        readings, wrong = self.guess()
        if self.given:
            return self._measure(readings[0]) if readings else self._category()
        if len(readings) > 1:
            kinds = " or ".join(_typed(self.name, reading.typed) for reading in readings)
            self.doubts.append(
                f"{self.name} is not used, because its public values can be read in two ways: "
                f"type {kinds}"
            )
            raise _Unused("its values can be read in two ways")
        if 2 * wrong > self.rows.sum():
            return self._category()
        reading = readings[0]
        if reading == Number(self.name):  # without marks
            _check_no_names(reading.read(self.values)[:, 0])
        if not wrong:
            return self._measure(reading)
        self.doubts.append(
            f"{reading.complaint(wrong, len(self.values))}, in the public file: "
            f"type {_typed(self.name, reading.typed)} to take such values as missing, "
            f"or {_typed(self.name, Category.kind)}"
        )
        return self._category(nearly=True)

    def guess(self) -> tuple[Sequence[Measured], int]:
        """Return the readings that fit the most rows, and differ; and how many rows do not fit."""
        sample = self.texts[:_SAMPLE]
        kinds: list[type[Measured]] = [Number, Time, Date]
        numbers, times, dates = (kind.guesses(self.name, sample) for kind in kinds)
        if self.kind is None:
            if self.values.dtype.kind in "iuf":
                numbers = numbers[:1]
            readings = self._fitting(numbers, sample) or self._fitting(times + dates, sample)
        elif self.kind in KINDS:
            readings = [one for one in numbers + times + dates if one.typed == self.kind]
        else:
            formatted = Number if "234" in self.kind else Date
            readings = [formatted(self.name, self.kind)]

        rows = self.rows.sum()
        if not readings:
            return [], rows
        read = np.array([reading.read(self.texts)[:, 0] for reading in readings])
        fits = np.isfinite(read) @ self.rows
        read[fits < fits.max()] = np.nan
        _, unlike = np.unique(np.nan_to_num(read, nan=np.inf), axis=0, return_index=True)
        best = [readings[number] for number in sorted(unlike) if fits[number] == fits.max()]
        return best, rows - fits.max()

    def _fitting(self, readings: Sequence[Measured], sample: Series) -> Sequence[Measured]:
        """Return those readings that fit the most of a sample, if they are a quarter of it."""
        fits = [np.isfinite(reading.read(sample)[:, 0]).sum() for reading in readings]
        return list(compress(readings, fits == np.max([1, len(sample) / 4, *fits])))

    def _measure(self, reading: Measured) -> Column:
        """Return the column of values that are numbers or dates. _Unused: it has no features."""
        try:
            measures = reading.measured(self.values)
        except ColumnError as error:
            self.doubts.append(f"{error}, in the public file; they count as missing")
            measures = reading.measured(self.values, max(1, len(self.values) / 2))
        numbers = measures[:, 0]
        varying = np.fmin.reduce(measures) < np.fmax.reduce(measures)
        if not varying.any():
            raise _Unused("one value only")
        near = near_values(measures[:, varying])
        far = np.isnan(near[:, 0]) & np.isfinite(numbers)
        if far.any():
            codes = texts(self.values[far]).unique()[:_CODES].tolist()
            listed = json.dumps([*self.missing, *codes], ensure_ascii=False)
            self.doubts.append(
                f"{self.name} has values far from all others, {', '.join(codes)}, "
                f"in {far.sum():,} of {len(far):,} public rows: "
                f"they are cut at ±{LIMIT:g} deviations; if they stand for a missing value, in "
                f"every column, type {shlex.quote(f'dataset.missing={listed}')}"
            )
        mean, spread = moments(near)
        return replace(
            reading,
            parts=list(compress(reading.PARTS, varying)),
            mean=mean.tolist(),
            spread=spread.tolist(),
            missing=bool(np.isnan(numbers).any()),
            given=self.given,
        )

    def _category(self, nearly: bool = False) -> Column:
        """Return the column of categories, or of text that was not given. _Unused: it is neither.

        nearly  whether most are numbers or dates
        """
        names = texts(self.values)
        counts = Counter(names)
        if not self.given:
            if self._is_text():
                return self._text()
            if not nearly:
                _check_no_names(Series(names))
            if len(counts) > max(self.categories, len(names) / 2):
                raise _Unused("nearly every value differs")
        by_frequency = sorted(counts, key=lambda value: (-counts[value], str(value)))
        other = len(by_frequency) > self.categories
        values = by_frequency[: self.categories - other]
        return Category(self.name, values=values, other=other, given=self.given)

    def _is_text(self) -> bool:
        spaced = self.texts.str.replace(_UNSPACED, r" \g<0> ", regex=True)
        words = spaced.str.findall(_WORD)
        several = words.str.len().median() >= _WORDS
        return several and words.map(tuple).nunique() > max(32, len(self.values) / 5)

    def _text(self) -> Column:
        """Return the column of free text. _Unused: it has no features.

        Pieces of words are weighed by TF-IDF, and projected on the axes of a truncated singular
        value decomposition.
        """
        from sklearn.decomposition import TruncatedSVD  # takes a second to import
        from sklearn.feature_extraction.text import TfidfVectorizer

        present = written(self.values).dropna()
        vectorizer = TfidfVectorizer(
            analyzer="char_wb",
            ngram_range=PIECES,
            max_features=_VOCABULARY,
            min_df=2,
            sublinear_tf=True,
        )
        try:
            vectors = vectorizer.fit_transform(present)
        except ValueError:  # no piece is in two rows
            raise _Unused("its texts have nothing in common") from None
        pieces = vectorizer.get_feature_names_out().tolist()
        axes = min(_AXES, len(pieces), -(-len(present) // _TEXTS))
        with np.errstate(divide="ignore", invalid="ignore"):  # it divides by the variance
            reduced = TruncatedSVD(axes, random_state=0).fit(vectors)
        weights = np.column_stack([vectorizer.idf_, reduced.components_.T]).astype("<f4")
        column = Text(
            self.name,
            parts=[f"text {axis + 1}" for axis in range(axes)],
            values=pieces,
            weights=b64encode(weights.tobytes()).decode(),
            missing=len(present) < len(self.values),
            given=self.given,
        )
        numbers = column.numbers(Series(present))
        variances = numbers.var(axis=0)
        if variances.max() <= 1e-12:
            raise _Unused("one value only")
        # An axis counts as much more as texts differ more along it: what few records tell is there.
        factors = np.sqrt(_TEXT_VARIANCE * variances / (variances**2).sum())
        spread = 1 / np.maximum(factors, 1e-9)
        return replace(column, mean=numbers.mean(axis=0).tolist(), spread=spread.tolist())


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
        if (numbers % 1).any():
            return
        gaps = np.diff(numbers)
        many = values == rows or values > max(1000, rows / 2)
        scattered = np.median(gaps) > 5 * gaps.min()
        if not (many or scattered or numbers[0] > 5 * np.ptp(numbers)):
            return
    raise _Unused(f"{_IDENTIFIER} ({values:,} values in {rows:,} public rows)")
