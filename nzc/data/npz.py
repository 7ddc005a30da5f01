"""Your own arrays in an .npz file, or in a folder of .npy files."""

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from nzc.data.arrays import load_arrays, read_folder
from nzc.data.hashing import keys_of, texts_of
from nzc.data.rows import FileRows, blocks
from nzc.data.splits import SPLITS, UNKNOWN, Dataset, DataSplits, Records, Split, by_share, check_shares
from nzc.data.standardizer import Standardizer
from nzc.types import AnyArray, Bools, Ints
from nzc.validation import InputError, fits_memory, one_of, whole

_BY_RECORD = "dataset.unit=record: rows of one group go to several teachers, so ε protects a record, not a group"
#: The kinds of dtypes that each array may have, and what to save instead of others.
_TYPES = {
    "x": ("biuf", "numbers; dataset=table accepts text and dates"),
    "y": ("biu", "whole numbers 0, 1, …: y.astype(int), or np.unique(y, return_inverse=True)[1] for text"),
    "role": ("U", "text: role.astype(str)"),
    "group": ("biufUS", "text or numbers: group.astype(str)"),
    "id": ("biufUS", "text or numbers: id.astype(str)"),
}
#: Text that stands for a missing value: what np.asarray(…, dtype=str) makes of one.
_MISSING = ("", "nan", "None", "<NA>", "NaT")


@dataclass(frozen=True)
class Npz(Dataset):
    """Arrays x [rows, ...], y [rows] with classes 0, 1, …, and optionally role, group and id, each [rows].

    path     an .npz file; or a folder with x.npy, y.npy and so on: each teacher then reads its own rows of x.npy, and
             the private rows are never in memory all at once
    role     private, public or test (may be absent); the public rows of unknown class have y = −1
    group    whom a row is about, as numbers or text: one teacher learns from all private rows of a group
    id       the row's own name, as a number or text, by which nzc and the user know it again. Without group and id it
             is known by its row number
             Without role, splits are shares of the groups, or else of the rows. The name of a group or row alone
             decides its split and its teacher; shares of names hold on average
    unit     what ε protects: group or record; None: group where the file has groups
    x        uint8 is an image; other numbers, true and false are features, standardised by the public rows' mean and
             deviation
    classes  by default the largest y plus 1, private rows included; then every class must occur
    """

    path: str
    seed: int
    private: float
    public: float
    classes: int | None = None
    unit: str | None = None

    def __post_init__(self) -> None:
        check_shares(self.seed, self.private, self.public)
        if self.unit is not None:
            one_of(("group", "record"), unit=self.unit)
        if self.classes is not None:
            whole(2, classes=self.classes)

    def load(self) -> DataSplits:
        x, y, arrays = self._read()
        group, keys = (keys_of(arrays[name]) if name in arrays else None for name in ("group", "id"))
        if group is None and self.unit == "group":
            raise InputError("unit", self.unit, "must be record or null where the file has no array group")
        by_record = group is not None and self.unit == "record"
        if by_record:
            print(f"nzc: {_BY_RECORD}", file=sys.stderr)
        role = arrays.get("role")
        names = keys if group is None else group
        chosen = self._drawn(arrays, names) if role is None else [role == name for name in SPLITS]
        if by_record and role is None and keys is None:
            keys = keys_of(np.arange(len(y)))  # a record that changes its group may change its split, and no other's
        where = [np.flatnonzero(rows) for rows in chosen]
        others = [x[rows] for rows in where[1:]]
        standardizer = None if x.dtype == np.uint8 else Standardizer.fit(others[0])
        prepare = standardizer or _images
        private = Records(x.of(where[0], prepare) if isinstance(x, FileRows) else prepare(x[where[0]]), y[where[0]])
        public, test = (Split(prepare(part), y[rows]) for part, rows in zip(others, where[1:], strict=True))
        classes = self.classes or int(y.max()) + 1
        fits_memory(8 * len(public) * classes, classes=classes)  # votes
        ids = texts_of(arrays["id"][chosen[1]]) if "id" in arrays else None
        splits = DataSplits(
            private, public, test, classes, where[1], standardizer, ids=ids, declared=self.classes is not None
        )
        if group is not None and not by_record:
            return replace(splits, groups=group[chosen[0]], grouped_by="array `group`")
        return splits if keys is None else replace(splits, keys=keys[chosen[0]])

    def _drawn(self, arrays: Mapping[str, AnyArray], names: Ints | None) -> list[Bools]:
        """Return the rows of the three splits, drawn by the keys of groups or rows, if they have names."""
        units, grouped = np.arange(len(arrays["y"])), "group" in arrays
        if names is not None:  # where nothing is private, the order of the names themselves decides
            units = names if self.private else arrays["group" if grouped else "id"]
        if (chosen := by_share(units, names is not None, self.private, self.public, self.seed)) is None:
            few = f"{len(np.unique(units)):,} {'groups' if grouped else 'rows'}"
            shares = f"dataset.private={self.private} and dataset.public={self.public}"
            raise InputError("path", self.path, f"{few} are too few for {shares} and a test split; save a role per row")
        return chosen

    def _read(self) -> tuple[AnyArray | FileRows, Ints, dict[str, AnyArray]]:
        """Return x, y and all arrays by name. They are sound; x stays in its file where each array has its own."""
        read = read_folder if os.path.isdir(self.path) else load_arrays
        arrays = read(self.path, "path", ("x", "y"), ("role", "group", "id"))
        if complaint := next(_complaints(arrays, self.classes), None):
            raise InputError("path", self.path, complaint)
        x, y = arrays["x"], arrays["y"]
        if self.classes is not None and y.max() >= self.classes:
            raise InputError("classes", self.classes, "must be more than every y of the file")
        return x, y.astype(np.int64), arrays


def _complaints(arrays: Mapping[str, Any], classes: int | None) -> Iterator[str]:
    """Yield what is wrong, the most basic first: a check relies on those before it. No value of a record is quoted.

    classes  number of classes; None: all from 0 to the largest must occur
    """
    x, y, role = arrays["x"], arrays["y"], arrays.get("role")
    if len(x.shape) < 2 or not prod(x.shape):
        yield f"x has the shape {list(x.shape)}; it must be [rows, features], or images [rows, height, width]"
    for name, array in arrays.items():
        kinds, remedy = _TYPES[name]
        if name != "x" and array.shape != x.shape[:1]:
            one_hot = "; save y.argmax(axis=1) where its rows are one-hot" if name == "y" else ""
            yield f"{name} has the shape {list(array.shape)}; there must be one {name} per row, [{len(x)}]{one_hot}"
        if array.dtype.kind not in kinds:
            yield f"{name} is {'text' if array.dtype.kind in 'US' else array.dtype}; save {remedy}"
    if x.dtype.kind == "f":
        wrong = np.logical_or.reduce([~np.isfinite(part).all(axis=0) for part in blocks(x)])
        if wrong.any():
            where = f"{wrong.sum():,} columns, first x[:, {', '.join(map(str, np.argwhere(wrong)[0]))}]"
            remedy = "fill them, or use dataset=table, which accepts missing values"
            yield f"x has missing (NaN) or infinite values in {where}; {remedy}"
    present, unknown = np.unique(y[y >= 0]), y == UNKNOWN
    if y.min() < UNKNOWN:
        yield "y has negative numbers other than -1, which marks a public row of unknown class; classes are 0, 1, …"
    if len(present) < 2:
        yield f"y must have two classes or more; every y is {'the same' if len(present) else -1}"
    if present[0] == 1 and len(present) == present[-1] and (classes is None or classes <= present[-1]):
        yield f"classes are 1 … {len(present)}; they must be 0 … {len(present) - 1}: save np.where(y > 0, y - 1, y)"
    if classes is None and len(present) != present[-1] + 1:
        numbered = "y[y >= 0] = np.unique(y[y >= 0], return_inverse=True)[1]"
        yield f"y has no row of a class below the largest; number the classes: {numbered}. Or set dataset.classes"
    if role is None and unknown.any():
        yield f"y is -1 in {unknown.sum():,} rows, and there is no role; save a role per row, or leave these rows out"
    if role is not None:
        if others := int((~np.isin(role, SPLITS)).sum()):
            yield f"role has other names in {others:,} rows; each role must be one of {', '.join(SPLITS)}"
        if not (role == "public").any():
            yield "role has no public rows; give this role to the rows that teachers label and the student learns from"
        if others := int((unknown & (role != "public")).sum()):
            yield f"y is -1 in {others:,} private or test rows; only public rows may be of unknown class"
    for name in arrays.keys() & {"group", "id"}:
        names = arrays[name]
        if names.dtype.kind in "fUS" and (missing := int(np.isin(texts_of(names), _MISSING).sum())):
            yield f"{name} has {missing:,} missing values; give each of these rows a name of its own, or leave them out"


def _images(x: AnyArray) -> AnyArray:
    """Return uint8 images as [rows, channels, height, width]; rows of one dimension stay as they are."""
    if x.ndim == 3:
        return x[:, None]
    if x.ndim == 4 and x.shape[-1] in (1, 3) and x.shape[1] not in (1, 3):
        return np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    return x
