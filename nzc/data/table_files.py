"""The files of a table, and what a quick look at all of them tells."""

import math
import os
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from nzc.data.splits import SPLITS, Dataset, Overlap, check_names, to_drop
from nzc.data.table_encoder import CATEGORY, COMMA, DATE, NUMBER, ColumnError, blanked, read_table, texts
from nzc.settings import TwoOrMore
from nzc.validation import InputError, meant

_KINDS = (NUMBER, COMMA, CATEGORY, DATE)
#: Rows of a file that are in memory at a time.
CHUNK = 100_000


class Facts(NamedTuple):
    """What a quick look at all files tells."""

    rows: int  # of the public file
    classes: Sequence[str]
    by: str | None  # the column that tells people apart
    dropped: Set[str]  # those of its values whose private rows are left out


@dataclass(frozen=True, kw_only=True)
class TableFiles(Dataset):
    """Private records with labels in one file, public rows without labels in another; optionally test rows in a third.

    conf/dataset/table.yaml explains the keys. Of a private row, the name of its group alone decides its teacher, or
    else its id, where the private file has this column too, or else its row number. The group tells people apart, who
    may be in several files, or else the id, unless ids are row numbers.
    """

    private: str
    public: str
    label: str
    test: str | None = None
    group: str | None = None
    id: str | None = None
    budget: str | None = None
    drop: list[str] = field(default_factory=list)
    columns: dict[str, Any] | None = None
    categories: TwoOrMore = 32
    missing: list[str | int | float] = field(default_factory=list)
    classes: list[str | int | float] | None = None
    overlap: Overlap = "refuse"

    def __post_init__(self) -> None:
        check_names(self.classes)
        for column, kind in (self.columns or {}).items():
            if not isinstance(kind, str) or (kind not in _KINDS and "%" not in kind):
                allowed = f"must be {', '.join(_KINDS)}, or a date format such as %d.%m.%Y"
                raise InputError(f"dataset.columns.{column}", kind, allowed)

    def check(self) -> int:
        return self.facts.rows

    @cached_property
    def facts(self) -> Facts:
        """What the names of columns, and the values of label, group and id tell; 100 MB take a second."""
        if os.path.realpath(self.public) == os.path.realpath(self.private):
            raise InputError("public", self.public, "must be another file than dataset.private")
        files: list[str] = [key for key in SPLITS if getattr(self, key) is not None]
        columns = {key: list(next(self.chunks(key, 1))) for key in files}
        self._check_columns(columns)
        counts = {key: self._counted(key, names) for key, names in columns.items()}
        classes = [*map(str, self.classes or ())] or self._classes(counts["private"][self.label])
        for key, of in counts.items():
            if self.label in of and (others := len(of[self.label].index.dropna().difference(classes))):
                allowed = f"must have {self.label} of the classes {', '.join(classes[:20])}; it has {others} others"
                raise InputError(key, getattr(self, key), allowed)
        rows = int(next(iter(counts["public"].values())).sum())
        return Facts(rows, classes, *self._dropped(counts))

    def _counted(self, key: str, columns: list[str]) -> dict[str, pd.Series]:
        """Return how many rows have each text of label, group and id, NaN where missing; or else of the first column.

        InputError: there are no rows, or one has no label, group or name.
        """
        names = [name for name in (self.label, self.group, self.id) if name in columns] or columns[:1]
        chunks = [
            {name: chunk[name].value_counts(dropna=False, sort=False) for name in names}
            for chunk in self.chunks(key, names=names)
        ]
        counted = {}
        for name in names:
            joined = pd.concat([chunk[name] for chunk in chunks])
            counted[name] = of = joined.groupby(texts(joined.index.to_series()), dropna=False).sum()
            needed = (name == self.label and key != "public") or (name == self.named and key == "private")
            missing = of[of.index.isna()].sum() if needed else 0
            if missing or not of.sum():
                why = f"a value of {name} in every row; {missing:,} have none" if missing else "rows"
                raise InputError(key, getattr(self, key), f"must have {why}")
        return counted

    def _dropped(self, counts: Mapping[str, Mapping[str, pd.Series]]) -> tuple[str | None, Set[str]]:
        """Return which column tells people apart, and those of its values whose private rows are left out."""
        for column in filter(None, (self.group, self.id)):
            of = {key: counted[column] for key, counted in counts.items() if column in counted}
            if {"private"} < of.keys() and (column == self.group or not any(map(_are_row_numbers, of.values()))):
                names = {key: frozenset(found.index.dropna()) for key, found in of.items()}
                return column, to_drop(names.pop("private"), names, f"column `{column}`", self.overlap)
        return None, frozenset()

    @property
    def special(self) -> tuple[str | None, ...]:
        """The columns that are no features."""
        return self.label, self.group, self.id, self.budget, *self.drop

    @property
    def named(self) -> str | None:
        """The column whose values alone decide the teachers, where the private file has it."""
        return self.id if self.group is None else self.group

    def chunks(self, key: str, rows: int | None = None, names: Collection[str] | None = None) -> Iterator[pd.DataFrame]:
        """Yield the rows of a file, at most `rows` (None: CHUNK) at a time. InputError: why, without a cell of it."""
        try:
            for chunk in read_table(getattr(self, key), rows or CHUNK, names):
                yield blanked(chunk, list(map(str, self.missing)))
        except Exception as error:  # pandas and pyarrow raise many types, and quote cells
            why = str(error) if isinstance(error, ColumnError) else getattr(error, "strerror", None)
            if isinstance(error, pd.errors.ParserWarning | pd.errors.ParserError):
                why = "a row has more cells than the header, or a quote does not end"
            allowed = f"must be a readable CSV, Parquet or Arrow file ({why or type(error).__name__})"
            raise InputError(key, getattr(self, key), allowed) from None

    def _check_columns(self, files: Mapping[str, list[str]]) -> None:
        """Raise InputError where the files do not have the columns that are named, or not the same features.

        Without a header, names that only a private file has are a record: none is quoted unless it is nearly what the
        user typed.
        """
        public, private = files["public"], files["private"]
        if not (shared := [name for name in public if name in private]):
            allowed = f"must have columns of {self.private}, and none is in both; cells are divided by , ; | or tab"
            raise InputError("public", self.public, allowed)
        for key, names, columns in (
            ("label", [self.label], private), ("group", [self.group], private), ("id", [self.id], public),
            ("budget", [self.budget], private),
            ("drop", self.drop, [*private, *public]), ("columns", self.columns or {}, [*private, *public]),
        ):  # fmt: skip
            for name in filter(None, names):
                if name not in columns:
                    path = self.private if columns is private else self.public
                    raise InputError(key, name, f"must be a column of {path}{meant(name, columns, shared)}")
        features = [name for name in public if name not in self.special]
        for key in [key for key in files if key != "public"]:
            absent = [name for name in (self.label, *features) if name not in files[key]]
            if further := absent or [name for name in files[key] if name not in (*features, *self.special)]:
                remedy = "name it by dataset.group if it says whom a row is about, else by dataset.drop"
                wrong = "is missing" if absent else f"is not in the public file: {remedy}"
                allowed = f"must have the label and the columns of {self.public}; {', '.join(further)} {wrong}"
                raise InputError(key, getattr(self, key), allowed)

    def _classes(self, labels: pd.Series) -> Sequence[str]:
        """Return the names of the classes that the private rows have, in order: by number, if all are numbers."""
        names: list[str] = sorted(labels.index)
        if not 2 <= len(names) <= max(20, labels.sum() // 100):
            allowed = f"must name classes; it has {len(names):,} different values in {labels.sum():,} rows"
            raise InputError("label", self.label, allowed)
        with suppress(ValueError):  # not all are numbers
            return sorted(names, key=lambda name: (math.isnan(float(name)), float(name), name))
        return names


def _are_row_numbers(counts: pd.Series) -> bool:
    """Return whether names number the rows from 0 or 1: two files then have the same names by chance."""
    numbers = np.sort(pd.to_numeric(pd.Series(counts.index).str.extract(r"(\d{1,15})$")[0]))
    return bool(counts.max() == 1 and numbers[0] in (0, 1) and (np.diff(numbers) == 1).all())
