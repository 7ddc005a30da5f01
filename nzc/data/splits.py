"""The private, public and test split of a dataset, and how rows are assigned to them."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nzc.data.hashing import draw_by_key
from nzc.data.images import Pixels
from nzc.data.rows import FileRows, blocks
from nzc.data.standardizer import Standardizer
from nzc.saying import say
from nzc.streams import Stream
from nzc.types import AnyArray, Bools, Floats, Ints
from nzc.validation import InputError

if TYPE_CHECKING:
    from nzc.data.table_encoder import TableEncoder

SPLITS: tuple[Literal["private", "public", "test"], ...] = ("private", "public", "test")
#: The keys of `data` in result.json.
SummaryKey = Literal[
    "private",
    "public",
    "test",
    "classes",
    "undeclared_classes",
    "digest",
    "public_files",
    "features",
]
#: What becomes of people who have private rows, and public or test rows too.
Overlap = Literal["refuse", "drop", "allow"]
LABEL = "label"  # the unit of privacy where labels alone are private
#: What moves at most one vote a query; a teacher where nzc trained nothing.
Unit = Literal["group", "record", "label", "teacher"]
UNKNOWN = -1  # the label of a public row whose class is not known
#: Features of private records join the pool up to so many rows: a representation compares them all.
_POOL = 20_000


@dataclass(frozen=True, repr=False)
class Records:
    """Rows of the private split, in memory or not. No error message quotes them.

    x  uint8 images [rows, channels, height, width], or float32 features [rows, features]
    y  [rows]: classes from 0
    """

    x: AnyArray | FileRows
    y: Ints

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True, repr=False)
class Split(Records):
    """Rows of one split, in memory; y is UNKNOWN where a public row's class is not known."""

    x: AnyArray


@dataclass(frozen=True, repr=False)
class Embedding:
    """Places [rows, dimensions] in a public representation; those of private rows are private."""

    private: Floats
    public: Floats


@dataclass(frozen=True, repr=False)
class Units:
    """Whom the private records are about, one entry a record.

    groups      key of the group: the unit of privacy
    keys        key of each record's own name
    grouped_by  what names the groups: column `patient`, say
    """

    groups: Ints | None = None
    keys: Ints | None = None
    grouped_by: str | None = None

    @property
    def names(self) -> Ints | None:
        """Keys of groups, or else of records, that decide alone who learns; or None."""
        return self.keys if self.groups is None else self.groups


@dataclass(frozen=True, repr=False)
class Space:
    """What turned images into vectors, which are the rows of all splits.

    image        one of the images
    preparation  what was applied to the images of the file
    network      images as networks take them → vectors
    """

    image: AnyArray
    preparation: Standardizer | Pixels | None
    network: Any


@dataclass(frozen=True, repr=False)
class DataSplits:
    """A dataset: records to learn from, rows that may be asked, rows that only measure accuracy.

    units         whom the private records are about
    file_rows     [public] row number in the one file of all splits
    preparation   what was applied to the rows of the file
    labels        [classes] names of the classes
    persons       [public] numbers from 0 of whom the public rows are about; None: it is not known
    ids           [public] the user's own names of the public rows
    id_column     the column of a table that has these names
    encoder       what turned the user's columns into features
    space         what turned the user's images into vectors
    private_file  SHA-256 that identifies the records in place of rows
    public_files  SHA-256 of files with public rows only, by name
    asked         the public rows that the teachers label; None: all of them
    labels_only   whether labels alone are private, and the features of private records are public
    declared      whether the user states the classes; otherwise they are those of the rows
    warnings      what the user must know of the public rows; it may be published
    """

    private: Records
    public: Split
    test: Split
    classes: int
    units: Units = Units()
    file_rows: Ints | None = None
    preparation: Standardizer | Pixels | None = None
    labels: tuple[str, ...] | None = None
    persons: Ints | None = None
    ids: AnyArray | None = None
    id_column: str | None = None
    encoder: "TableEncoder | None" = None
    space: Space | None = None
    private_file: str | None = None
    public_files: dict[str, str] = field(default_factory=dict)
    asked: Ints | None = None
    labels_only: bool = False
    declared: bool = True
    warnings: tuple[str, ...] = ()

    @classmethod
    def empty(cls) -> "DataSplits":
        """Return the splits of `dataset=none`: of stored votes, no data need be known."""
        none = Split(np.zeros((0, 0), np.float32), np.zeros(0, np.int64))
        return cls(none, none, none, classes=0)

    @property
    def is_empty(self) -> bool:
        """Whether there is no dataset."""
        return not self.classes

    @property
    def to_label(self) -> Ints:
        """The numbers of the public rows that the teachers label."""
        return np.arange(len(self.public)) if self.asked is None else self.asked

    @cached_property
    def joined(self) -> Ints:
        """The numbers of the private records whose features join the pool.

        There are none, unless labels alone are private. A hash of the features alone decides which,
        and in which order: labels may decide the order of a file.
        """
        if not self.labels_only:
            return np.zeros(0, np.int64)
        rows = chain.from_iterable(blocks(self.private.x))
        hashes = [hashlib.sha256(row.tobytes()).digest() for row in rows]
        free = max(0, _POOL - len(self.public))
        return np.array(sorted(range(len(hashes)), key=hashes.__getitem__)[:free], np.int64)

    @cached_property
    def pool(self) -> AnyArray:
        """The rows [pool, ...] that representation and student learn from: public, then joined."""
        if not self.labels_only:
            return self.public.x
        return np.concatenate([self.public.x, self.private.x[self.joined]])

    @cached_property
    def unit_count(self) -> int:
        """How many units of privacy are private: groups, or records where there are no groups."""
        if self.units.groups is None:
            return len(self.private)
        return len(np.unique(self.units.groups))

    @property
    def unit(self) -> Unit:
        """The unit of privacy."""
        if self.labels_only:
            return "label"
        return "record" if self.units.groups is None else "group"

    @property
    def neighbours(self) -> str:
        """When two private datasets are neighbours, in words: one unit of privacy differs.

        The words are the same wherever the same is protected: only then can ε be added.
        """
        if self.labels_only:
            return (
                "the label of one record differs; the features of all records are public, "
                "and nothing protects them"
            )
        if self.units.groups is None:
            kept = "" if self.units.keys is None else ", but keeps its name"
            return f"one record differs{kept}"
        named = ""
        if self.units.grouped_by:
            named = f" (one value of the {self.units.grouped_by})"
        return f"all records of one group{named} are replaced by one or more others"

    @property
    def undeclared_classes(self) -> str | None:
        """What to type for dataset.classes, where private labels alone decide them; else None."""
        if self.declared or not len(self.private):
            return None
        if np.isin(np.arange(self.classes), self.public.y).all():
            return None
        if self.labels is None:
            return str(self.classes)
        return json.dumps(self.labels, ensure_ascii=False)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the rows of all splits, in order, and of their names."""
        digest = _with(
            self._of_private,
            self.public.x,
            self.public.y,
            self.test.x,
            self.test.y,
            self.units.names,
        )
        return digest.hexdigest()

    @property
    def private_digest(self) -> str:
        """SHA-256 of the private records, whatever their unit: the ledger counts their costs."""
        return self.private_file or self._of_private.hexdigest()

    @cached_property
    def _of_private(self) -> "hashlib._Hash":
        return _with(hashlib.sha256(), self.private.x, self.private.y)

    @property
    def summary(self) -> dict[SummaryKey, Any]:
        """Sizes, classes and digests, as recorded in result.json, which is private."""
        facts: dict[SummaryKey, Any] = {
            "private": len(self.private),
            "public": len(self.public),
            "test": len(self.test),
        }
        if self.labels_only:
            facts["features"] = len(self.joined)
        if self.public_files:
            facts["public_files"] = self.public_files
        facts["classes"] = self.classes
        facts["undeclared_classes"] = self.undeclared_classes
        facts["digest"] = self.digest
        return facts


def _with(start: "hashlib._Hash", *arrays: AnyArray | FileRows | None) -> "hashlib._Hash":
    """Return the digest fed with types, shapes and bytes of arrays, as far as there are any."""
    digest = start.copy()
    for x in arrays:
        if x is None:
            continue
        digest.update(f"{x.dtype}{x.shape}".encode())
        for block in blocks(x):
            digest.update(np.ascontiguousarray(block).data)
    return digest


@dataclass(frozen=True, kw_only=True)
class Dataset(ABC):
    """Base class of a dataset. Fields but `unit` are defaults for other parts of the configuration.

    network  for teachers and student
    augment  (x, torch.Generator) → x
    suits    by preset: {gnmax: {sigma: 15}}; and by recipe, which takes its place here
    name     of the people: costs under one name add up in the ledger
    unit     what ε protects: a group, a record, or its label alone; None: groups where there are
             some, else records
    """

    network: Any = field(default=None, compare=False)
    augment: Any = field(default=None, compare=False)
    suits: Any = field(default=None, compare=False)
    name: Any = field(default=None, compare=False)
    unit: Literal["group", "record", "label"] | None = None

    def check(self) -> int | None:
        """Return within seconds how many rows are public; None: `load` will tell.

        It may say how they are used, before any private row is read. InputError: a file is wrong.
        """
        rows = getattr(self, "public", None)
        if isinstance(rows, int):
            return rows
        return None

    def describe(self) -> None:  # noqa: B027
        """Say how public rows are used, before any private row is read; by default nothing."""

    def refused(self, key: str, allowed: str) -> InputError:
        """Return the error that the value of `key` is wrong."""
        return InputError(key, getattr(self, key), allowed)

    @abstractmethod
    def load(self) -> DataSplits:
        """Read the rows and divide them. The same settings always give the same splits."""

    def read(self) -> DataSplits:
        """Load the splits.

        InputError: `unit` does not suit them, such as a label where several belong to a group.
        """
        splits = self.load()
        grouped = splits.units.groups is not None
        if self.unit is not None and (self.unit == "group") != grouped:
            units = "no groups: record, label"
            if grouped:
                units = "groups: group (for dataset=npz, or record)"
            raise self.refused("unit", f"must suit a dataset that has {units} or null")
        return replace(splits, labels_only=self.unit == LABEL)


def check_names(classes: Sequence[str | float] | None) -> None:
    """Raise InputError unless these are names of classes, or None."""
    if classes is not None and len({*map(str, classes)}) < max(2, len(classes)):
        raise InputError("classes", classes, "must be two or more different names")


def by_share(units: Ints, named: bool, private: float, public: float, seed: int) -> list[Bools]:
    """Return the rows of the three splits as masks; rows of one unit [rows] share a split.

    units  keys of the names of records or groups (`named`), or row numbers

    A name decides alone, by a hash: whatever becomes of other records, this one keeps its split,
    and the shares hold on average. Row numbers, and names where nothing is private, are drawn
    without replacement: the shares are exact.
    InputError: a split would be empty, other than the private one where `private` is 0.
    """
    if private + public >= 1:
        raise InputError(
            "private", private, f"private + public must stay below 1 (public is {public})"
        )
    place: AnyArray
    if named and private:
        place = draw_by_key(units, seed, Stream.SPLITS) / 2.0**64
        end_of_private = private
        end_of_public = private + public
    else:
        numbers, rank = np.unique(units, return_inverse=True)
        place = np.argsort(np.random.default_rng(seed).permutation(len(numbers)))[rank]
        end_of_private = round(private * len(numbers))
        end_of_public = end_of_private + round(public * len(numbers))

    is_private = place < end_of_private
    is_test = place >= end_of_public
    masks = [is_private, ~is_private & ~is_test, is_test]
    if not all(mask.any() for mask in masks[private == 0 :]):
        raise InputError(
            "private",
            private,
            f"must leave no split empty, of {len(np.unique(units)):,} names or rows in all; "
            "or set dataset.seed",
        )
    return masks


def to_drop(
    private: Iterable[Any], others: Iterable[Any], names: str, overlap: Overlap
) -> Set[Any]:
    """Return the people whose private rows are left out; say how many of the `names` are shared.

    others  people of the public and the test rows

    `drop` leaves out private rows, not public ones, whose absence from a published folder would
    tell who is private: which rows remain follows from public files, so ε holds between private
    data of the people whom these do not name.
    """
    people = frozenset(private)
    shared = people.intersection(others)
    if not shared:
        return shared
    found = (
        f"of {len(people):,} values of the {names} in private rows, {len(shared):,} "
        "are in public rows too, or in test rows"
    )
    if overlap == "refuse":
        raise InputError(
            "overlap",
            overlap,
            "must be drop, to learn nothing from the private rows of people on both sides, "
            f"or allow: {found}",
        )
    if overlap == "allow":
        say(found)
        return frozenset()
    say(f"{found}; these private rows are left out")
    return shared
