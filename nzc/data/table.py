"""Your own tables: CSV, Parquet or Arrow files with named columns."""

import math
import os
import sys
from codecs import lookup
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas._libs.parsers import STR_NA_VALUES

from nzc.data.hashing import keys_of, texts_of
from nzc.data.rows import gather
from nzc.data.splits import (
    SPLITS,
    Dataset,
    DataSplits,
    Overlap,
    Records,
    Split,
    check_names,
    to_drop,
)
from nzc.data.table_encoder import ColumnError, blanked, different, is_utf8, read_table, texts
from nzc.data.table_fit import KINDS, doubts, fit_encoder, remedy
from nzc.settings import CountOrZero, TwoOrMore
from nzc.storage.files import digest_of
from nzc.types import AnyArray, Ints
from nzc.validation import InputError, meant

CHUNK = 100_000  # rows of a file that are in memory at a time
_SKIP = "if other lines stand before a header, type dataset.skip=N to leave out N lines"


@dataclass(frozen=True, kw_only=True)
class Table(Dataset):
    """Private records with labels in one file, public rows without labels in another; optionally
    test rows in a third.

    conf/dataset/table.yaml explains the keys. Features are fitted on the public file; nothing
    learns from its labels. Of each private row only features (4 bytes each), label and group (8
    bytes each) are kept, so a file may be larger than the memory. The group tells people apart, or
    else the id, unless ids are row numbers.
    """

    private: str
    public: str
    label: str
    test: str | None = None
    group: str | None = None
    id: str | None = None
    budget: str | None = None
    drop: list[str] = field(default_factory=list)
    columns: dict[str, Any] | list[str] | None = None
    categories: TwoOrMore = 32
    missing: list[str | int | float] = field(default_factory=list)
    classes: list[str | int | float] | None = None
    encoding: str | None = None
    skip: CountOrZero = 0
    overlap: Overlap = "refuse"

    def __post_init__(self) -> None:
        check_names(self.classes)
        try:
            TextIOWrapper(BytesIO(), self.encoding)
        except LookupError:
            allowed = (
                "must be null or an encoding that Python knows, such as cp1252, utf-16-le or gbk"
            )
            raise InputError("dataset.encoding", self.encoding, allowed) from None
        for column, kind in self.kinds.items():
            if not isinstance(kind, str) or (kind not in KINDS and "%" not in kind):
                allowed = f"must be {', '.join(KINDS)}, or a date format such as %d.%m.%Y"
                raise InputError(f"dataset.columns.{column}", kind, allowed)

    def check(self) -> int:
        _ = self._classes, self._dropped  # InputError: a file is wrong
        return int(next(iter(self._counts["public"].values())).sum())

    def describe(self) -> None:
        assert self._public is not None

    def load(self) -> DataSplits:
        private, named = self._encoded("private")
        if self.group is not None:
            named |= {"groups": named.pop("keys"), "grouped_by": f"column `{self.group}`"}
        if self.test is not None:
            rows, _ = self._encoded("test")
            named["test"] = Split(rows.x[:], rows.y)
        return replace(self._public, private=private, private_file=digest_of(self.private), **named)

    @property
    def _special(self) -> tuple[str | None, ...]:
        """The columns that are no features."""
        return self.label, self.group, self.id, self.budget, *self.drop

    @property
    def kinds(self) -> dict[str, Any]:
        """The kinds of columns that are given: `columns`, where a list has `name: kind` for names
        that are no keys.
        """
        if not isinstance(self.columns, list):
            return self.columns or {}
        kinds = {}
        for item in self.columns:
            name, colon, kind = str(item).rpartition(": ")
            if not colon:
                raise InputError(
                    "dataset.columns",
                    item,
                    'must be "NAME: KIND" in a list, such as ["CO(GT): comma"]',
                )
            kinds[name] = kind
        return kinds

    @property
    def _named(self) -> str | None:
        """The column whose values alone decide the teachers, where the private file has it."""
        return self.id if self.group is None else self.group

    def _chunks(
        self, key: str, rows: int | None = None, names: Collection[str] | None = None
    ) -> Iterator[pd.DataFrame]:
        """Yield the rows of a file, at most `rows` (None: CHUNK) at a time. InputError: why,
        without a cell of it.
        """
        expected = [self.label] if key == "private" else self._columns
        named = [self.label, self.group, self.id, self.budget]
        missing = [*map(str, self.missing)]
        classes = {*map(str, self.classes or ())}
        try:
            for chunk in read_table(
                getattr(self, key), rows or CHUNK, names,
                expected=expected, names=named, encoding=self.encoding, skip=self.skip,
            ):  # fmt: skip
                known = blanked(chunk, missing)
                if self.label in chunk and not classes.isdisjoint(
                    missing
                ):  # a feature may have the same text
                    no_class = [text for text in missing if text not in classes]
                    known[self.label] = blanked(chunk[[self.label]], no_class)[self.label]
                yield known
        except Exception as error:  # pandas and pyarrow raise many types, and quote cells
            why = _reason(error)
            if isinstance(error.__cause__, UnicodeError) and self.encoding is None:
                why += ", or type dataset.encoding=cp1252 if Windows in Western Europe wrote it"
            allowed = f"must be a readable CSV, Parquet or Arrow file ({why})"
            raise InputError(key, getattr(self, key), allowed) from None

    @cached_property
    def _columns(self) -> list[str]:
        """The columns of the private file."""
        return list(next(self._chunks("private", 1)))

    @cached_property
    def _counts(self) -> dict[str, dict[str, pd.Series]]:
        """By file, how many rows have each label, group and id; a quick look: 100 MB take a second."""
        if os.path.realpath(self.public) == os.path.realpath(self.private):
            raise InputError("public", self.public, "must be another file than dataset.private")
        given = [key for key in SPLITS if getattr(self, key) is not None]
        columns = {str(key): list(next(self._chunks(key, 1))) for key in given}
        self._check_columns(columns)
        if self.encoding is not None and not lookup(self.encoding).name.startswith("utf"):
            for path in (getattr(self, key) for key in given):
                if is_utf8(path):  # which most other encodings would misread without an error
                    allowed = f"must be the encoding of all CSV files, and {path} is in UTF-8: save all in UTF-8"
                    raise InputError("encoding", self.encoding, allowed)
        return {key: self._counted(key, names) for key, names in columns.items()}

    @cached_property
    def _dropped(self) -> tuple[str | None, Set[str]]:
        """The column that tells people apart, and those of its values whose private rows are left
        out.
        """
        for column in filter(None, (self.group, self.id)):
            of = {
                key: counted[column] for key, counted in self._counts.items() if column in counted
            }
            if {"private"} < of.keys() and (
                column == self.group or not _are_row_numbers(of["public"])
            ):
                names = {key: frozenset(found.index.dropna()) for key, found in of.items()}
                return column, to_drop(
                    names.pop("private"), names, f"column `{column}`", self.overlap
                )
        return None, frozenset()

    def _check_columns(self, files: Mapping[str, list[str]]) -> None:
        """Raise InputError where the files do not have the columns that are named, or not the same
        features.
        """
        public, private = files["public"], files["private"]
        # Without a header, names that only a private file has are a record: one is quoted if it is
        # nearly as typed.
        if not (shared := [name for name in public if name in private]):
            divided = "cells are divided by , ; | or tab"
            allowed = (
                f"must have columns of {self.private}, and none is in both; {divided}; {_SKIP}"
            )
            raise InputError("public", self.public, allowed)
        for key, names, columns in (
            ("label", [self.label], private), ("group", [self.group], private), ("id", [self.id], public),
            ("budget", [self.budget], private),
            ("drop", self.drop, [*private, *public]), ("columns", self.kinds, [*private, *public]),
        ):  # fmt: skip
            for name in filter(None, names):
                if name not in columns:
                    path = self.private if columns is private else self.public
                    near = meant(name, columns, shared)
                    skip = "" if near.endswith("?") else f"; {_SKIP}"
                    raise InputError(key, name, f"must be a column of {path}{near}{skip}")
        features = [name for name in public if name not in self._special]
        for key in [key for key in files if key != "public"]:
            absent = [name for name in (self.label, *features) if name not in files[key]]
            if further := absent or [
                name for name in files[key] if name not in (*features, *self._special)
            ]:
                remedy = (
                    "name it by dataset.group if it says whom a row is about, else by dataset.drop"
                )
                wrong = "is missing" if absent else f"is not in the public file: {remedy}"
                allowed = f"must have the label and the columns of {self.public}; {', '.join(further)} {wrong}"
                raise InputError(key, getattr(self, key), allowed)

    def _counted(self, key: str, columns: list[str]) -> dict[str, pd.Series]:
        """Return how many rows have each text of label, group and id, NaN where missing; or of the
        first column.
        """
        names = [name for name in (self.label, self.group, self.id) if name in columns] or columns[
            :1
        ]
        chunks = [
            [chunk[name].value_counts(dropna=False) for name in names]
            for chunk in self._chunks(key, names=names)
        ]
        counted = {}
        for name, parts in zip(names, zip(*chunks, strict=True), strict=True):
            joined = pd.concat(parts)
            counted[name] = of = joined.groupby(texts(joined.index.to_series()), dropna=False).sum()
            needed = (name == self.label and key != "public") or (
                name == self._named and key == "private"
            )
            missing = of[of.index.isna()].sum() if needed else 0
            if missing or not of.sum():
                why = (
                    f"a value of {name} in every row; {missing:,} have none" if missing else "rows"
                )
                why += " (an empty cell, or a text of dataset.missing)" if missing else ""
                raise InputError(key, getattr(self, key), f"must have {why}")
        return counted

    @cached_property
    def _classes(self) -> Sequence[str]:
        """The names of the classes, in order; those that the private rows have by number, if all
        are numbers.
        """
        labels = self._counts["private"][self.label]
        names: list[str] = [*map(str, self.classes or ())] or sorted(labels.index)
        if self.classes is None and not 2 <= len(names) <= max(20, labels.sum() // 100):
            allowed = f"must name classes; it has {len(names):,} different values in {labels.sum():,} rows"
            raise InputError("label", self.label, allowed)
        if self.classes is None:
            with suppress(ValueError):  # not all are numbers
                names = sorted(names, key=lambda name: (math.isnan(float(name)), float(name), name))
        for key, of in self._counts.items():
            if self.label not in of:
                continue
            others = of[self.label].index.dropna().difference(names)
            if len(others):
                allowed = f"must have {self.label} of the classes {', '.join(names[:20])}; it has {len(others)} others"
                if key != "private":
                    allowed += _as_missing(others)
                raise InputError(key, getattr(self, key), allowed)
        return names

    @cached_property
    def _public(self) -> DataSplits:
        """The public rows; the other splits are empty yet. How columns are used is said: a wrong
        guess must be seen.
        """
        classes, public = self._classes, pd.concat(self._chunks("public"), ignore_index=True)
        inputs = public[[name for name in public if name not in self._special]]
        try:
            encoder = fit_encoder(inputs, self.kinds, self.categories, list(map(str, self.missing)))
            if not encoder.columns:
                raise ColumnError(
                    "there must be a column whose values differ, beside label, group and id"
                )
        except ColumnError as error:
            raise InputError(
                "public", self.public, f"must have the given kinds of columns: {error}"
            ) from error
        encoder = replace(encoder, encoding=self.encoding, skip=self.skip)
        warnings = tuple(doubts(inputs, encoder, self.group is not None))
        kinds = ", ".join(
            f"{kind}: {count}" for kind, count in Counter(of.kind for of in encoder.columns).items()
        )
        unused = "".join(f"; {name} is not used: {why}" for name, why in encoder.unused.items())
        made = f"{len(encoder.features)} features, fitted on {len(public):,} public rows"
        if self.classes is None and (absent := _as_missing(classes)):
            print(f"nzc: classes of {self.label} are {', '.join(classes)}{absent}", file=sys.stderr)
        measure = [f"{self.public} has labels ({self.label}): they only measure accuracy"] * (
            self.label in public
        )
        for line in (
            f"{made}; columns (dataset.columns corrects a kind): {kinds}{unused}",
            *measure,
            *warnings,
        ):
            print(f"nzc: {line}", file=sys.stderr)
        x, known = (
            encoder.encode(public),
            _numbers(public.get(self.label, pd.Series(pd.NA, public.index)), classes),
        )
        none, ids = (
            Split(x[:0], known[:0]),
            None if self.id is None else np.array(texts(public[self.id]), dtype=object),
        )
        return DataSplits(
            none, Split(x, known), none, len(classes), labels=tuple(classes), ids=ids, id_column=self.id,
            encoder=encoder, public_files={Path(self.public).name: digest_of(self.public)},
            declared=self.classes is not None, warnings=warnings,
        )  # fmt: skip

    def _encoded(self, key: str) -> tuple[Records, dict[str, Any]]:
        """Return features and classes of the rows of a file, and of private rows the `keys` and
        `budgets`.
        """
        kept, encoder = defaultdict[str, list[AnyArray]](list), self._public.encoder
        assert encoder is not None
        column, dropped = self._dropped if key == "private" else (None, ())

        def parts() -> Iterator[AnyArray]:
            for chunk in self._chunks(key):
                if dropped:
                    chunk = chunk[~texts(chunk[column]).isin(dropped)]
                kept["y"].append(_numbers(chunk[self.label], self._classes))
                if key == "private" and self._named in chunk:
                    codes, names = different(chunk[self._named])
                    kept["keys"].append(keys_of(np.asarray(names))[codes])
                if key == "private" and self.budget is not None:
                    kept["budgets"].append(
                        texts_of(chunk[self.budget].to_numpy(object, na_value=""))
                    )
                yield encoder.encode(chunk)

        try:
            x = gather(parts())
        except ColumnError as error:
            guessed = {
                f"column {column.name}": column for column in encoder.columns if not column.given
            }
            name = str(error).rpartition(": ")[0]
            typed = f"; {remedy(guessed[name])}" if name in guessed else ""
            raise InputError(
                key, getattr(self, key), f"must have columns as in {self.public}: {error}{typed}"
            ) from error
        named = {name: np.concatenate(arrays) for name, arrays in kept.items()}
        return Records(x, named.pop("y")), named


def _reason(error: Exception) -> str:
    """Return why a file cannot be read, without a cell of it."""
    if isinstance(error, pd.errors.ParserWarning | pd.errors.ParserError):
        return f"a row has more cells than the header, or a quote does not end; {_SKIP}"
    if isinstance(error, ColumnError):
        return str(error)
    return getattr(error, "strerror", None) or type(error).__name__


def _as_missing(labels: Iterable[str]) -> str:
    """Return what to type if labels such as NA, which pandas takes as missing in features, are no
    classes.
    """
    words = sorted(STR_NA_VALUES.intersection(labels))
    if not words:
        return ""
    quoted = ",".join(f'"{word}"' for word in words)
    return f"; if {', '.join(words)} stands for a missing label, type 'dataset.missing=[{quoted}]'"


def _are_row_numbers(counts: pd.Series) -> bool:
    """Return whether names number the rows from 0 or 1: two files then have the same names by
    chance.
    """
    numbers = np.sort(pd.to_numeric(pd.Series(counts.index).str.extract(r"(\d{1,15})$")[0]))
    return bool(counts.max() == 1 and numbers[0] in (0, 1) and (np.diff(numbers) == 1).all())


def _numbers(labels: pd.Series, classes: Sequence[str]) -> Ints:
    codes, names = different(labels)  # a missing one becomes UNKNOWN
    return np.asarray(pd.Index(classes).get_indexer(names)[codes], np.int64)
