"""Turn records of named columns into features. This file needs NumPy and pandas only; it is published with students."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

NUMBER, CATEGORY, DATE = "number", "category", "date"
#: Standardised numbers are cut here, so that one absurd value does not outweigh all other features.
LIMIT = 10.0


@dataclass(frozen=True)
class Column:
    """How one column becomes features; everything was measured on the public rows.

    kind     number: itself; date: its parts; both standardised, and 0 where missing. category: a feature for each value
    format   of dates, as for strptime; None: ISO 8601
    parts    number: itself; date: those of DATE_PARTS that vary
    mean     [parts]; spread [parts]: standard deviation
    values   categories with a feature of their own. None stands for a missing value
    other    whether all other categories have a feature together
    missing  number, date: whether a feature says that the value is missing
    """

    name: str
    kind: str
    format: str | None = None
    parts: Sequence[str] = ()
    mean: Sequence[float] = ()
    spread: Sequence[float] = ()
    values: Sequence[str | None] = ()
    other: bool = False
    missing: bool = False

    @property
    def features(self) -> list[str]:
        """The names of its features, such as `age`, `age missing`, `admitted month`, `ward=ICU`, `ward=other`."""
        if self.kind == CATEGORY:
            return [f"{self.name}={'missing' if value is None else value}" for value in self.values] + (
                [f"{self.name}=other"] if self.other else []
            )
        named = [f"{self.name} {part}".rstrip() for part in self.parts]
        return [*named, f"{self.name} missing"] if self.missing else named

    def encode(self, values: pd.Series) -> np.ndarray[Any, Any]:
        """Return float32 [rows, features]. ValueError: a value is no number, or no date."""
        if self.kind == CATEGORY:
            known = pd.Index(self.values, dtype=object).get_indexer(texts(values))
            found = known[:, None] == np.arange(len(self.values))
            return np.asarray(np.column_stack([found, known < 0]) if self.other else found, np.float32)
        parts = measured(values, self.kind, self.format)
        found = np.column_stack([parts[part] for part in self.parts])
        scaled = np.clip((found - np.array(self.mean)) / np.array(self.spread), -LIMIT, LIMIT)
        unknown = np.isnan(found[:, :1])
        return np.hstack([np.nan_to_num(scaled), unknown] if self.missing else [np.nan_to_num(scaled)]).astype(
            np.float32
        )


@dataclass(frozen=True)
class TableEncoder:
    """Encodes tables by what the public rows have.

    unused   of every column without features, why
    missing  texts that stand for a missing value
    """

    columns: Sequence[Column]
    unused: Mapping[str, str]
    missing: Sequence[str] = ()

    @classmethod
    def fit(
        cls, public: pd.DataFrame, kinds: Mapping[str, str], categories: int, missing: Sequence[str] = ()
    ) -> "TableEncoder":
        """Return the encoder of public rows.

        kinds       of columns: number, category, date, or a date format such as %d.%m.%Y; others are guessed
        categories  at most so many features for a column; the most frequent values have one of their own
        """
        fitted: list[Column] = []
        unused: dict[str, str] = {}
        public = public.mask(public.isin(missing))
        for name in public.columns:
            found = _fit(public[name], kinds.get(name), categories)
            if isinstance(found, str):
                unused[name] = found
            else:
                fitted.append(found)
        return cls(fitted, unused, missing)

    @property
    def features(self) -> list[str]:
        """The names of all features, in order."""
        return [feature for column in self.columns for feature in column.features]

    def encode(self, table: pd.DataFrame) -> np.ndarray[Any, Any]:
        """Return float32 [rows, features]. ValueError: a column is missing, or a value is no number or no date."""
        if absent := [column.name for column in self.columns if column.name not in table]:
            raise ValueError(f"the columns {', '.join(absent)} are missing")
        table = table.mask(table.isin(self.missing)) if self.missing else table
        return np.concatenate([column.encode(table[column.name]) for column in self.columns], axis=1)

    def as_dict(self) -> dict[str, Any]:
        """Return it in JSON types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "TableEncoder":
        """Return the encoder of `as_dict`."""
        return cls([Column(**column) for column in record["columns"]], record["unused"], record["missing"])


def texts(values: pd.Series) -> pd.Index:
    """Return values as text without spaces around it; None where missing. Whole numbers have no decimals."""
    if pd.api.types.is_float_dtype(values.dtype):
        values = values.where(np.isfinite(values))
        values = values.astype("Int64") if (values.dropna() % 1 == 0).all() else values
    text = values.astype("string").str.strip().astype(object)
    return pd.Index(text.where(text.notna() & (text != ""), None), dtype=object)


def measured(values: pd.Series, kind: str, format: str | None) -> dict[str, np.ndarray[Any, Any]]:
    """Return the parts of numbers or dates by name, each float64 [rows], NaN where missing.

    ValueError: it says how many values are no numbers or no dates.
    """
    if kind == NUMBER:
        found = np.array(pd.to_numeric(values, errors="coerce"), np.float64, copy=True)
        parts = {"": np.where(np.isfinite(found), found, np.nan)}
    else:
        when = pd.to_datetime(values, format=format or "ISO8601", errors="coerce", utc=True)
        days = (when - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)
        named = {"day": days, "month": when.dt.month, "weekday": when.dt.day_of_week, "hour": when.dt.hour}
        parts = {name: np.array(part, np.float64) for name, part in named.items()}
        found = parts["day"]
    if wrong := int(pd.notna(texts(values[np.isnan(found)])).sum()):
        wanted = "numbers" if kind == NUMBER else f"dates such as {format or '2024-12-31'}"
        raise ValueError(f"column {values.name}: {wrong:,} of {len(values):,} values are no {wanted}")
    return parts


def _fit(values: pd.Series, kind: str | None, categories: int) -> Column | str:
    """Return the column of public values, or why it is not used."""
    name, text = str(values.name), texts(values)
    counts = text.value_counts(dropna=False)  # in order of frequency
    if len(counts) <= 1:
        return "one value only"
    format = kind if kind is not None and "%" in kind else None
    kind = DATE if format else kind or _guess(values)
    if kind == CATEGORY:
        ordered = sorted(counts.items(), key=lambda each: (-each[1], str(each[0])))
        if len(ordered) > max(categories, len(text) / 2):
            return "nearly every value differs"
        own = [None if pd.isna(value) else str(value) for value, _ in ordered]
        kept = own if len(own) <= categories else own[: categories - 1]
        return Column(name, CATEGORY, values=kept, other=len(kept) < len(own))
    parts = {part: found for part, found in measured(values, kind, format).items() if np.nanstd(found) > 0}
    if not parts:
        return "one value only"
    mean = [float(np.nanmean(found)) for found in parts.values()]
    spread = [float(np.nanstd(found)) for found in parts.values()]
    missing = bool(np.isnan(next(iter(parts.values()))).any())
    return Column(name, kind, format, list(parts), mean, spread, missing=missing)


def _guess(values: pd.Series) -> str:
    """Return number or date where every value that is not missing is one; else category."""
    if pd.api.types.is_bool_dtype(values.dtype):
        return CATEGORY
    for kind in (NUMBER, DATE):
        try:
            measured(values, kind, None)
            return kind
        except (ValueError, TypeError):
            continue
    return CATEGORY
