"""What can be wrong with the arrays of an .npz file.

`complaints` yields the most basic complaint first. Only the first one is sure: a check relies on those before it.
A complaint names arrays, columns, types, counts and classes, but never a value of a record.
"""

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import numpy as np

from nzc.data.rows import LazyRows, blocks
from nzc.data.splits import SPLITS, UNKNOWN
from nzc.types import AnyArray

#: How to number classes without gaps; −1 stays as it is.
_NUMBERED = "y[y >= 0] = np.unique(y[y >= 0], return_inverse=True)[1]"
#: Text that stands for a missing value: what np.asarray(…, dtype=str) makes of one.
_MISSING = ("", "nan", "None", "<NA>", "NaT")
#: What x may not be, by the kind of its dtype: name and remedy.
_NO_NUMBERS = {
    "U": ("text", "save numbers, or use dataset=table, which accepts text"),
    "S": ("text", "save numbers, or use dataset=table, which accepts text"),
    "c": ("complex", "save real numbers: np.concatenate([x.real, x.imag], axis=1)"),
    "M": ("dates", "save numbers, or use dataset=table, which accepts dates"),
    "m": ("durations", "save numbers: x / np.timedelta64(1, 's')"),
    "V": ("an array with named fields", "save one array of numbers, or use dataset=table, which has named columns"),
}


def complaints(arrays: Mapping[str, Any], classes: int | None) -> Iterator[str]:
    """Yield what is wrong with the arrays x [rows, ...] and y [rows], and role, group and id [rows] where given.

    x may be LazyRows.

    classes  number of classes; None: all from 0 to the largest must occur
    """
    x, y = arrays["x"], arrays["y"]
    yield from _shapes(x, y)
    yield from _types_of_y(y)
    yield from _classes(y, classes)
    yield from _features(x)
    for name in ("role", "group", "id"):
        if name in arrays and (shape := list(arrays[name].shape)) != list(y.shape):
            yield f"{name} has the shape {shape}; there must be one {name} per row, {list(y.shape)}"
    yield from _roles(arrays.get("role"), y)
    for name in ("group", "id"):
        yield from _names(name, arrays.get(name))


def _shapes(x: AnyArray | LazyRows, y: AnyArray) -> Iterator[str]:
    if len(x.shape) < 2:
        yield f"x has the shape {list(x.shape)}; it must be [rows, features], or images [rows, height, width]"
    if y.ndim != 1:
        remedy = ""
        if y.ndim == 2:
            remedy = "; save y.ravel()" if y.shape[1] == 1 else "; save y.argmax(axis=1) if its rows are one-hot"
        yield f"y has the shape {list(y.shape)}; there must be one y per row, [{len(x)}]{remedy}"
    if len(x) != len(y):
        yield f"x has {len(x):,} rows and y has {len(y):,}; there must be one y per row of x"
    if not prod(x.shape):
        yield f"x has the shape {list(x.shape)}; it must have at least one row and one column"


def _features(x: AnyArray | LazyRows) -> Iterator[str]:
    if x.dtype.kind in _NO_NUMBERS:
        kind, remedy = _NO_NUMBERS[x.dtype.kind]
        yield f"x is {kind}; {remedy}"
    if x.dtype.kind == "f" and x.dtype.itemsize > 8:
        yield f"x is {x.dtype}, whose values float64 cannot hold; save x.astype(np.float64)"
    if x.dtype.kind != "f" or all(np.isfinite(part).all() for part in blocks(x)):
        return
    if (missing := sum(np.isnan(part).sum(axis=0) for part in blocks(x))).any():
        remedy = "fill them, or use dataset=table, which accepts missing values"
        yield f"x has missing values (NaN): {_listed(missing)}; {remedy}"
    infinite = sum(np.isinf(part).sum(axis=0) for part in blocks(x))
    yield f"x has infinite values: {_listed(infinite)}; replace them by finite numbers"


def _types_of_y(y: AnyArray) -> Iterator[str]:
    if y.dtype.kind in "US":
        remedy = "names, y = np.unique(y, return_inverse=True), then y = -1 where a public row's class is unknown"
        yield f"y is text; save whole numbers: {remedy}. Or use dataset=table, which accepts text"
    if y.dtype.kind == "f":
        if wrong := int((~np.isfinite(y)).sum()):
            yield f"y has {wrong:,} missing or infinite values; save -1 for public rows, and leave out other rows"
        if (y != np.rint(y)).any():
            yield "y has fractions; y must be classes, whole numbers 0, 1, …, not quantities"
        yield f"y is {y.dtype}; save its whole numbers as integers: y.astype(int)"
    if y.dtype.kind not in "iub":
        yield f"y is {y.dtype}; y must be whole numbers 0, 1, …"


def _classes(y: AnyArray, classes: int | None) -> Iterator[str]:
    if y.min() < UNKNOWN:
        yield "y has negative numbers other than -1, which marks a public row of unknown class; classes are 0, 1, …"
    found = np.unique(y[y >= 0])
    if len(found) < 2:
        yield f"y must have two classes or more; every y is {'the same' if len(found) else -1}"
    top = int(found[-1])
    if found[0] == 1 and len(found) == top and (classes is None or classes <= top):
        remedy = "y - 1" if y.min() > 0 else "np.where(y > 0, y - 1, y)"
        yield f"classes are 1 … {top}; subtract 1, because they must be 0 … {top - 1}: {remedy}"
    if top >= len(y):
        yield f"y has whole numbers that are not below the number of rows; number the classes 0, 1, …: {_NUMBERED}"
    if classes is None and (absent := np.setdiff1d(np.arange(top), found)).size:
        gap = f"y has no row of class {absent[0]}" + f", nor of {len(absent) - 1:,} others" * (len(absent) > 1)
        yield f"{gap}; number the classes without gaps: {_NUMBERED}. Or set dataset.classes, their number"


def _roles(role: AnyArray | None, y: AnyArray) -> Iterator[str]:
    if role is None:
        if unknown := int((y == UNKNOWN).sum()):
            yield f"y is -1 in {unknown:,} rows, and there is no role; save a role per row, or leave these rows out"
        return
    allowed = ", ".join(SPLITS)
    if role.dtype.kind != "U":
        remedy = "role.astype(str)" if role.dtype.kind == "S" else f"one of {allowed}"
        yield f"role is {role.dtype}; save text: {remedy}"
    if wrong := int((~np.isin(role, SPLITS)).sum()):
        yield f"role has other names in {wrong:,} rows; each role must be one of {allowed}"
    names = np.unique(role)
    if "public" not in names:
        yield "role has no public rows; give this role to the rows that teachers label and the student learns from"
    unknown_by_role = {name: int((y[role == name] == UNKNOWN).sum()) for name in ("private", "test")}
    if said := " and ".join(f"{count:,} {name} rows" for name, count in unknown_by_role.items() if count):
        yield f"y is -1 in {said}; only public rows may be of unknown class: leave these rows out"


def _names(array: str, names: AnyArray | None) -> Iterator[str]:
    if names is None:
        return
    kind = names.dtype.kind
    if kind not in "biufUS":
        yield f"{array} is {names.dtype}; save text or numbers: {array}.astype(str)"
    missing = 0
    if kind == "f":
        missing = int(np.isnan(names).sum())
    elif kind in "US":
        missing = int(np.isin(names, np.array(_MISSING, kind)).sum())
    if missing:
        own = "a group of its own" if array == "group" else "an id"
        yield f"{array} has {missing:,} missing values; give each of these rows {own}, or leave them out"


def _listed(counts: AnyArray) -> str:
    """Return counts [...] by column, such as `12 in column 3, 4 in column 7 (the first is column 0)`."""
    found = [tuple(place) for place in np.argwhere(counts).tolist()]
    shown = [f"{counts[place]:,} in {_place(place)}" for place in found[:4]]
    rest = [f"{sum(counts[place] for place in found[4:]):,} in {len(found) - 4:,} others"] * (len(found) > 4)
    return ", ".join(shown + rest) + " (the first is column 0)" * (counts.ndim == 1)


def _place(place: tuple[int, ...]) -> str:
    """Return how a column is called: `column 3`, or `x[:, 1, 2]` where rows have more dimensions."""
    return f"column {place[0]}" if len(place) == 1 else f"x[:, {', '.join(map(str, place))}]"
