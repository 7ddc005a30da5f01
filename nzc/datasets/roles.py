"""Who may see which rows: the private, public and test roles."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np

from nzc._types import AnyArray, Bools, Ints
from nzc.datasets.augment import Affine
from nzc.errors import InputError, fraction, share, whole

#: The label of a public row of which nobody knows it.
UNKNOWN = -1


@dataclass(frozen=True)
class Split:
    """Rows of one role: x [rows, ...] (uint8 images [rows, channels, height, width], or float32 features), y [rows]."""

    x: AnyArray
    y: Ints

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True)
class Standard:
    """What brings features to mean 0 and deviation 1 among public rows, and follows from nothing else.

    mean, spread   [features]
    dtype          of the features in the file
    """

    mean: AnyArray
    spread: AnyArray
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, public: AnyArray) -> "Standard":
        """That of public rows [rows, features]."""
        spread = public.std(axis=0)
        return cls(public.mean(axis=0), np.where(spread > 0, spread, 1), public.dtype.newbyteorder("="))

    def __call__(self, x: AnyArray) -> AnyArray:
        """float32 [rows, features]."""
        scaled: AnyArray = (x - self.mean) / self.spread
        return scaled.astype(np.float32)


@dataclass(frozen=True)
class Roles:
    """A dataset, split for good: records for the teachers, rows that may be asked about, rows that only judge.

    origin     [public] where the public rows stood in the one file that all roles were drawn from; None: no such file
    standard   what was done to features; None where the rows are as the file has them
    """

    private: Split
    public: Split
    test: Split
    classes: int
    origin: Ints | None = None
    standard: Standard | None = None

    @cached_property
    def digest(self) -> str:
        """A fingerprint of every row of every role, in order."""
        return _digest(self.private, self.public, self.test)

    @cached_property
    def private_digest(self) -> str:
        """A fingerprint of the private records."""
        return _digest(self.private)

    @property
    def summary(self) -> dict[str, int | str]:
        """What is recorded of the roles: their sizes and the digest of their rows."""
        sizes = {name: len(getattr(self, name)) for name in ("private", "public", "test")}
        return {**sizes, "classes": self.classes, "digest": self.digest}


def _digest(*splits: Split) -> str:
    whole = sha256()
    for array in (array for split in splits for array in (split.x, split.y)):
        whole.update(f"{array.dtype}{array.shape}".encode())
        whole.update(np.ascontiguousarray(array).data)
    return whole.hexdigest()


class Dataset(ABC):
    """What a file of this folder implements.

    `network` and `augment` are no business of the rows: they say what suits them, for teachers and student to take up.
    """

    network: str | None
    augment: Affine | None

    @abstractmethod
    def load(self) -> Roles:
        """Read the rows and give each its role; the same settings give the same roles."""


def choose(rows: int, private: int, public: int, seed: int) -> tuple[Ints, Ints, Ints]:
    """A seeded choice of `private` and `public` rows out of `rows`; the rest is for testing. Never overlapping."""
    if private + public >= rows:
        raise InputError(
            "private", private, f"private + public must leave rows to test on: at most {rows - public - 1}"
        )
    order = np.random.default_rng(seed).permutation(rows)
    return order[:private], order[private : private + public], order[private + public :]


def check_shares(seed: int, private: float, public: float) -> None:
    """What `by_share` takes."""
    whole(0, seed=seed)
    fraction(private=private)
    share(public=public)
    if private + public >= 1:
        raise InputError("private", private, f"private + public must stay below 1 (public is {public})")


def by_share(group: AnyArray, private: float, public: float, seed: int) -> list[Bools] | None:
    """Rows of each role, as masks: a seeded choice of shares of the groups, so that a group's rows keep together.

    None where there are too few groups for three roles. A share of 0 leaves the private role empty.
    """
    order = np.random.default_rng(seed).permutation(np.unique(group))
    first = round(private * len(order))
    second = first + round(public * len(order))
    chosen = [np.isin(group, part) for part in (order[:first], order[first:second], order[second:])]
    return chosen if all(rows.any() for rows in chosen[private == 0 :]) else None
