"""Fit a TableEncoder to the public rows: which columns are numbers, categories or dates, their means and deviations."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np
import pandas as pd

from nzc.data import table_encoder
from nzc.data.standardizer import moments
from nzc.data.table_encoder import CATEGORY, COMMA, DATE, NUMBER, Column, ColumnError, TableEncoder, measured


def fit_encoder(
    public: pd.DataFrame, kinds: Mapping[str, str], categories: int, missing: Sequence[str] = ()
) -> TableEncoder:
    """Return the encoder of public rows.

    kinds       of columns: number, category, date, or a date format such as %d.%m.%Y; others are guessed
    categories  at most so many features for a column; the most frequent values have one of their own

    ColumnError: a column has values that its given kind does not allow.
    """
    public = table_encoder.blanked(public, missing)
    fitted = {name: _fit(public[name], kinds.get(name), categories) for name in public.columns}
    columns = [column for column in fitted.values() if isinstance(column, Column)]
    return TableEncoder(columns, {name: why for name, why in fitted.items() if isinstance(why, str)}, missing)


def _fit(values: pd.Series, kind: str | None, categories: int) -> Column | str:
    """Return the column of public values, or why it is not used."""
    if pd.api.types.infer_dtype(values, skipna=True) == "mixed":
        return "its values are lists or other objects"
    name, text = str(values.name), table_encoder.texts(values)
    counts = text.value_counts(dropna=False)
    if len(counts) <= 1:
        return "it is empty" if text.isna().all() else "one value only"
    format = kind if kind == COMMA or (kind is not None and "%" in kind) else None
    kind = (NUMBER if kind == COMMA else DATE) if format else kind or _guess(values)
    if kind == CATEGORY:
        if len(counts) > max(categories, len(text) / 2):
            return "nearly every value differs"
        ordered = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))  # the most frequent first
        own = [None if pd.isna(value) else str(value) for value, _ in ordered]
        kept = own if len(own) <= categories else own[: categories - 1]
        return Column(name, CATEGORY, values=kept, other=len(kept) < len(own))
    every = measured(values, kind, format)
    parts = {part: numbers for part, numbers in every.items() if np.nanmin(numbers) < np.nanmax(numbers)}
    if not parts:
        return "one value only"
    mean, spread = zip(*(map(float, moments(numbers)) for numbers in parts.values()), strict=True)
    missing = bool(np.isnan(next(iter(parts.values()))).any())
    return Column(name, kind, format, list(parts), mean, spread, missing=missing)


def _guess(values: pd.Series) -> str:
    """Return number or date where every value that is not missing is one; else category."""
    for kind in (NUMBER, DATE) if pd.api.types.infer_dtype(values, skipna=True) != "boolean" else ():
        with suppress(ColumnError):
            measured(values, kind, None)
            return kind
    return CATEGORY
