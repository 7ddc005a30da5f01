"""Fit a TableEncoder to the public rows: which columns are numbers, categories or dates, their means and deviations."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

import numpy as np
import pandas as pd

from nzc.data.standardizer import moments
from nzc.data.table_encoder import CATEGORY, COMMA, DATE, NUMBER, Column, ColumnError, TableEncoder, different, measured
from nzc.types import Floats

KINDS = (NUMBER, COMMA, CATEGORY, DATE)
#: Names that Hydra reads without quotes.
_PLAIN = re.compile(r"[A-Za-z_][\w .-]*", re.ASCII)
_IDENTIFIER = "it looks like an identifier"


def fit_encoder(
    public: pd.DataFrame, kinds: Mapping[str, str], categories: int, missing: Sequence[str] = ()
) -> TableEncoder:
    """Return the encoder of public rows; ColumnError: a column has values that its given kind does not allow.

    kinds       of columns: number, category, date, or a date format such as %d.%m.%Y; others are guessed
    categories  at most so many features for a column; the most frequent values have one of their own
    missing     texts that stood for a missing value, and are none in these rows
    """
    fitted = {name: _fit(public[name], kinds.get(name), categories) for name in public.columns}
    columns = [column for column in fitted.values() if isinstance(column, Column)]
    return TableEncoder(columns, {name: why for name, why in fitted.items() if isinstance(why, str)}, missing)


def remedy(name: str, kind: str) -> str:
    """Return what to type where a column is of this kind, up to a few values."""
    file = f'set columns: {{"{name}": {kind}}} in conf/dataset/mine.yaml'  # Hydra reads no such name in {}
    typed = f"type 'dataset.columns={{{name}: {kind}}}'" if _PLAIN.fullmatch(name) else file
    return f"{typed} to take such values as missing"


def doubts(public: pd.DataFrame, encoder: TableEncoder, grouped: bool) -> Iterator[str]:
    """Yield where a guess may be wrong, and what to type then. Only public rows decide."""
    found = {name: why for name, why in encoder.unused.items() if why.startswith(_IDENTIFIER)}
    sure = {column.name for column in encoder.columns if column.kind != CATEGORY or column.given}
    for name in [name for name in public if name not in sure | found.keys()]:
        numbers = _parsed(public[name], NUMBER, given=True)
        if numbers is not None and (wrong := int((np.isnan(numbers) & public[name].notna()).sum())):
            why = f"{wrong:,} of {len(public):,} public values {'is' if wrong == 1 else 'are'} not numeric"
            yield f"{name} is not used as a number, because {why}; {remedy(name, NUMBER)}"
    if found and not grouped:
        most = min(found, key=lambda name: public[name].nunique())
        every = f"; so do {', '.join(sorted(found.keys() - {most}))}" if len(found) > 1 else ""
        group, *drop = [name if _PLAIN.fullmatch(name) else f'"{name}"' for name in (most, *found)]
        unless = f"If it says whom a row is about, type 'dataset.group={group}': without it, ε protects one row only"
        otherwise = f"If not, type 'dataset.drop=[{','.join(drop)}]'"
        yield f"{most} is not used, because {found[most]}{every}. {unless}. {otherwise}"


def _fit(values: pd.Series, kind: str | None, categories: int) -> Column | str:
    """Return the column of public values, or why it is not used."""
    if pd.api.types.infer_dtype(values, skipna=True) == "mixed":
        return "its values are lists or other objects"
    given, format = kind is not None, None
    if kind is not None and (kind == COMMA or "%" in kind):
        kind, format = (NUMBER if kind == COMMA else DATE), kind
    if (kind := kind or _guess(values)) == CATEGORY:
        return _category(values, categories, given)
    every = measured(values, kind, format, given)
    numbers = next(iter(every.values()))
    if (missing := np.isnan(numbers)).all():
        return "it is empty"
    if kind == NUMBER and not given and (why := _identifies(numbers)):
        return why
    parts = {part: numbers for part, numbers in every.items() if np.nanmin(numbers) < np.nanmax(numbers)}
    if not parts:
        return "one value only"
    mean, spread = zip(*(map(float, moments(numbers)) for numbers in parts.values()), strict=True)
    return Column(str(values.name), kind, format, list(parts), mean, spread, missing=bool(missing.any()), given=given)


def _category(values: pd.Series, categories: int, given: bool) -> Column | str:
    """Return the column of values that are categories, or why it is not used."""
    codes, names = different(values)
    counts = Counter(names[codes])
    if len(counts) <= 1:
        return "one value only" if any(counts) else "it is empty"
    if not given:
        numbers = _parsed(values, NUMBER, given=True)
        if why := _identifies(pd.Series(names[codes]) if numbers is None else numbers):
            return why
        if len(counts) > max(categories, len(values) / 2):
            return "nearly every value differs"
    own = [value for value, _ in sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))]  # frequent first
    kept = own if len(own) <= categories else own[: categories - 1]
    return Column(str(values.name), CATEGORY, values=kept, other=len(kept) < len(own), given=given)


def _identifies(column: "Floats | pd.Series") -> str | None:
    """Return why numbers or texts look like those of an identifier; None: they do not.

    No value is frequent; and numbers are whole, and more than measured ones would be, or scattered instead of on a
    grid, or far from 0.
    """
    counts = pd.Series(column).value_counts()  # without missing values
    rows, values = counts.sum(), len(counts)
    if values <= max(32, rows / 5) or counts.max() > max(10, rows / 200):
        return None
    if isinstance(column, np.ndarray):
        numbers = np.sort(counts.index)
        gaps = np.diff(numbers)
        unlike = values == rows or values > max(1000, rows / 2) or np.median(gaps) > 5 * gaps.min()
        unlike |= numbers[0] > 5 * np.ptp(numbers)  # numbers that were given one after another
        if not unlike or (numbers != np.floor(numbers)).any():
            return None
    return f"{_IDENTIFIER} ({values:,} values in {rows:,} public rows)"


def _parsed(values: pd.Series, kind: str, given: bool = False) -> Floats | None:
    """Return the values as numbers, or dates in days, NaN where one is missing; None: they are no such values."""
    with suppress(ColumnError, TypeError):  # lists and other objects are no values of a table
        measured(values[:1000], kind, None, given)  # text is known by its first rows
        return next(iter(measured(values, kind, None, given).values()))
    return None


def _guess(values: pd.Series) -> str:
    """Return number or date where every value that is not missing is one; else category."""
    kinds = (NUMBER, DATE) if pd.api.types.infer_dtype(values, skipna=True) != "boolean" else ()
    return next((kind for kind in kinds if _parsed(values, kind) is not None), CATEGORY)
