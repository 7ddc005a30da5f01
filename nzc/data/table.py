"""Your own tables: CSV, Parquet or Arrow files with named columns."""

import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nzc.data.files import Unchanged, same_file
from nzc.data.hashing import keys_of
from nzc.data.rows import gather
from nzc.data.splits import UNKNOWN, Dataset, DataSplits, Records, Split, check_names
from nzc.data.standardizer import ALIKE, look_alike
from nzc.data.table_encoder import CATEGORY, COMMA, DATE, NUMBER, ColumnError, TableEncoder, blanked, measured, texts
from nzc.data.table_files import read_chunks
from nzc.data.table_fit import DIFFERS, fit_encoder
from nzc.types import AnyArray, Ints
from nzc.validation import InputError, whole

#: The kinds of columns, and what several are called.
_KINDS = {NUMBER: "numbers", CATEGORY: "categories", DATE: "dates"}


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
    categories: int = 32
    missing: list[str | int | float] = field(default_factory=list)
    classes: list[str | int | float] | None = None

    def __post_init__(self) -> None:
        whole(2, categories=self.categories)
        for key in ("group", "id"):
            if getattr(self, key) == self.label:
                raise InputError(key, self.label, "must be another column than dataset.label")
        check_names(self.classes)
        for column, kind in (self.columns or {}).items():
            if not isinstance(kind, str) or (kind not in (*_KINDS, COMMA) and "%" not in kind):
                allowed = f"must be {', '.join((*_KINDS, COMMA))}, or a date format such as %d.%m.%Y"
                raise InputError(f"dataset.columns.{column}", kind, allowed)

    def load(self) -> DataSplits:
        given = {key: getattr(self, key) for key in ("private", "test", "public")}
        files = {key: Unchanged.of(key, path) for key, path in given.items() if path is not None}
        for one, other in combinations(files.values(), 2):
            if same_file(one.path, other.path):
                raise InputError(other.key, other.path, f"must be another file than dataset.{one.key}")
        public = pd.concat(self._chunks("public"), ignore_index=True)
        inputs = public.drop(columns=[each for each in self._special if each in public])
        self._check_columns(public, inputs)
        try:
            encoder = fit_encoder(inputs, self.columns or {}, self.categories, list(map(str, self.missing)))
        except ColumnError as error:
            raise InputError("public", self.public, f"must have the given kinds of columns: {error}") from error
        if not encoder.columns:
            raise InputError("public", self.public, f"must have a column whose values differ, beside {self._special}")
        names = _Names(self.classes)
        private, keys = self._encoded("private", encoder, names)
        if len(names.of) < 2:
            raise InputError("label", self.label, "must have two or more different values among the private rows")
        if self.classes is None and len(names.of) > max(20, len(private) // 100):
            allowed = f"must name classes; it has {len(names.of):,} different values in {len(private):,} rows"
            raise InputError("label", self.label, allowed)
        labels, order = names.ordered()
        names.given = labels
        known = np.full(len(public), UNKNOWN)
        if self.label in public:
            known = self._known(public[self.label], names, order)
        test = Records(private.x[:0], private.y[:0])
        if self.test is not None:
            test, _ = self._encoded("test", encoder, names)
        self._tell(encoder, public)
        return DataSplits(
            Records(private.x, order[private.y]),
            Split(encoder.encode(public), known),
            Split(test.x[:], order[test.y]),
            len(labels),
            groups=None if self.group is None else keys,
            labels=labels,
            ids=None if self.id is None else np.array(texts(public[self.id]), dtype=object),
            id_column=self.id,
            encoder=encoder,
            private_file=files["private"].digest(),
            public_files={Path(self.public).name: files["public"].digest()},
            keys=keys if self.group is None else None,
            grouped_by=None if self.group is None else f"column `{self.group}`",
            declared=self.classes is not None,
        )

    @property
    def _special(self) -> list[str]:
        """The columns that are no features."""
        return [each for each in (self.label, self.group, self.id, *self.drop) if each is not None]

    def _chunks(self, key: str) -> Iterator[pd.DataFrame]:
        return (blanked(chunk, list(map(str, self.missing))) for chunk in read_chunks(key, getattr(self, key)))

    def _check_columns(self, public: pd.DataFrame, inputs: pd.DataFrame) -> None:
        """Raise InputError where the files do not have the columns that are named, or not the same ones."""
        private = next(self._chunks("private"))
        for key, table in {"label": private, "group": private, "id": public}.items():
            name = getattr(self, key)
            if name is not None and name not in table:
                path = self.public if table is public else self.private
                raise InputError(key, name, f"must be a column of {path}: {_shared(table, public)}")
        for key, listed in {"drop": self.drop, "columns": self.columns or {}}.items():
            for name in listed:
                if name not in private and name not in public:
                    raise InputError(key, name, f"must be a column of the files: {', '.join(public.columns)}")
        for key, table in ({"private": private} | ({"test": next(self._chunks("test"))} if self.test else {})).items():
            if not set(table.columns) & set(inputs.columns):  # its first row may be a record
                raise InputError(
                    key, getattr(self, key), "must have names of columns in its first row, as the public file"
                )
            own = [name for name in table if name not in self._special]
            absent = [name for name in inputs if name not in own]
            further = [name for name in own if name not in inputs]
            if self.label not in table:
                raise InputError(key, getattr(self, key), f"must have the column of labels, {self.label}")
            if absent or further:
                said = [f"{', '.join(absent)} is missing"] * bool(absent)
                said += [f"{', '.join(further)} is not in {self.public}: add it to dataset.drop"] * bool(further)
                allowed = f"must have the columns of the public file; {'; '.join(said)}"
                raise InputError(key, getattr(self, key), allowed)
        if not len(public):
            raise InputError("public", self.public, "must have rows")

    def _tell(self, encoder: TableEncoder, public: pd.DataFrame) -> None:
        """Say how the columns are used: a wrong guess must be seen."""
        counts = {kind: sum(each.kind == kind for each in encoder.columns) for kind in _KINDS}
        kinds = [f"{count} {kind if count == 1 else _KINDS[kind]}" for kind, count in counts.items() if count]
        unused = "".join(f"; {name} is not used: {why}" for name, why in encoder.unused.items())
        if DIFFERS in encoder.unused.values():
            unused += ". If one is a number or a date, say so by dataset.columns"
        made = f"{len(encoder.features)} features, fitted on {len(public):,} public rows"
        print(f"nzc: {', '.join(kinds)} make {made}{unused}", file=sys.stderr)
        numbers = [(each, measured(public[each.name], NUMBER, each.format)[""])
                   for each in encoder.columns if each.kind == NUMBER]  # fmt: skip
        if alike := [each.name for each, found in numbers if look_alike(found[~np.isnan(found)], each.spread[0])]:
            print(f"nzc: 90 % of the public rows look alike in {', '.join(alike)}; {ALIKE}", file=sys.stderr)
        if self.label in public:
            print(f"nzc: {self.public} has labels ({self.label}): they only measure accuracy", file=sys.stderr)

    def _encoded(self, key: str, encoder: TableEncoder, names: "_Names") -> tuple[Records, Ints | None]:
        """Return the features and label numbers of a file, and the keys of private rows that have names."""
        labels: list[Ints] = []
        keys: list[Ints] = []
        named = self.id if self.group is None else self.group
        path, seen = getattr(self, key), np.zeros(len(encoder.features), bool)

        def parts() -> Iterator[AnyArray]:
            for chunk in self._chunks(key):
                try:
                    encoded = encoder.encode(chunk)
                except ColumnError as error:
                    raise InputError(key, path, f"must have columns as in {self.public}: {error}") from error
                np.logical_or(seen, encoded.any(axis=0), out=seen)
                labels.append(names.numbers(key, path, chunk[self.label]))
                if key == "private" and named in chunk:
                    codes, found = _factorized(key, path, chunk[named])
                    keys.append(keys_of(found)[codes])
                yield encoded

        x = gather(parts())
        if not len(x):
            raise InputError(key, path, "must have rows")
        ends = np.cumsum([len(column.features) for column in encoder.columns])
        for column, found in zip(encoder.columns, np.split(seen, ends), strict=False):
            if column.kind == CATEGORY and not found.any():
                allowed = f"must have values of {self.public}; the column {column.name} has none: drop it or mend it"
                raise InputError(key, path, allowed)
        return Records(x, np.concatenate(labels)), np.concatenate(keys) if keys else None

    def _known(self, labels: pd.Series, names: "_Names", order: Ints) -> Ints:
        """Return the classes of public rows, UNKNOWN where there is no label."""
        found = texts(labels)
        if further := sorted({each for each in found if each is not None} - set(names.of)):
            allowed = f"must have labels of the private file only, not {', '.join(further[:3])} too"
            raise InputError("public", self.public, allowed)
        classes: list[int] = [UNKNOWN if each is None else int(order[names.of[each]]) for each in found]
        return np.array(classes)


def _shared(table: pd.DataFrame, public: pd.DataFrame) -> str:
    """Return the columns that both have; other names of a private file may be a record, where it has no header."""
    return ", ".join(name for name in table if name in public) or "no column is in both files"


def _factorized(key: str, path: str, values: pd.Series) -> tuple[Ints, AnyArray]:
    """Return values as numbers and the text that each number stands for. InputError: a value is missing."""
    codes, found = pd.factorize(texts(values))
    if missing := int((codes < 0).sum()):
        allowed = f"must have a value of {values.name} in every row; {missing:,} or more have none"
        raise InputError(key, path, allowed)
    return codes, found.to_numpy()


class _Names:
    """Numbers of names, in order of appearance; with `given`, of these names only."""

    def __init__(self, given: Sequence[str | float] | None = None) -> None:
        self.given = None if given is None else tuple(map(str, given))
        self.of = {name: number for number, name in enumerate(self.given or ())}

    def numbers(self, key: str, path: str, values: pd.Series) -> Ints:
        """Return the number of each value. InputError: a value is missing, or is not one of the given names."""
        codes, found = _factorized(key, path, values)
        further = [name for name in found if name not in self.of]
        if self.given is not None and further:
            known = ", ".join(self.given[:20])
            allowed = f"must have {values.name} of the classes {known}; others found: {len(further)}"
            raise InputError(key, path, allowed)
        numbers: Ints = np.array([self.of.setdefault(name, len(self.of)) for name in found], np.int64)[codes]
        return numbers

    def ordered(self) -> tuple[tuple[str, ...], Ints]:
        """Return the names in order (by number, if all are numbers), and the place of each number's name in it."""
        names = list(self.of)
        if self.given is None:
            names.sort()
            with suppress(ValueError):  # not all are numbers
                numbers = {name: float(name) for name in names}
                names.sort(key=lambda name: (math.isnan(numbers[name]), numbers[name], name))
        place = {name: at for at, name in enumerate(names)}
        return tuple(names), np.array([place[name] for name in self.of], np.int64)
