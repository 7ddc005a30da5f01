"""The private, public and test split of a dataset, and how rows are assigned to them."""

import hashlib
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nzc.data.hashing import draw_by_key
from nzc.data.images import Pixels
from nzc.data.rows import LazyRows, blocks
from nzc.data.standardizer import Standardizer
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
UNKNOWN = -1  # the label of a public row whose class is not known
#: The pool has at most so many rows where features of private records join it: a representation
#: compares all of them.
_POOL = 20_000


@dataclass(frozen=True)
class Records:
    """Rows of the private split, in memory or not: uint8 images or float32 features. No error
    message quotes them.
    """

    x: AnyArray | LazyRows = field(
        repr=False
    )  # [rows, channels, height, width] or [rows, features]
    y: Ints = field(repr=False)  # [rows]: classes from 0

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True)
class Split(Records):
    """Rows of one split, in memory; y is UNKNOWN where a public row's class is not known."""

    x: AnyArray = field(repr=False)


@dataclass(frozen=True)
class Embedding:
    """Places [rows, dimensions] in a public representation (nzc.representation); those of private
    rows are private.
    """

    private: Floats = field(repr=False)
    public: Floats = field(repr=False)


@dataclass(frozen=True)
class DataSplits:
    """A dataset: records that the teachers learn from, rows that may be asked, rows that only
    measure accuracy.
    """

    private: Records
    public: Split
    test: Split
    classes: int
    file_rows: Ints | None = field(
        default=None, repr=False
    )  # [public] row number in the one file of all splits
    preparation: Standardizer | Pixels | None = None  # what was applied to the rows of the file
    groups: Ints | None = field(
        default=None, repr=False
    )  # [private] key of the group: the unit of privacy
    labels: tuple[str, ...] | None = None  # [classes] names of the classes
    ids: AnyArray | None = field(
        default=None, repr=False
    )  # [public] the user's own names of the public rows
    id_column: str | None = None  # the column of a table that has these names
    encoder: "TableEncoder | None" = None  # what turned the user's columns into features
    private_file: str | None = field(
        default=None, repr=False
    )  # SHA-256 that identifies the records in place of rows
    public_files: dict[str, str] = field(
        default_factory=dict
    )  # SHA-256 of files with public rows only, by name
    embedding: Embedding | None = None  # places of the rows in a public representation
    asked: Ints | None = field(
        default=None, repr=False
    )  # the public rows that the teachers label; None: all of them
    keys: Ints | None = field(default=None, repr=False)  # [private] key of each record's own name
    grouped_by: str | None = None  # what names the groups: column `patient`, say
    labels_only: bool = (
        False  # whether labels alone are private, and the features of private records are public
    )
    budgets: AnyArray | None = field(
        default=None, repr=False
    )  # [private] name of each record's budget group, as text
    weights: Ints | None = field(
        default=None, repr=False
    )  # [private] what follows of it (labeling.individual)
    coins: AnyArray | None = field(
        default=None, repr=False
    )  # secret key of the samples of records; None: all vote
    declared: bool = (
        True  # whether the classes are the user's statement; otherwise they are those of the rows
    )
    warnings: tuple[
        str, ...
    ] = ()  # what the user must know of the public rows; it may be published

    @property
    def names(self) -> Ints | None:
        """The keys [private] of groups, or else of records, that decide alone who learns from a
        record; or None.
        """
        return self.keys if self.groups is None else self.groups

    @property
    def to_label(self) -> Ints:
        """The numbers of the public rows that the teachers label."""
        return np.arange(len(self.public)) if self.asked is None else self.asked

    @cached_property
    def joined(self) -> Ints:
        """The numbers of the private records whose features join the pool: none, unless labels
        alone are private.
        """
        if not self.labels_only:
            return np.zeros(0, np.int64)
        # A hash of the features alone decides which, and in which order: labels may decide the
        # order of a file.
        hashes = [
            hashlib.sha256(row.tobytes()).digest()
            for part in blocks(self.private.x)
            for row in part
        ]
        free = max(0, _POOL - len(self.public))
        return np.array(sorted(range(len(hashes)), key=hashes.__getitem__)[:free], np.int64)

    @cached_property
    def pool(self) -> AnyArray:
        """The rows [pool, ...] that representation and student learn from: the public ones, then
        the `joined` ones.
        """
        return (
            np.concatenate([self.public.x, self.private.x[self.joined]])
            if self.labels_only
            else self.public.x
        )

    @cached_property
    def units(self) -> int:
        """How many units of privacy are private: groups, or records where there are no groups."""
        return len(self.private) if self.groups is None else len(np.unique(self.groups))

    @property
    def undeclared_classes(self) -> str | None:
        """The value of dataset.classes that declares the classes, where private labels alone decide
        them; else None.
        """
        if (
            self.declared
            or not len(self.private)
            or np.isin(np.arange(self.classes), self.public.y).all()
        ):
            return None
        return (
            str(self.classes)
            if self.labels is None
            else json.dumps(self.labels, ensure_ascii=False)
        )

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all rows of all splits, in order, and of the keys of groups or records, if
        there are any.
        """
        own = [part for part in (self.names, self.weights) if part is not None]
        arrays = self.public.x, self.public.y, self.test.x, self.test.y, *own
        return _with(self._of_private, *arrays).hexdigest()

    @property
    def private_digest(self) -> str:
        """SHA-256 of the private records, whatever the unit of privacy: the ledger counts what they
        cost.
        """
        return self.private_file or self._of_private.hexdigest()

    @cached_property
    def _of_private(self) -> "hashlib._Hash":
        return _with(hashlib.sha256(), self.private.x, self.private.y)

    @property
    def summary(self) -> dict[SummaryKey, Any]:
        """Sizes, classes, digest and digests of public files, as recorded in result.json, which is
        private.
        """
        facts: dict[SummaryKey, Any] = {name: len(getattr(self, name)) for name in SPLITS}
        facts |= {"features": len(self.joined)} if self.labels_only else {}
        facts |= {"public_files": self.public_files} if self.public_files else {}
        facts |= {
            "classes": self.classes,
            "undeclared_classes": self.undeclared_classes,
            "digest": self.digest,
        }
        return facts


def _with(start: "hashlib._Hash", *arrays: AnyArray | LazyRows) -> "hashlib._Hash":
    """Return the digest fed with types, shapes and bytes of arrays."""
    digest = start.copy()
    for x in arrays:
        digest.update(f"{x.dtype}{x.shape}".encode())
        if isinstance(x, LazyRows) and x.identity is not None:
            digest.update(x.identity)
        else:
            for part in blocks(x):
                digest.update(np.ascontiguousarray(part).data)
    return digest


@dataclass(frozen=True, kw_only=True)
class Dataset(ABC):
    """Base class of a dataset. Its fields but `unit` are defaults for other parts of the
    configuration.
    """

    network: Any = field(default=None, compare=False)  # for teachers and student
    augment: Any = field(default=None, compare=False)  # (x, torch.Generator) → x
    suits: Any = field(
        default=None, compare=False
    )  # by preset of aggregator or student: {gnmax: {sigma: 15}}
    name: Any = field(
        default=None, compare=False
    )  # of the people: costs under one name add up in the ledger
    #: What ε protects: a group, a record, or its label alone; None: groups where there are some,
    #: else records.
    unit: Literal["group", "record", "label"] | None = None

    def check(self) -> int | None:
        """Return within seconds how many rows are public; None: `load` will tell. InputError: a
        file is wrong.
        """
        rows = getattr(self, "public", None)
        return rows if isinstance(rows, int) else None

    def describe(self) -> None:  # noqa: B027
        """Say how public rows are used, before any private row is read; by default nothing."""

    @abstractmethod
    def load(self) -> DataSplits:
        """Read the rows and divide them. The same settings always give the same splits."""

    def read(self) -> DataSplits:
        """Load the splits. InputError: `unit` does not suit them, such as a label where several
        belong to a group.
        """
        splits = self.load()
        if self.unit is not None and (self.unit == "group") != (splits.groups is not None):
            has = (
                "no groups: record, label"
                if splits.groups is None
                else "groups: group (for dataset=npz, or record)"
            )
            raise InputError("unit", self.unit, f"must suit a dataset that has {has} or null")
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
        place, first, second = draw_by_key(units, seed, 2) / 2.0**64, private, private + public
    else:
        numbers, rank = np.unique(units, return_inverse=True)
        place = np.argsort(np.random.default_rng(seed).permutation(len(numbers)))[rank]
        first = round(private * len(numbers))
        second = first + round(public * len(numbers))
    chosen = [place < first, (first <= place) & (place < second), place >= second]
    if not all(rows.any() for rows in chosen[private == 0 :]):
        few = f"must leave no split empty, of {len(np.unique(units)):,} names or rows in all; or set dataset.seed"
        raise InputError("private", private, few)
    return chosen


def to_drop(
    private: Set[Any], others: Mapping[str, Set[Any]], names: str, overlap: Overlap
) -> Set[Any]:
    """Return the people whose private rows are left out; say how many people (of the `names`) have
    `others` too.

    `drop` leaves out private rows, not public ones, whose absence from a published folder would
    tell who is private: which rows remain follows from public files, so ε holds between private
    data of the people whom these do not name.
    """
    shared = {where: private & found for where, found in others.items()}
    every = frozenset[Any]().union(*shared.values())
    if not every:
        return every
    where = ", ".join(
        f"{len(found):,} are in {key} rows too" for key, found in shared.items() if found
    )
    told = f"of {len(private):,} values of the {names} in private rows, {where}"
    if overlap == "refuse":
        allowed = f"must be drop, to learn nothing from the private rows of people on both sides, or allow: {told}"
        raise InputError("overlap", overlap, allowed)
    print(
        f"nzc: {told}{'; these private rows are left out' * (overlap == 'drop')}", file=sys.stderr
    )
    return every if overlap == "drop" else frozenset()
