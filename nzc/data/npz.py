"""Your own arrays in an .npz file, or in a folder of .npy files."""

import sys
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np

from nzc.data.hashing import keys_of, texts_of
from nzc.data.images import Pixels, Range, few_levels, has_shape_of_images, typed_range
from nzc.data.rows import FileRows, blocks, load_arrays
from nzc.data.splits import (
    SPLITS,
    UNKNOWN,
    Dataset,
    DataSplits,
    Overlap,
    Records,
    Split,
    by_share,
    to_drop,
)
from nzc.data.standardizer import Standardizer
from nzc.settings import BelowOne, Between0And1, CountOrZero, TwoOrMore
from nzc.types import AnyArray
from nzc.validation import InputError

#: The kinds of dtypes that each array may have, and what to save instead of others.
_TYPES = {
    "x": ("biuf", "numbers; dataset=table accepts text and dates"),
    "y": ("biu", "whole numbers 0, 1, …; of text, np.unique(y, return_inverse=True)[1]"),
    "role": ("U", "text"),
    **dict.fromkeys(("group", "id", "budget"), ("biufUS", "text or numbers")),
}
#: Text that stands for a missing value: what np.asarray(…, dtype=str) makes of one.
_MISSING = ("", "nan", "None", "<NA>", "NaT")


@dataclass(frozen=True)
class Npz(Dataset):
    """Arrays x [rows, ...], y [rows] with classes 0, 1, …, and optionally role, group, id and
    budget, each [rows].

    conf/dataset/npz.yaml explains arrays and keys. Rows with the shape of images become images of
    bytes, if x is of uint8, all its public values are from 0 to 1, or `range` is given. Other
    numbers, true and false are features, standardised by the public rows. Of a folder's x.npy, each
    teacher reads its own rows only.
    """

    path: str
    seed: CountOrZero
    private: BelowOne
    public: Between0And1
    classes: TwoOrMore | None = None
    overlap: Overlap = "refuse"
    range: Range = None
    alpha: bool = True

    def check(self) -> int | None:
        role = load_arrays(self.path, ["role"]).get("role")
        return None if role is None else int((role == "public").sum())

    def load(self) -> DataSplits:
        arrays = load_arrays(self.path, list(_TYPES))
        if complaint := _complaint(arrays, self.classes):
            raise InputError("path", self.path, complaint)
        x, y, role = arrays["x"], arrays["y"].astype(np.int64), arrays.get("role")
        group, keys = (
            keys_of(arrays[name]) if name in arrays else None for name in ("group", "id")
        )
        if role is None:
            named = arrays.get("group", arrays.get("id"))
            units = (
                np.arange(len(y)) if named is None else keys_of(named) if self.private else named
            )
            chosen = by_share(units, named is not None, self.private, self.public, self.seed)
        else:
            chosen = [role == name for name in SPLITS]
        where = [np.flatnonzero(rows) for rows in chosen]
        if group is not None and role is not None:
            own, *people = (frozenset(group[rows].tolist()) for rows in where)
            dropped = to_drop(
                own, dict(zip(SPLITS[1:], people, strict=True)), "array `group`", self.overlap
            )
            where[0] = where[0][~np.isin(group[where[0]], [*dropped])]
        mine, asked, _ = where
        unit: dict[str, Any] = {"keys": None if keys is None else keys[mine]}
        if group is not None and self.unit == "record":
            rows = "rows of one group go to several teachers, so ε protects a record, not a group"
            print(f"nzc: dataset.unit=record: {rows}", file=sys.stderr)
            if (
                role is None and keys is None
            ):  # a record that changes its group may change its split, and no other's
                unit = {"keys": keys_of(mine)}
        elif group is not None:
            unit = {"groups": group[mine], "grouped_by": "array `group`"}
        stored = x[asked]
        preparation = self._preparation(stored)
        prepare = preparation or np.asarray
        public = prepare(stored)
        warnings = self._doubts(stored, preparation, public)
        for line in warnings:
            print(f"nzc: {line}", file=sys.stderr)
        private = (
            FileRows(x.file, x.stored, mine, prepare)
            if isinstance(x, FileRows)
            else prepare(x[mine])
        )
        return DataSplits(
            Records(private, y[mine]), Split(public, y[asked]), Split(prepare(x[where[2]]), y[where[2]]),
            self.classes or int(y.max()) + 1, asked, preparation, declared=self.classes is not None,
            ids=texts_of(arrays["id"][asked]) if "id" in arrays else None,
            budgets=texts_of(arrays["budget"][mine]) if "budget" in arrays else None, warnings=warnings, **unit,
        )  # fmt: skip

    def _preparation(self, public: AnyArray) -> Standardizer | Pixels | None:
        """Return what makes rows of the file those of the splits; public rows [rows, ...] decide.
        Say how x is read.
        """
        pixels = Pixels.of(public, self.range, self.alpha)
        if pixels is None and self.range is not None:
            allowed = f"must be null: rows of x have the shape {list(public.shape[1:])}, and images [height, width]"
            raise InputError("range", self.range, allowed)
        if pixels is None:
            return None if public.dtype == np.uint8 else Standardizer.fit(public)
        if self.range is None and pixels.dtype != np.uint8:
            features = "if they are features, save x.reshape(len(x), -1)"
            print(
                f"nzc: x has images: all public values are from 0 (black) to 1 (white); {features}",
                file=sys.stderr,
            )
        if pixels.alpha:
            otherwise = "dataset.alpha=false makes it a channel like the others"
            print(
                f"nzc: dataset.alpha=true: the last channel of x is transparency, on white; {otherwise}",
                file=sys.stderr,
            )
        return pixels

    def _doubts(
        self, stored: AnyArray, preparation: Standardizer | Pixels | None, public: AnyArray
    ) -> tuple[str, ...]:
        """Return a line if x may be read wrong, given its public rows [rows, ...] before and after
        `preparation`.
        """
        if isinstance(preparation, Pixels) and self.range is None:
            return few_levels(public, partial(preparation.extremes, stored))
        if isinstance(preparation, Standardizer) and has_shape_of_images(stored):
            wanted = "save images as uint8, or as numbers from 0 to 1"
            typed = typed_range(stored.min(), stored.max())
            return (
                f"x is read as features, although it has the shape of images: {wanted}; or, {typed}",
            )
        return ()


def _complaint(arrays: dict[str, Any], classes: int | None) -> str | None:
    """Return what is wrong, the most basic first: a check relies on those before it. No value of a
    record is quoted.
    """
    if absent := [name for name in ("x", "y") if name not in arrays]:
        return f"must hold the arrays x and y of an .npz file, or x.npy and y.npy; {' and '.join(absent)} is missing"
    x, y, role = arrays["x"], arrays["y"], arrays.get("role")
    if len(x.shape) < 2 or not prod(x.shape):
        return f"x has the shape {list(x.shape)}; it must be [rows, features], or images [rows, height, width]"
    for name, array in arrays.items():
        kinds, remedy = _TYPES[name]
        if name != "x" and array.shape != x.shape[:1]:
            return f"{name} has the shape {list(array.shape)}; there must be one {name} per row, [{len(x)}]"
        if array.dtype.kind not in kinds:
            return f"{name} is {'text' if array.dtype.kind == 'U' else array.dtype}; save {remedy}"
    wrong = [~np.isfinite(part).all(axis=0) for part in (blocks(x) if x.dtype.kind == "f" else ())]
    if columns := int(np.any(wrong, axis=0).sum()):
        return f"x has missing (NaN) or infinite values in {columns:,} columns; dataset=table accepts missing values"
    present, unknown = np.unique(y[y >= 0]), y == UNKNOWN
    if y.min() < UNKNOWN or len(present) < 2:
        return "y must have two classes or more, 0, 1, …; -1 marks a public row of unknown class"
    if (
        present[0] == 1
        and len(present) == present[-1]
        and (classes is None or classes <= present[-1])
    ):
        return f"classes are 1 … {len(present)}; they must be 0 … {len(present) - 1}: save np.where(y > 0, y - 1, y)"
    if classes is None and len(present) != present[-1] + 1:
        return "y has no row of a class below the largest; number the classes 0, 1, …, or set dataset.classes"
    if classes is not None and present[-1] >= classes:
        raise InputError("classes", classes, "must be more than every y of the file")
    if unknown.any() and (role is None or (role[unknown] != "public").any()):
        return f"y is -1 in {unknown.sum():,} rows; only public rows, by their role, may be of unknown class"
    if role is not None and not (np.isin(role, SPLITS).all() and (role == "public").any()):
        return f"role must be {', '.join(SPLITS)}, and some rows public: teachers label them, the student learns from them"
    for name in arrays.keys() & {"group", "id"}:
        if missing := int(np.isin(texts_of(arrays[name]), _MISSING).sum()):
            return f"{name} has {missing:,} missing values; give each of these rows a name of its own, or leave them out"
    return None
