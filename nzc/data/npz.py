"""Your own arrays in an .npz file, or in a folder of .npy files."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from nzc.data.hashing import keys_of, texts_of
from nzc.data.images import TYPE_RANGE, Pixels, Range, few_levels, has_shape_of_images
from nzc.data.rows import FileRows, blocks, load_arrays
from nzc.data.splits import (
    SPLITS,
    UNKNOWN,
    Dataset,
    DataSplits,
    Overlap,
    Records,
    Split,
    Units,
    by_share,
    to_drop,
)
from nzc.data.standardizer import CUT, LIMIT, Standardizer
from nzc.ranges import BelowOne, Between0And1, CountOrZero, TwoOrMore
from nzc.saying import say
from nzc.types import AnyArray, Ints
from nzc.validation import Tree

#: The kinds of dtypes that each array may have, and what to save instead of others.
_TYPES = {
    "x": ("biuf", "numbers; dataset=table accepts text and dates"),
    "y": ("biu", "whole numbers 0, 1, …; of text, np.unique(y, return_inverse=True)[1]"),
    "role": ("U", "text"),
    "group": ("biufUS", "text or numbers"),
    "id": ("biufUS", "text or numbers"),
}
#: Text that stands for a missing value: what np.asarray(…, dtype=str) makes of one.
_MISSING = ("", "nan", "None", "<NA>", "NaT")


@dataclass(frozen=True)
class Npz(Dataset):
    """Arrays x [rows, ...], y [rows], and optionally role, group and id, each [rows].

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
        for complaint in _of_arrays(arrays):
            raise self.refused("path", complaint)
        x = arrays["x"]
        y = arrays["y"].astype(np.int64)
        classes = max(2, int(y.max()) + 1)
        if (self.classes or classes) < classes:
            raise self.refused("classes", "must be more than every y of the file")
        if self.classes is None and len(np.unique(y[y >= 0])) < classes:
            raise self.refused(
                "path",
                "y must have rows of each class 0, 1, …, two or more; or set dataset.classes",
            )

        names = {name: keys_of(arrays[name]) for name in arrays.keys() & {"group", "id"}}
        private, public, test = self._divided(arrays, names)
        stored = x[public]
        preparation, warnings = self._preparation(stored)
        prepare = preparation or np.asarray
        say(*warnings)
        if isinstance(x, FileRows):
            records = Records(FileRows(x.file, x.stored, private, prepare), y[private])
        else:
            records = Records(prepare(x[private]), y[private])
        return DataSplits(
            records,
            Split(prepare(stored), y[public]),
            Split(prepare(x[test]), y[test]),
            self.classes or classes,
            file_rows=public,
            preparation=preparation,
            ids=_texts(arrays.get("id"), public),
            declared=self.classes is not None,
            warnings=warnings,
            units=self._units(arrays, names, private),
        )

    def _divided(self, arrays: Mapping[str, Any], names: Mapping[str, Ints]) -> list[Ints]:
        """Return the row numbers of the three splits.

        names  keys [rows] of groups and records, as far as the file has them
        """
        role = arrays.get("role")
        if role is None:
            named = names if self.private else arrays
            units = named.get("group", named.get("id", np.arange(len(arrays["y"]))))
            masks = by_share(units, bool(names), self.private, self.public, self.seed)
        else:
            masks = [role == name for name in SPLITS]
            if "group" in names:
                groups = names["group"]
                private = groups[masks[0]].tolist()
                others = groups[~masks[0]].tolist()
                dropped = to_drop(private, others, "array `group`", self.overlap)
                masks[0] &= ~np.isin(groups, [*dropped])
        return [np.flatnonzero(mask) for mask in masks]

    def _units(self, arrays: Tree, names: Mapping[str, Ints], private: Ints) -> Units:
        """Return whom the private rows are about."""
        grouped = "group" in names
        if grouped and self.unit != "record":
            return Units(names["group"][private], grouped_by="array `group`")
        if grouped:
            say(
                "dataset.unit=record: rows of one group go to several teachers, "
                "so ε protects a record, not a group"
            )
        keys = None
        if "id" in names:
            keys = names["id"][private]
        elif grouped and "role" not in arrays:
            # A record that changes its group may change its split, but no other record's teacher.
            keys = keys_of(private)
        return Units(keys=keys)

    def _preparation(
        self, public: AnyArray
    ) -> tuple[Standardizer | Pixels | None, tuple[str, ...]]:
        """Return what makes rows of the file those of the splits, and where it may be wrong.

        public  rows of the file [rows, ...]: they alone decide
        """
        pixels = Pixels.of(public, self.range, self.alpha)
        if pixels is not None:
            if self.range is not None:
                return pixels, ()
            if pixels.dtype != np.uint8:
                say(
                    "x has images: all public values are from 0 (black) to 1 (white); "
                    "if they are features, save x.reshape(len(x), -1)"
                )
            return pixels, few_levels(pixels(public))
        if self.range is not None:
            shape = list(public.shape[1:])
            raise self.refused(
                "range",
                f"must be null: rows of x have the shape {shape}, and images [height, width]",
            )
        if public.dtype == np.uint8:
            return None, ()
        standardizer = Standardizer.fit(public)
        warnings = []
        if has_shape_of_images(public):
            warnings.append(
                "x is read as features, although it has the shape of images: "
                f"save images as uint8, or as numbers from 0 to 1, or {TYPE_RANGE}"
            )
        far = (standardizer.limit < LIMIT).sum()
        if far:
            warnings.append(
                f"{far:,} features of x have public values far from all others: "
                f"they are cut at ±{CUT:g} deviations"
            )
        return standardizer, tuple(warnings)


def _texts(names: AnyArray | None, rows: Ints) -> AnyArray | None:
    """Return the names of these rows as text; None: the file has none."""
    if names is None:
        return None
    return texts_of(names[rows])


# What is wrong with the arrays, the most basic first; the first line ends the run, so each check
# relies on those before it. No value of a record is quoted.


def _of_arrays(arrays: Tree) -> Iterator[str]:
    """Yield what is wrong with arrays: names, shapes and types, missing values, and labels."""
    absent = sorted({"x", "y"} - arrays.keys())
    if absent:
        yield (
            "must hold the arrays x and y of an .npz file, or x.npy and y.npy; "
            f"{' and '.join(absent)} is missing"
        )
    shape = arrays["x"].shape
    if len(shape) < 2 or not prod(shape):
        yield (
            f"x has the shape {list(shape)}; "
            "it must be [rows, features], or images [rows, height, width]"
        )
    for name, array in arrays.items():
        kinds, remedy = _TYPES[name]
        if name != "x" and array.shape != shape[:1]:
            yield (
                f"{name} has the shape {list(array.shape)}; "
                f"there must be one {name} per row, [{shape[0]}]"
            )
        if array.dtype.kind not in kinds:
            found = "text" if array.dtype.kind == "U" else array.dtype
            yield f"{name} is {found}; save {remedy}"
    yield from _of_missing(arrays)
    yield from _of_labels(arrays)


def _of_missing(arrays: Tree) -> Iterator[str]:
    """Yield what is wrong with numbers and names: some are missing."""
    x = arrays["x"]
    if x.dtype.kind == "f" and not all(np.isfinite(block).all() for block in blocks(x)):
        yield "x has missing (NaN) or infinite values; dataset=table accepts missing values"
    for name in arrays.keys() & {"group", "id"}:
        missing = np.isin(texts_of(arrays[name]), _MISSING).sum()
        if missing:
            yield (
                f"{name} has {missing:,} missing values; "
                "give each of these rows a name of its own, or leave them out"
            )


def _of_labels(arrays: Tree) -> Iterator[str]:
    """Yield what is wrong with classes and roles."""
    y = arrays["y"]
    role = arrays.get("role", np.full(len(y), "private"))
    if y.min() < UNKNOWN:
        yield "y must be classes 0, 1, …; -1 marks a public row of unknown class"
    unknown = y == UNKNOWN
    if (role[unknown] != "public").any():
        yield (
            f"y is -1 in {unknown.sum():,} rows; "
            "only public rows, by their role, may be of unknown class"
        )
    if "role" in arrays and not (np.isin(role, SPLITS).all() and (role == "public").any()):
        yield (
            f"role must be {', '.join(SPLITS)}, and some rows public: "
            "teachers label them, the student learns from them"
        )
