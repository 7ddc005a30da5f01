"""Your own tables: CSV, Parquet or Arrow files with named columns."""

import json
import os
import shlex
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isnan
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from nzc.data.hashing import keys_of
from nzc.data.rows import FileRows, gather
from nzc.data.sentences import Sentences
from nzc.data.splits import (
    SPLITS,
    Dataset,
    DataSplits,
    Overlap,
    Records,
    Split,
    Units,
    check_names,
    to_drop,
)
from nzc.data.table_encoder import (
    ColumnError,
    TableEncoder,
    blanked,
    is_utf8,
    plain_texts,
    read_table,
    written,
)
from nzc.data.table_fit import KINDS, doubts, fit_encoder, no_records
from nzc.ranges import CountOrZero, TwoOrMore
from nzc.saying import say
from nzc.storage.files import digest_of
from nzc.types import AnyArray, Bools, Ints
from nzc.validation import InputError, Tree, did_you_mean, meant, shortened

CHUNK = 100_000  # rows of a file that are in memory at a time
_SKIP = "if other lines stand before a header, type dataset.skip=N to leave out N lines"


@dataclass(frozen=True, kw_only=True)
class Table(Dataset):
    """Private records with labels in one file, public rows in another, test rows in a third.

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
    drop: list[str] = field(default_factory=list)
    drop_rows: list[str] | None = None
    columns: Tree | list[str] | None = None
    categories: TwoOrMore = 32
    missing: list[str | int | float] = field(default_factory=list)
    classes: list[str | int | float] | None = None
    encoding: str | None = None
    skip: CountOrZero = 0
    quoting: Literal["minimal", "none"] = "minimal"
    overlap: Overlap = "refuse"
    texts: Sentences | None = None

    def __post_init__(self) -> None:
        check_names(self.classes)
        try:
            "".encode(self.encoding or "utf-8")
        except LookupError:
            names = "null or an encoding that Python knows, such as cp1252, utf-16-le or gbk"
            raise InputError("dataset.encoding", self.encoding, f"must be {names}") from None
        for column, kind in self.kinds.items():
            if kind not in KINDS and "%" not in str(kind):
                raise InputError(
                    f"dataset.columns.{column}",
                    kind,
                    f"must be {', '.join(KINDS)}, or a date format such as %d.%m.%Y",
                )

    def check(self) -> int:
        _ = self._classes, self._admitted  # InputError: a file is wrong
        return len(self._names["public"])

    def describe(self) -> None:
        _ = self._public

    def load(self) -> DataSplits:
        encoder = self._public.encoder
        assert encoder is not None
        names = self._names["private"][self._admitted]
        x = self._encoded("private", encoder, self._admitted)
        test = self._public.test
        if self.test is not None:
            labels = self._names["test"][self.label]
            test_x = self._encoded("test", encoder, np.ones(len(labels), bool))
            test = Split(test_x[:], self._numbers(labels))
        return replace(
            self._public,
            private=Records(x, self._numbers(names[self.label])),
            test=test,
            units=self._units(names),
            private_file=digest_of(self.private),
        )

    def _units(self, names: pd.DataFrame) -> Units:
        """Return whom the private records are about."""
        if self._person not in names:
            return Units()
        codes, people = names[self._person].factorize()
        keys = keys_of(np.asarray(people))[codes]
        if self.group is None:
            return Units(keys=keys)
        return Units(groups=keys, grouped_by=f"column `{self.group}`")

    @property
    def kinds(self) -> Tree:
        """The given kinds of columns; a list has `name: kind` for names that are no keys."""
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
    def _named(self) -> tuple[str | None, ...]:
        """The columns that are no features, but for `drop`."""
        return self.label, self.group, self.id

    @property
    def _person(self) -> str | None:
        """The column whose values alone decide the teachers, where the private file has it."""
        return self.group or self.id

    @property
    def _missing(self) -> list[str]:
        return list(map(str, self.missing))

    @property
    def _csv(self) -> Tree:
        """How CSV files are written."""
        return {"encoding": self.encoding, "skip": self.skip, "quoting": self.quoting}

    def _chunks(
        self, key: str, rows: int | None = None, names: Collection[str] | None = None
    ) -> Iterator[pd.DataFrame]:
        """Yield the rows of a file, at most `rows` (None: CHUNK) at a time.

        names  read only these columns; None: all
        InputError: why the file cannot be read, without a cell of it.
        """
        try:
            for chunk in read_table(
                getattr(self, key),
                rows or CHUNK,
                names,
                expected=[self.label] if key == "private" else self._columns,
                names=self._named,
                **self._csv,
            ):
                if self.drop_rows:
                    dropped = chunk.apply(lambda cells: written(cells).isin(self.drop_rows))
                    chunk = chunk[~dropped.any(axis=1)]
                yield blanked(chunk, self._missing)
        except InputError:
            raise
        except Exception as error:  # pandas and pyarrow raise many types, and quote cells
            why = getattr(error, "strerror", None) or type(error).__name__
            if isinstance(error, pd.errors.ParserWarning | pd.errors.ParserError):
                why = f"a row has more cells than the header, or a quote does not end; {_SKIP}"
            elif isinstance(error, ColumnError):
                why = str(error)
            if isinstance(error.__cause__, UnicodeError) and self.encoding is None:
                why += ", or type dataset.encoding=cp1252 if Windows in Western Europe wrote it"
            raise self.refused(
                key, f"must be a readable CSV, Parquet or Arrow file ({why})"
            ) from None

    @cached_property
    def _columns(self) -> list[str]:
        """The columns of the private file."""
        return list(next(self._chunks("private", 1)))

    @cached_property
    def _names(self) -> dict[str, pd.DataFrame]:
        """By file, label, group and id of each row as text, None where it is missing.

        It is a quick look: 100 MB take a second. A file without these columns has another one.
        """
        if os.path.realpath(self.public) == os.path.realpath(self.private):
            raise self.refused("public", "must be another file than dataset.private")
        columns: dict[str, list[str]] = {}
        for key in SPLITS:
            if getattr(self, key) is not None:
                columns[key] = list(next(self._chunks(key, 1)))
        self._check_columns(columns)
        return {key: self._names_in(key, found) for key, found in columns.items()}

    def _names_in(self, key: str, columns: list[str]) -> pd.DataFrame:
        """Return these names of the rows of a file, which has the columns."""
        self._check_encoding(key)
        wanted = [name for name in columns if name in self._named] or columns[:1]
        read = None if self.drop_rows else wanted
        chunks = (chunk[wanted].apply(plain_texts) for chunk in self._chunks(key, names=read))
        names = pd.concat(chunks, ignore_index=True)
        if names.empty:
            raise self.refused(key, "must have rows")
        required = {"public": (), "test": (self.label,), "private": (self.label, self._person)}
        for name in names.columns.intersection(required[key]):
            missing = names[name].isna().sum()
            if missing:
                found = f"{missing:,} have none (an empty cell, or a text of dataset.missing)"
                allowed = f"must have a value of {name} in every row; {found}"
                raise self.refused(key, f"{allowed}; dataset.drop_rows leaves rows out")
        return names

    def _check_encoding(self, key: str) -> None:
        """Raise InputError where a file is in UTF-8, which most other encodings would misread."""
        path = getattr(self, key)
        if self.encoding is not None and "utf" not in self.encoding.lower() and is_utf8(path):
            allowed = f"must be the encoding of all CSV files, and {path} is in UTF-8"
            raise self.refused("encoding", f"{allowed}: save all in UTF-8")

    def _check_columns(self, files: Mapping[str, list[str]]) -> None:
        """Raise InputError where a file lacks a column that is named, or has other features.

        files  their columns. Without a header, names that only a private file has are a record:
               they are not quoted.
        """
        private = files["private"]
        public = files["public"]
        shared = sorted({*public} & {*private})
        both = private + public
        for key, names, path, columns in (
            ("label", [self.label], self.private, private),
            ("group", [self.group], self.private, private),
            ("id", [self.id], self.public, public),
            ("drop", self.drop, self.public, both),
            ("columns", self.kinds, self.public, both),
        ):
            for name in names:
                if name is not None and name not in columns:
                    near = meant(name, columns, shared)
                    raise InputError(key, name, f"must be a column of {path}{near}; {_SKIP}")

        named = {*self._named, *self.drop}
        features = {*public} - named
        others = {key: {*names} for key, names in sorted(files.items()) if key != "public"}
        beyond = features.difference(*others.values())
        if beyond:
            near = did_you_mean(min(beyond), private)
            raise self.refused(
                "public",
                f"must have columns of {self.private}; {_listed(beyond)} is none of them{near}; "
                f"dataset.drop leaves columns out; {_SKIP}",
            )
        allowed = f"must have the label and the columns of {self.public}"
        for key, found in others.items():
            absent = features.union([self.label]) - found
            further = found - features - named
            if absent:
                near = did_you_mean(min(absent), further)
                raise self.refused(key, f"{allowed}; {_listed(absent)} is missing{near}; {_SKIP}")
            if further:
                raise self.refused(
                    key,
                    f"{allowed}; {_listed(further)} is not in the public file: name it by "
                    "dataset.group if it says whom a row is about, else by dataset.drop",
                )

    @cached_property
    def _admitted(self) -> Bools:
        """Which private rows are used, [rows]: by the column that tells people apart."""
        private, *shown = self._names.values()
        for column in (self.group, self.id):
            others = [names[column].dropna() for names in shown if column in names]
            if column not in private or not others:
                continue
            if column == self.group or not _are_row_numbers(self._names["public"][column]):
                people = private[column]
                names = f"column `{column}`"
                dropped = to_drop(people.dropna(), pd.concat(others), names, self.overlap)
                return np.asarray(~people.isin(dropped))
        return np.ones(len(private), bool)

    @cached_property
    def _classes(self) -> Sequence[str]:
        """The names of the classes, in order; by number, if all private labels are numbers."""
        labels = self._names["private"][self.label]
        classes = list(map(str, self.classes or sorted(labels.unique())))
        if self.classes is None:
            if not 2 <= len(classes) <= max(20, len(labels) // 100):
                found = f"it has {len(classes):,} different values in {len(labels):,} rows"
                remedy = "if they are classes, state them all by dataset.classes=[…]"
                raise self.refused("label", f"must name classes; {found}; {remedy}")
            with suppress(ValueError):  # not all are numbers
                classes.sort(key=lambda name: (isnan(float(name)), float(name), name))
        for key, names in self._names.items():
            if self.label in names:
                others = {*names[self.label].dropna()} - {*classes}
                if others:
                    allowed = f"{self.label} of the classes {', '.join(classes[:20])}"
                    why = f"it has {len(others)} others; dataset.missing may name texts such as NA"
                    raise self.refused(key, f"must have {allowed}; {why}")
        return classes

    def _numbers(self, labels: pd.Series) -> Ints:
        """Return the classes [rows] of labels; a missing one becomes UNKNOWN."""
        return np.asarray(pd.Index(self._classes).get_indexer(labels), np.int64)

    @cached_property
    def _public(self) -> DataSplits:
        """The public rows; the other splits are empty yet.

        How columns are used is said: a wrong guess must be seen.
        """
        public = pd.concat(self._chunks("public"), ignore_index=True)
        strange = no_records(public)
        if strange and self.drop_rows != []:
            cells = json.dumps([*(self.drop_rows or ()), *strange], ensure_ascii=False)
            raise self.refused(
                "public",
                "must have records only; rows at its start or end seem to be none: type "
                f"{shlex.quote(f'dataset.drop_rows={cells}')} to leave out, of each file, the rows "
                "with such a cell, or dataset.drop_rows=[] to keep all",
            )
        encoder, warnings = self._fitted(public)
        x = encoder.encode(public)
        names = self._names["public"]
        y = self._numbers(names.get(self.label, pd.Series(None, names.index)))
        if self.label in public:
            say(f"{self.public} has labels ({self.label}): they only measure accuracy")
        say(*warnings)
        ids = None
        if self.id is not None:
            ids = names[self.id].to_numpy(object)
        persons = None
        if self.group in names:
            persons = np.asarray(names[self.group].factorize()[0])
            unnamed = persons < 0  # each is a person of its own
            persons[unnamed] = persons.max() + 1 + np.arange(unnamed.sum())
        none = Split(x[:0], y[:0])
        return DataSplits(
            none,
            Split(x, y),
            none,
            len(self._classes),
            labels=tuple(self._classes),
            persons=persons,
            ids=ids,
            id_column=self.id,
            encoder=encoder,
            public_files={Path(self.public).name: digest_of(self.public)},
            declared=self.classes is not None,
            warnings=warnings,
        )

    def _fitted(self, public: pd.DataFrame) -> tuple[TableEncoder, tuple[str, ...]]:
        """Return the encoder of public rows, and where it may be wrong; say what it is made of."""
        _ = self._classes  # InputError: a file is wrong
        inputs = public.drop(columns=[*self._named, *self.drop], errors="ignore")
        try:
            encoder = fit_encoder(inputs, self.kinds, self.categories, self._missing, self.texts)
        except ColumnError as error:
            raise self.refused(
                "public", f"must have the given kinds of columns: {error}"
            ) from error
        if not encoder.columns:
            unused = "; ".join(map(": ".join, encoder.unused.items()))
            raise self.refused("public", f"must have a column of features ({shortened(unused)})")

        say(
            f"{len(encoder.features)} features, fitted on {len(public):,} public rows; "
            "dataset.columns corrects the kind of a column"
        )
        kinds = defaultdict[str, list[str]](list)
        for column in encoder.columns:
            kinds[column.kind].append(column.name)
        for kind, names in kinds.items():
            say(f"{kind}: {shortened(', '.join(names))}")
        for name, why in encoder.unused.items():
            say(f"{name} is not used: {why}")
        self._say_texts(kinds)
        warnings = tuple(doubts(inputs, encoder, self.group is not None))
        return replace(encoder, **self._csv), warnings

    def _say_texts(self, kinds: Mapping[str, list[str]]) -> None:
        """Say what else free text may be, by the names of columns by kind.

        InputError: there is a sentence encoder, and no free text.
        """
        if self.texts is not None and "vectors" not in kinds:
            allowed = "must be left out: no column is free text; dataset.columns names one"
            raise InputError("representation.encoder.model", self.texts.name, allowed)
        if "text" in kinds:
            say("representation=pretrained takes what texts mean, too, by a sentence encoder")

    def _encoded(self, key: str, encoder: TableEncoder, admitted: Bools) -> AnyArray | FileRows:
        """Return the features of the admitted rows of a file; what does not fit is missing."""

        # No value is refused: then one record would decide whether there is a run.
        columns = [replace(column, given=True) for column in encoder.columns]
        tolerant = replace(encoder, columns=columns)

        def parts() -> Iterator[AnyArray]:
            first = 0
            for chunk in self._chunks(key):
                yield tolerant.encode(chunk[admitted[first : first + len(chunk)]])
                first += len(chunk)

        return gather(parts())


def _listed(names: Iterable[str]) -> str:
    return shortened(", ".join(sorted(names)))


def _are_row_numbers(names: pd.Series) -> bool:
    """Return whether names number the rows from 0 or 1: two files have the same by chance."""
    numbers = pd.to_numeric(names.str.extract(r"(\d{1,15})$")[0]).sort_values()
    in_turn = numbers.iloc[0] in (0, 1) and (numbers.diff()[1:] == 1).all()
    return bool(names.is_unique and in_turn)
