"""Your own tables: CSV, Parquet or Arrow files with named columns."""

import math
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nzc.data.hashing import keys_of
from nzc.data.rows import gather
from nzc.data.splits import UNKNOWN, Dataset, DataSplits, Records, Split, check_names
from nzc.data.table_encoder import CATEGORY, COMMA, DATE, NUMBER, ColumnError, TableEncoder, blanked, read_table, texts
from nzc.data.table_fit import fit_encoder
from nzc.settings import TwoOrMore
from nzc.storage.files import digest_of
from nzc.types import AnyArray, Ints
from nzc.validation import InputError

_KINDS = (NUMBER, COMMA, CATEGORY, DATE)
#: Rows of a file that are in memory at a time.
CHUNK = 100_000


@dataclass(frozen=True, kw_only=True)
class Table(Dataset):
    """Private records with labels in one file, public rows without labels in another; optionally test rows in a third.

    Everything that is fitted (means, categories, guesses of a column's kind) is fitted on the public file. Of each
    private row only its features (4 bytes each), label and group (8 bytes each) are kept, so a file may be larger than
    the memory. Labels in the public file measure the accuracy of labels; nothing learns from them.

    label       column of the labels, which may be text, numbers or true and false
    group       column that says whom a row is about; the unit of privacy is then the group
    id          column of the user's own row names, for predictions.csv; it is no feature
                Of a private row, the name of its group alone decides its teacher, or else its id, where the private
                file has this column too, or else its row number
    drop        further columns that are no features
    columns     column → number, comma (1.234,56), category, date, or a date format such as %d.%m.%Y; by default the
                public rows decide
    categories  at most so many features for a column; rare values share one
    missing     texts that stand for a missing value, beside an empty cell, NA and NaN
    classes     names of the classes, in order; None: those of the private file
    """

    private: str
    public: str
    label: str
    test: str | None = None
    group: str | None = None
    id: str | None = None
    drop: list[str] = field(default_factory=list)
    columns: dict[str, Any] | None = None
    categories: TwoOrMore = 32
    missing: list[str | int | float] = field(default_factory=list)
    classes: list[str | int | float] | None = None

    def __post_init__(self) -> None:
        check_names(self.classes)
        for column, kind in (self.columns or {}).items():
            if not isinstance(kind, str) or (kind not in _KINDS and "%" not in kind):
                allowed = f"must be {', '.join(_KINDS)}, or a date format such as %d.%m.%Y"
                raise InputError(f"dataset.columns.{column}", kind, allowed)

    def load(self) -> DataSplits:
        if os.path.realpath(self.public) == os.path.realpath(self.private):
            raise InputError("public", self.public, "must be another file than dataset.private")
        public = pd.concat(self._chunks("public"), ignore_index=True)
        encoder = self._fitted(public)
        private, classes, keys = self._encoded("private", encoder, [*map(str, self.classes or ())])
        test = Split(private.x[:0], private.y[:0])
        if self.test is not None:
            rows, *_ = self._encoded("test", encoder, classes)
            test = Split(rows.x[:], rows.y)
        self._tell(encoder, public)
        return DataSplits(
            private,
            Split(encoder.encode(public), self._known(public, classes)),
            test,
            len(classes),
            groups=keys if self.group is not None else None,
            labels=tuple(classes),
            ids=None if self.id is None else np.array(texts(public[self.id]), dtype=object),
            id_column=self.id,
            encoder=encoder,
            private_file=digest_of(self.private),
            public_files={Path(self.public).name: digest_of(self.public)},
            keys=keys if self.group is None else None,
            grouped_by=None if self.group is None else f"column `{self.group}`",
            declared=self.classes is not None,
        )

    def _chunks(self, key: str) -> Iterator[pd.DataFrame]:
        """Yield the rows of a file, at most CHUNK at a time; once at least. InputError: why, without a cell of it."""
        try:
            for chunk in read_table(getattr(self, key), CHUNK):
                yield blanked(chunk, list(map(str, self.missing)))
        except Exception as error:  # pandas and pyarrow raise many types
            allowed = f"must be a readable CSV, Parquet or Arrow file ({_why(error)})"
            raise InputError(key, getattr(self, key), allowed) from None  # pandas quotes cells

    def _fitted(self, public: pd.DataFrame) -> TableEncoder:
        """Return the encoder of the public rows."""
        special = [self.label, self.group, self.id, *self.drop]
        inputs = public.drop(columns=[name for name in special if name is not None], errors="ignore")
        self._check_columns(list(public), list(inputs))
        try:
            encoder = fit_encoder(inputs, self.columns or {}, self.categories, list(map(str, self.missing)))
            if not encoder.columns:
                raise ColumnError("there must be rows, and a column whose values differ, beside label, group and id")
        except ColumnError as error:
            raise InputError("public", self.public, f"must have the given kinds of columns: {error}") from error
        return encoder

    def _check_columns(self, public: list[str], features: list[str]) -> None:
        """Raise InputError where the files do not have the columns that are named, or not the same features.

        Where the header is missing, names that only a private file has are a record: they are not quoted.
        """
        files = {key: list(next(self._chunks(key))) for key in ("private", "test") if getattr(self, key) is not None}
        private, every = files["private"], [*files["private"], *public]
        for key, names, columns in (
            ("label", [self.label], private), ("group", [self.group], private), ("id", [self.id], public),
            ("drop", self.drop, every), ("columns", self.columns or {}, every),
        ):  # fmt: skip
            for name in names:
                if name is not None and name not in columns:
                    path = self.private if columns is private else self.public
                    shared = ", ".join(other for other in public if other in columns) or "no column is in both files"
                    raise InputError(key, name, f"must be a column of {path}: {shared}")
        for key, columns in files.items():
            absent = [name for name in (self.label, *features) if name not in columns]
            known = (*features, self.label, self.group, self.id, *self.drop)
            if further := absent or [name for name in columns if name not in known]:
                wrong = "is missing" if absent else "is not in the public file: add it to drop"
                allowed = f"must have the label and the columns of {self.public}; {', '.join(further)} {wrong}"
                raise InputError(key, getattr(self, key), allowed)

    def _known(self, public: pd.DataFrame, classes: Sequence[str]) -> Ints:
        """Return the classes of public rows, UNKNOWN where there is no label."""
        labels = texts(public[self.label]) if self.label in public else pd.Index([None] * len(public), dtype=object)
        known: Ints = pd.Index(classes).get_indexer(labels).astype(np.int64)
        if further := sorted(set(labels[(known == UNKNOWN) & pd.notna(labels)])):
            allowed = f"must have labels of the private file only, not {', '.join(further[:3])} too"
            raise InputError("public", self.public, allowed)
        return known

    def _tell(self, encoder: TableEncoder, public: pd.DataFrame) -> None:
        """Say how the columns are used: a wrong guess must be seen."""
        kinds = ", ".join(f"{kind}: {count}" for kind, count in Counter(of.kind for of in encoder.columns).items())
        unused = "".join(f"; {name} is not used: {why}" for name, why in encoder.unused.items())
        made = f"{len(encoder.features)} features, fitted on {len(public):,} public rows"
        print(f"nzc: {made}; columns (dataset.columns corrects a kind): {kinds}{unused}", file=sys.stderr)
        if self.label in public:
            print(f"nzc: {self.public} has labels ({self.label}): they only measure accuracy", file=sys.stderr)

    def _encoded(
        self, key: str, encoder: TableEncoder, classes: Sequence[str]
    ) -> tuple[Records, Sequence[str], Ints | None]:
        """Return features and classes of a file, names of the classes, and the keys of rows that have names.

        classes  names of the classes; empty: they are those of the file
        """
        path, named = getattr(self, key), self.id if self.group is None else self.group
        labels: list[pd.Categorical] = []
        keys: list[Ints] = []

        def parts() -> Iterator[AnyArray]:
            for chunk in self._chunks(key):
                try:
                    features = encoder.encode(chunk)
                except ColumnError as error:
                    raise InputError(key, path, f"must have columns as in {self.public}: {error}") from error
                labels.append(_complete(key, path, chunk[self.label]))
                if key == "private" and named in chunk:
                    names = _complete(key, path, chunk[named])
                    keys.append(keys_of(np.asarray(names.categories))[names.codes])
                yield features

        x = gather(parts())
        if not len(x):
            raise InputError(key, path, "must have rows")
        joined = pd.api.types.union_categoricals(labels)
        classes = classes or self._classes(joined)
        numbers = pd.Index(classes).get_indexer(joined.categories)
        if others := int((numbers < 0).sum()):
            known = ", ".join(classes[:20])
            raise InputError(key, path, f"must have {self.label} of the classes {known}; it has {others} others")
        return Records(x, numbers[joined.codes].astype(np.int64)), classes, np.concatenate(keys) if keys else None

    def _classes(self, labels: pd.Categorical) -> Sequence[str]:
        """Return the names of the classes that the private rows have, in order: by number, if all are numbers."""
        names: list[str] = sorted(labels.categories)
        if not 2 <= len(names) <= max(20, len(labels) // 100):
            allowed = f"must name classes; it has {len(names):,} different values in {len(labels):,} rows"
            raise InputError("label", self.label, allowed)
        with suppress(ValueError):  # not all are numbers
            return sorted(names, key=lambda name: (math.isnan(float(name)), float(name), name))
        return names


def _complete(key: str, path: str, values: pd.Series) -> pd.Categorical:
    """Return values as text, each of which stands once in `categories`. InputError: a value is missing."""
    complete = pd.Categorical(texts(values))
    if missing := int((complete.codes < 0).sum()):
        allowed = f"must have a value of {values.name} in every row; {missing:,} or more have none"
        raise InputError(key, path, allowed)
    return complete


def _why(error: Exception) -> str:
    """Return what is wrong with a table, in words that quote nothing of it."""
    if isinstance(error, pd.errors.ParserWarning | pd.errors.ParserError):
        return "a row has more cells than the header, or a quote does not end"
    why = str(error) if isinstance(error, ColumnError) else getattr(error, "strerror", None)
    return why or type(error).__name__  # as UnicodeDecodeError
