"""Fit a TableEncoder to the public rows: which columns are numbers, categories or dates, their means and deviations."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

import numpy as np
import pandas as pd

from nzc.data.standardizer import moments
from nzc.data.table_encoder import CATEGORY, COMMA, DATE, NUMBER, Column, ColumnError, TableEncoder, different, measured
from nzc.types import Floats, Ints

#: Names that Hydra reads without quotes.
_PLAIN = re.compile(r"[A-Za-z_][\w .-]*", re.ASCII)
_IDENTIFIER = "it looks like an identifier"


def fit_encoder(
    public: pd.DataFrame, kinds: Mapping[str, str], categories: int, missing: Sequence[str] = ()
) -> TableEncoder:
    """Return the encoder of public rows.

    kinds       of columns: number, category, date, or a date format such as %d.%m.%Y; others are guessed
    categories  at most so many features for a column; the most frequent values have one of their own
    missing     texts that stood for a missing value, and are none in these rows

    ColumnError: a column has values that its given kind does not allow.
    """
    fitted = {name: _fit(public[name], kinds.get(name), categories) for name in public.columns}
    columns = [column for column in fitted.values() if isinstance(column, Column)]
    return TableEncoder(columns, {name: why for name, why in fitted.items() if isinstance(why, str)}, missing)


def doubts(public: pd.DataFrame, encoder: TableEncoder, grouped: bool) -> Iterator[str]:
    """Yield where a guess may be wrong, and what to type then. Only public rows decide."""
    sure = {column.name for column in encoder.columns if column.kind != CATEGORY or column.given}
    for name in [name for name in public if name not in sure and _IDENTIFIER not in encoder.unused.get(name, "")]:
        numbers = _nearly(public[name])
        if numbers is not None and (wrong := int((np.isnan(numbers) & public[name].notna()).sum())):
            why = f"{wrong:,} of {len(public):,} public values {'is' if wrong == 1 else 'are'} not numeric"
            yield f"{name} is not used as a number, because {why}; {remedy(name, NUMBER)}"
    found = {name: why for name, why in encoder.unused.items() if why.startswith(_IDENTIFIER)}
    if found and not grouped:
        most = min(found, key=lambda name: public[name].nunique())
        every = f"; so do {', '.join(sorted(found.keys() - {most}))}" if len(found) > 1 else ""
        group, *typed = [name if _PLAIN.fullmatch(name) else f'"{name}"' for name in (most, *found)]
        unless = f"If it says whom a row is about, type 'dataset.group={group}': without it, ε protects one row only"
        unused = f"{most} is not used, because {found[most]}{every}"
        yield f"{unused}. {unless}. If not, type 'dataset.drop=[{','.join(typed)}]'"


def remedy(name: str, kind: str) -> str:
    """Return what to type so that values of the column that are not of this kind count as missing."""
    file = f'set columns: {{"{name}": {kind}}} in conf/dataset/mine.yaml'  # Hydra reads no such name in {}
    typed = f"type 'dataset.columns={{{name}: {kind}}}'" if _PLAIN.fullmatch(name) else file
    return f"{typed} to take such values as missing"


def _fit(values: pd.Series, kind: str | None, categories: int) -> Column | str:
    """Return the column of public values, or why it is not used."""
    if pd.api.types.infer_dtype(values, skipna=True) == "mixed":
        return "its values are lists or other objects"
    given = kind is not None
    format = kind if kind == COMMA or (kind is not None and "%" in kind) else None
    kind = (NUMBER if kind == COMMA else DATE) if format else kind or _guess(values)
    if kind == CATEGORY:
        return _category(values, categories, given)
    every = measured(values, kind, format, given)
    numbers = next(iter(every.values()))
    if (missing := np.isnan(numbers)).all():
        return "it is empty"
    if kind == NUMBER and not given and (why := _identifies(*np.unique(numbers[~missing], return_counts=True))):
        return why
    parts = {part: numbers for part, numbers in every.items() if np.nanmin(numbers) < np.nanmax(numbers)}
    if not parts:
        return "one value only"
    mean, spread = zip(*(map(float, moments(numbers)) for numbers in parts.values()), strict=True)
    return Column(str(values.name), kind, format, list(parts), mean, spread, missing=bool(missing.any()), given=given)


def _category(values: pd.Series, categories: int, given: bool) -> Column | str:
    """Return the column of values that are categories, or why it is not used."""
    codes, names = different(values)
    counts: Counter[str | None] = Counter()
    for value, count in zip(names, np.bincount(codes).tolist(), strict=True):
        counts[value] += count
    if len(counts) <= 1:
        return "one value only" if any(counts) else "it is empty"
    if not given:
        numbers = _nearly(values)
        if numbers is None:
            why = _identifies(None, np.array([count for value, count in counts.items() if value is not None]))
        else:
            why = _identifies(*np.unique(numbers[~np.isnan(numbers)], return_counts=True))
        if why:
            return why
        if len(counts) > max(categories, len(values) / 2):
            return "nearly every value differs"
    own = [value for value, _ in sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))]  # frequent first
    kept = own if len(own) <= categories else own[: categories - 1]
    return Column(str(values.name), CATEGORY, values=kept, other=len(kept) < len(own), given=given)


def _identifies(numbers: Floats | None, counts: Ints) -> str | None:
    """Return why values look like those of an identifier: none is frequent; numbers are whole, and more than measured
    ones would be, or scattered instead of on a grid, or far from 0. None: they do not.

    numbers  the different values in order; None: they are texts
    counts   how often each stands in the column
    """
    rows, values = counts.sum(), len(counts)
    if values <= max(32, rows / 5) or counts.max() > max(10, rows / 200):
        return None
    if numbers is not None:
        gaps = np.diff(numbers)
        unlike = values == rows or values > max(1000, rows / 2) or np.median(gaps) > 5 * gaps.min()
        unlike |= numbers[0] > 5 * np.ptp(numbers)  # numbers that were given one after another
        if not unlike or (numbers != np.floor(numbers)).any():
            return None
    return f"{_IDENTIFIER} ({values:,} values in {rows:,} public rows)"


def _nearly(values: pd.Series) -> Floats | None:
    """Return the numbers of a column, NaN where a value is none; None: most values are no numbers."""
    with suppress(ColumnError):
        measured(values[:1000], NUMBER, None, given=True)  # text is known by its first rows
        return measured(values, NUMBER, None, given=True)[""]
    return None


def _guess(values: pd.Series) -> str:
    """Return number or date where every value that is not missing is one; else category."""
    for kind in (NUMBER, DATE) if pd.api.types.infer_dtype(values, skipna=True) != "boolean" else ():
        with suppress(ColumnError):
            measured(values[:1000], kind, None)  # text is known by its first rows
            measured(values, kind, None)
            return kind
    return CATEGORY
