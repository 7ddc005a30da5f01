"""Your own arrays in an .npz file, or in a folder of .npy files."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from nzc.data.arrays import load_arrays
from nzc.data.hashing import keys_of, texts_of
from nzc.data.images import channels_first
from nzc.data.rows import FileRows, blocks
from nzc.data.splits import SPLITS, UNKNOWN, Dataset, DataSplits, Overlap, Records, Split, by_share, to_drop
from nzc.data.standardizer import Standardizer
from nzc.settings import BelowOne, Between0And1, CountOrZero, TwoOrMore
from nzc.types import AnyArray, Bools
from nzc.validation import InputError

#: The kinds of dtypes that each array may have, and what to save instead of others.
_TYPES = {
    "x": ("biuf", "numbers; dataset=table accepts text and dates"),
    "y": ("biu", "whole numbers 0, 1, …; of text, np.unique(y, return_inverse=True)[1]"),
    "role": ("U", "text"),
    "group": ("biufUS", "text or numbers"),
    "id": ("biufUS", "text or numbers"),
    "budget": ("biufUS", "text or numbers"),
}
#: Text that stands for a missing value: what np.asarray(…, dtype=str) makes of one.
_MISSING = ("", "nan", "None", "<NA>", "NaT")


@dataclass(frozen=True)
class Npz(Dataset):
    """Arrays x [rows, ...], y [rows] with classes 0, 1, …, and optionally role, group, id and budget, each [rows].

    path     an .npz file; or a folder with x.npy, y.npy and so on: each teacher then reads its own rows of x.npy, and
             the private rows are never in memory all at once
    x        uint8 is an image; other numbers, true and false are features, standardised by the public rows
    role     private, public or test (may be absent); the public rows of unknown class have y = −1
    group    whom a row is about, as numbers or text: one teacher learns from all private rows of a group
    id       the row's own name, as a number or text; without group and id a row is known by its number
    budget   the group of people whose ε holds for the row, as a number or text (`budget.groups`)
    private  without roles, the share of the groups, or else of the rows; likewise public. The name of a group or row
             alone decides its split and its teacher; shares of names hold on average
    overlap  what becomes of groups that have private rows and others: refuse, drop (their private rows), or allow
    classes  by default the largest y plus 1, private rows included; then every class must occur
    """

    path: str
    seed: CountOrZero
    private: BelowOne
    public: Between0And1
    classes: TwoOrMore | None = None
    overlap: Overlap = "refuse"

    def check(self) -> int | None:
        role = load_arrays(self.path, ["role"]).get("role")
        return None if role is None else int((role == "public").sum())

    def load(self) -> DataSplits:
        arrays = load_arrays(self.path, list(_TYPES))
        if complaint := next(_complaints(arrays, self.classes), None):
            raise InputError("path", self.path, complaint)
        x, y, role = arrays["x"], arrays["y"].astype(np.int64), arrays.get("role")
        group, keys = (keys_of(arrays[name]) if name in arrays else None for name in ("group", "id"))
        by_record = group is not None and self.unit == "record"
        if by_record:
            rows = "rows of one group go to several teachers, so ε protects a record, not a group"
            print(f"nzc: dataset.unit=record: {rows}", file=sys.stderr)
        chosen = self._drawn(arrays) if role is None else [role == name for name in SPLITS]
        if by_record and role is None and keys is None:
            keys = keys_of(np.arange(len(y)))  # a record that changes its group may change its split, and no other's
        where = [np.flatnonzero(rows) for rows in chosen]
        if group is not None and role is not None:
            own, *people = (frozenset(group[rows].tolist()) for rows in where)
            dropped = to_drop(own, dict(zip(SPLITS[1:], people, strict=True)), "array `group`", self.overlap)
            where[0] = where[0][~np.isin(group[where[0]], [*dropped])]
        others = [x[rows] for rows in where[1:]]
        standardizer = None if x.dtype == np.uint8 else Standardizer.fit(others[0])
        prepare = standardizer or channels_first
        mine = FileRows(x.file, x.stored, where[0], prepare) if isinstance(x, FileRows) else prepare(x[where[0]])
        public, test = (Split(prepare(part), y[rows]) for part, rows in zip(others, where[1:], strict=True))
        splits = DataSplits(
            Records(mine, y[where[0]]), public, test, self.classes or int(y.max()) + 1, where[1], standardizer,
            ids=texts_of(arrays["id"][chosen[1]]) if "id" in arrays else None, declared=self.classes is not None,
        )  # fmt: skip
        if "budget" in arrays:
            splits = replace(splits, budgets=texts_of(arrays["budget"][where[0]]))
        if group is not None and not by_record:
            return replace(splits, groups=group[where[0]], grouped_by="array `group`")
        return splits if keys is None else replace(splits, keys=keys[where[0]])

    def _drawn(self, arrays: dict[str, AnyArray]) -> list[Bools]:
        """Return the rows of the three splits, drawn by the keys of groups or rows, if they have names."""
        units = arrays.get("group", arrays.get("id", np.arange(len(arrays["y"]))))
        named = "group" in arrays or "id" in arrays
        # Where nothing is private, the order of the names themselves decides.
        drawn = keys_of(units) if named and self.private else units
        if (chosen := by_share(drawn, named, self.private, self.public, self.seed)) is None:
            few = f"{len(np.unique(units)):,} {'groups' if 'group' in arrays else 'rows'}"
            shares = f"dataset.private={self.private} and dataset.public={self.public}"
            raise InputError("path", self.path, f"{few} are too few for {shares} and a test split; save a role per row")
        return chosen


def _complaints(arrays: dict[str, Any], classes: int | None) -> Iterator[str]:
    """Yield what is wrong, the most basic first: a check relies on those before it. No value of a record is quoted."""
    if absent := [name for name in ("x", "y") if name not in arrays]:
        yield f"must hold the arrays x and y of an .npz file, or x.npy and y.npy; {' and '.join(absent)} is missing"
    x, y, role = arrays["x"], arrays["y"], arrays.get("role")
    if len(x.shape) < 2 or not prod(x.shape):
        yield f"x has the shape {list(x.shape)}; it must be [rows, features], or images [rows, height, width]"
    for name, array in arrays.items():
        kinds, remedy = _TYPES[name]
        if name != "x" and array.shape != x.shape[:1]:
            yield f"{name} has the shape {list(array.shape)}; there must be one {name} per row, [{len(x)}]"
        if array.dtype.kind not in kinds:
            yield f"{name} is {'text' if array.dtype.kind in 'US' else array.dtype}; save {remedy}"
    wrong = [~np.isfinite(part).all(axis=0) for part in (blocks(x) if x.dtype.kind == "f" else ())]
    if (columns := np.argwhere(np.any(wrong, axis=0))).size:
        where = f"{len(columns):,} columns, first x[:, {', '.join(map(str, columns[0]))}]"
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
        yield "y has no row of a class below the largest; number the classes 0, 1, …, or set dataset.classes"
    if classes is not None and present[-1] >= classes:
        raise InputError("classes", classes, "must be more than every y of the file")
    if unknown.any() and (role is None or (role[unknown] != "public").any()):
        yield f"y is -1 in {unknown.sum():,} rows; only public rows, by their role, may be of unknown class"
    if role is not None and not np.isin(role, SPLITS).all():
        yield f"role has other names in {(~np.isin(role, SPLITS)).sum():,} rows than {', '.join(SPLITS)}"
    if role is not None and not (role == "public").any():
        yield "role has no public rows; give this role to the rows that teachers label and the student learns from"
    for name in arrays.keys() & {"group", "id"}:
        if missing := int(np.isin(texts_of(arrays[name]), _MISSING).sum()):
            yield f"{name} has {missing:,} missing values; give each of these rows a name of its own, or leave them out"
